"""``python -m robustatlas`` is the command line."""

from robustatlas.cli import main

if __name__ == "__main__":
    main()
