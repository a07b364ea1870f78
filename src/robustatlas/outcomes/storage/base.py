"""What a run asks of the place where its files lie."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from robustatlas.outcomes.columns import Arrays
from robustatlas.outcomes.tables import Columns


class Storage(Protocol):
    """Holds tables and texts under names like ``outcomes/linf-0123456789ab/0-512-1b2c3d4e``."""

    @property
    def folder(self) -> Path | None:
        """Where its files, or copies of them, lie on this machine; None: nowhere."""

    def names(self, folder: str) -> list[str]:
        """Of the tables in a folder."""

    def read(self, name: str) -> Arrays:
        """A table; CorruptFileError where it is damaged."""

    def gather(self, names: Sequence[str], wanted: Sequence[str], strengths: int) -> Arrays:
        """Some of OUTCOME_COLUMNS of several tables together; CorruptFileError where one is damaged."""

    def write(self, name: str, columns: Columns, about: Mapping[str, str]) -> None:
        """Keep a table, whole or not at all."""

    def texts(self, folder: str) -> dict[str, str]:
        """The texts in a folder, by their place."""

    def put_text(self, name: str, text: str) -> None:
        """Keep a text, unless there is one of this name."""

    def drop(self, name: str) -> None:
        """Forget the tables of a folder, or a text."""

    def adopt(self, file: Path, name: str) -> None:
        """Keep a copy of a file of another run, ``name`` with its ending, unless there is one of this name."""

    def place(self, name: str) -> str:
        """What messages call a table."""

    def abouts(self, names: Sequence[str]) -> list[dict[str, str]]:
        """What was said of each of some tables of one folder when written; CorruptFileError for a damaged one."""

    def flush(self) -> None:
        """Wait until all that was written is where it belongs."""
