"""``python -m robustatlas`` is the command line, and so is ``robustatlas``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; a Ctrl-C counts from its first import on."""
    try:
        from robustatlas.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        print("Aborted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
