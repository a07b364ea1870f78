"""``python -m robustatlas`` is the command line, and so is ``robustatlas``."""

import atexit
import os
import signal
import sys
from types import FrameType

STOPPED = "Stopped. What was finished before is kept; the same command goes on from there."
"""Sentence after a Ctrl-C, for commands that have none of their own."""

INTERRUPTED = 130
"""The exit code of a Ctrl-C."""


def main() -> None:
    """Run the command line as this process, and end it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _answer_interrupt)
    try:
        run()
    except SystemExit as end:
        if isinstance(end.code, int | None) and (end.code == INTERRUPTED or "ray" in sys.modules):
            _leave(end.code or 0)
        raise


def run() -> None:
    """Run the command line; a Ctrl-C counts from its first import on."""
    try:
        from robustatlas.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        print(f"\n{STOPPED}", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _answer_interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt after a Ctrl-C, or end the process at once if it comes in the middle of an import.

    An extension module that meets a KeyboardInterrupt while it is imported turns it into an error of its own (NumPy) or
    aborts the process (torch), and a package that is imported only if it is there counts as missing. No work is lost
    by ending there, as nothing is at work during an import.
    """
    if _is_importing(frame):
        os.write(2, f"\n{STOPPED}\n".encode())
        os._exit(INTERRUPTED)
    signal.default_int_handler(number, frame)


def _is_importing(frame: FrameType | None) -> bool:
    """Return True if ``frame`` runs inside of an import: Python says so nowhere but in the frames that called it."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def _leave(code: int) -> None:
    """End this process without taking the interpreter apart.

    Threads of Ray outlive its shutdown, and one that still answers then crashes the process after its work is done. And
    an interpreter that heard a Ctrl-C while it was making a dataclass ends by the signal, whatever it is told.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
