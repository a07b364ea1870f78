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
        signal.signal(signal.SIGINT, _interrupted)
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


def _interrupted(number: int, frame: FrameType | None) -> None:
    """Answer a Ctrl-C: as always, but for the middle of an import, where libraries in C++ abort the process if they
    meet a KeyboardInterrupt. Nothing is at work there, so that it can end at once."""
    outer = frame
    while outer is not None:
        if outer.f_code.co_filename == "<frozen importlib._bootstrap>":
            os.write(2, f"\n{STOPPED}\n".encode())
            os._exit(INTERRUPTED)
        outer = outer.f_back
    signal.default_int_handler(number, frame)


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
