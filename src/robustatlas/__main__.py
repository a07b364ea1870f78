"""``python -m robustatlas`` is the command line, and so is ``robustatlas``."""

from __future__ import annotations

import atexit
import os
import sys


def main() -> None:
    """Run the command line as this process, and end it."""
    try:
        run()
    except SystemExit as end:
        if "ray" in sys.modules and (end.code is None or isinstance(end.code, int)):
            _leave(end.code or 0)
        raise


def run() -> None:
    """Run the command line; a Ctrl-C counts from its first import on."""
    try:
        from robustatlas.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        print("Aborted.", file=sys.stderr)
        sys.exit(130)


def _leave(code: int) -> None:
    """End this process without taking the interpreter apart: threads of Ray outlive its shutdown, and one that still
    answers then crashes the process after its work is done."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
