"""Processes of this machine, and the lines to them.

Of the standard library alone: on a cluster it is held by a process that imports nothing else.
"""

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait

from robustatlas.evaluation.workers.nursery import Child, Nursery

_PATIENCE = 10.0
"""Seconds that a process has to end after its line did."""

_SERVING, _WORK = "robustatlas.evaluation.workers.serving", "robustatlas.evaluation.work"
_COMMAND = f"import sys; from {_SERVING} import serve; serve(int(sys.argv[1]))"


class Process:
    """A process that computes on a device with so many threads, and the line to it, whose end is its own, whatever it
    is at; ``reports``: whether it says how far its jobs are. It is a child of ``nursery``, where there is one that has
    not ended."""

    def __init__(self, device: str, threads: int, reports: bool, nursery: Nursery | None = None) -> None:
        self.where = device
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = _forked(nursery, theirs.fileno()) or _started(theirs.fileno(), threads)
        self.connection = Connection(ours.detach())
        self.say(pickle.dumps((device, threads, reports)))

    def say(self, message: bytes) -> None:
        """Send it, or nothing where the process has died: then the line has ended, which is heard next."""
        with suppress(OSError):
            self.connection.send_bytes(message)

    def hear(self) -> bytes:
        """The next that is said; "lost" and how it ended, where the process has died."""
        try:
            return self.connection.recv_bytes()
        except (EOFError, OSError):
            return pickle.dumps(("lost", self._end()))

    def _end(self) -> str:
        try:
            code = self.process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            return "hung up"
        if code >= 0:
            return f"ended with code {code}"
        return f"was killed by signal {-code} ({signal.Signals(-code).name})"

    def kill(self) -> None:
        """Have the process end."""
        self.process.kill()

    def stop(self) -> None:
        """The same, and wait until it has ended."""
        self.process.kill()
        self.process.wait()
        self.connection.close()


def _forked(nursery: Nursery | None, descriptor: int) -> Child | None:
    if nursery is not None:
        with suppress(ChildProcessError):
            return nursery.child(f"{_SERVING}:serve", descriptors=[descriptor])
    return None


def _started(descriptor: int, threads: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND, str(descriptor)],
        stdin=subprocess.DEVNULL,
        stdout=2,
        pass_fds=[descriptor],
        env=_environment(threads),
        start_new_session=True,  # Ctrl-C is for this process, which ends the others
    )


def begun_nursery(threads: int) -> Nursery | None:
    """Where processes of so many threads come from; None on a system that cannot fork them."""
    return Nursery(_SERVING, _WORK, environment=_environment(threads)) if hasattr(os, "pidfd_open") else None


def _environment(threads: int) -> dict[str, str]:
    path = os.pathsep.join(str(place) for place in sys.path if place)
    return os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}


class Processes:
    """Room for one process a device (a device may stand several times), of so many threads each, until it is closed;
    they come from ``nursery``, which is the caller's, where there is one."""

    def __init__(self, devices: Sequence[str], threads: int, nursery: Nursery | None = None) -> None:
        self.devices, self.threads = devices, threads
        self._own = begun_nursery(threads) if nursery is None else None
        self._nursery = nursery or self._own

    def start(self, there: Sequence[Process]) -> list[Process]:
        """A process for each device that has none."""
        vacant = Counter(self.devices) - Counter(process.where for process in there)
        return [Process(device, self.threads, True, self._nursery) for device in vacant.elements()]

    def close(self) -> None:
        """No more processes are started."""
        if self._own is not None:
            self._own.close()

    def speaking(self, lines: Sequence[Process]) -> list[Process]:
        """Wait until some process says something; which do."""
        said = wait([process.connection for process in lines])
        return [process for process in lines if process.connection in said]


class Relay:
    """What an actor of Ray does: it passes on what is said to a process beside it, and back what that answers.

    The same work takes a few percent more of the processor in a process of Ray's, and where the processor is short the
    processes of Ray get one share of it between them.
    """

    def begin(self, device: str, threads: int) -> bytes:
        """Start the process; what it says first."""
        self.process = Process(device, threads, reports=False)
        return self.process.hear()

    def ask(self, message: bytes) -> bytes:
        """Say something; what is answered."""
        self.process.say(message)
        return self.process.hear()
