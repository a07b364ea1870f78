"""The command line, as tests enter it."""

import contextlib
import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from robustatlas.cli import main


class Said(NamedTuple):
    """What a command ended with, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """All of it in one line, wherever the width broke it."""
        return " ".join((self.out + self.err).split())


def entered(*words: object, code: int | None = 0, columns: int = 80) -> Said:
    """A command, entered after the program's name in a terminal of so many columns; it must end with this code, or
    with any for None."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, pytest.raises(SystemExit) as ended:
        patched.setattr("sys.argv", ["robustatlas", *map(str, words)])
        patched.setenv("COLUMNS", str(columns))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    said = Said(int(ended.value.code or 0), out.getvalue(), err.getvalue())
    assert code in (None, said.code), said
    return said


def list_commands(group: Any, *names: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command of a group and of the groups inside it, with its names."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from list_commands(command, *names, name)
        else:
            yield (*names, name), command
