"""A worker in a process of its own, and the line to it.

Of the standard library alone: on a cluster it is held by a process that imports nothing else.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

_PATIENCE = 10.0
"""Seconds that a process has to end after its line did."""

_COMMAND = "import sys; from robustatlas.evaluation.worker import serve; serve(int(sys.argv[1]))"


class Line:
    """To a process of this machine, which this starts and whose end is that of the line, whatever it is at.

    It says hello, is given a :class:`~robustatlas.evaluation.worker.Kit` and then jobs, and answers, all of it pickled.

    Args:
        path: where the process imports from.
        threads: that it may compute with.
    """

    def __init__(self, path: Sequence[str], threads: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=2,
                pass_fds=[theirs.fileno()],
                env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)), "OMP_NUM_THREADS": str(threads)},
                start_new_session=True,  # Ctrl-C is for this process, which ends the others
            )
        self.connection = Connection(ours.detach())

    def say(self, message: bytes) -> None:
        """Send it, or nothing where the process has died: then the line has ended, which is heard next."""
        with suppress(OSError):
            self.connection.send_bytes(message)

    def hear(self) -> bytes:
        """The next that is said.

        Raises:
            EOFError, OSError: the process has died.
        """
        return self.connection.recv_bytes()

    def end(self) -> str:
        """How the process ended, once its line has."""
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "hung up"
        if code >= 0:
            return f"ended with code {code}"
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


class Relay:
    """What an actor of Ray does: it passes jobs on to a process beside it, and back what that says.

    The same work takes a few percent more of the processor in a process of Ray's, and where the processor is short the
    processes of Ray get one share of it between them.
    """

    def begin(self, kit: bytes, threads: int) -> bytes:
        """Start the process and equip it; what it says to that."""
        self.line = Line(sys.path, threads)
        with suppress(EOFError, OSError):
            self.line.hear()
        self.line.say(kit)
        return self._heard()

    def ask(self, job: bytes) -> bytes:
        """Have a job done; what came of it."""
        self.line.say(job)
        return self._heard()

    def _heard(self) -> bytes:
        try:
            return self.line.hear()
        except (EOFError, OSError):
            return pickle.dumps(("lost", self.line.end()))
