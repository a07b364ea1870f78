"""A process that has imported everything once and forks: children begin in no time, where a start of Python takes
seconds.

The fork server of ``multiprocessing`` imports the main script again in each child, which runs one that is not guarded.
"""

import importlib
import json
import os
import selectors
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

_NUMBER = struct.Struct("i")
_LONGEST = 2**14
_UNKNOWN = 255
"""The code of a child whose nursery ended before it."""
_COMMAND = "import sys; from robustatlas.evaluation.workers.nursery import serve; serve(int(sys.argv[1]), sys.argv[2:])"


class Child:
    """A forked process, with what is used of ``subprocess.Popen``."""

    def __init__(self, pid: int, status: socket.socket) -> None:
        self.pid, self.status = pid, status
        self.returncode: int | None = None
        self._held: int | None = None
        with suppress(ProcessLookupError):  # it has ended already
            self._held = os.pidfd_open(pid)  # its number may be another process' once the nursery has taken note

    def kill(self) -> None:
        if self.returncode is None and self._held is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._held, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.status.settimeout(timeout)
            try:
                told = self.status.recv(_NUMBER.size)
            except TimeoutError as error:
                raise subprocess.TimeoutExpired(["child"], timeout or 0.0) from error
            self.returncode = _NUMBER.unpack(told)[0] if told else _UNKNOWN
            self.status.close()
            if self._held is not None:
                os.close(self._held)
        return self.returncode


class Nursery:
    """Forks children that call a function of ``modules``, which are imported once, in ``environment``; ends with who
    began it. Of Linux alone."""

    def __init__(self, *modules: str, environment: Mapping[str, str] | None = None) -> None:
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _COMMAND, str(theirs.fileno()), *modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the process that began it
            )

    def child(self, function: str, arguments: Sequence[str] = (), descriptors: Sequence[int] = ()) -> Child:
        """``module:name``, called with the arguments and then with the descriptors, which are passed on.

        Raises:
            ChildProcessError: the nursery has ended.
        """
        ours, theirs = socket.socketpair()
        told = b""
        with theirs, suppress(ConnectionError):
            request = json.dumps([function, list(arguments)]).encode()
            socket.send_fds(self.control, [request], [theirs.fileno(), *descriptors])
        with suppress(ConnectionError):
            told = ours.recv(_NUMBER.size)
        if not told:
            ours.close()
            raise ChildProcessError("The process that forks workers has ended.")
        (pid,) = _NUMBER.unpack(told)
        return Child(pid, ours)

    def close(self) -> None:
        """End it; its children go on."""
        self.control.close()
        self.process.wait()


def serve(descriptor: int, modules: Sequence[str]) -> None:
    """What runs in it: fork whenever that is asked for through a socket, until it ends."""
    control = socket.socket(fileno=descriptor)
    for wanted in modules:
        importlib.import_module(wanted)
    with selectors.DefaultSelector() as ready:
        ready.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                if key.data is None:
                    request, descriptors, _, _ = socket.recv_fds(control, _LONGEST, 8)
                    if not request:
                        return
                    status, *passed = descriptors
                    function, arguments = json.loads(request)
                    pid = os.fork()
                    if pid == 0:
                        ready.close()
                        control.close()
                        os.close(status)
                        _live(function, arguments, passed)
                    for descriptor in passed:
                        os.close(descriptor)
                    os.write(status, _NUMBER.pack(pid))
                    ready.register(os.pidfd_open(pid), selectors.EVENT_READ, (pid, status))
                else:
                    pid, status = key.data
                    ready.unregister(key.fileobj)
                    os.close(key.fd)
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                    with suppress(OSError):  # nobody waits for it any more
                        os.write(status, _NUMBER.pack(code))
                    os.close(status)


def _live(function: str, arguments: Sequence[str], descriptors: Sequence[int]) -> None:
    code = 1
    try:
        os.setsid()
        module, name = function.split(":")
        getattr(importlib.import_module(module), name)(*arguments, *descriptors)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
