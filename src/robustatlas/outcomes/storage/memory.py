"""A run that is kept nowhere but in this process."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from robustatlas.common.errors import UserError
from robustatlas.outcomes.columns import Arrays, stacked
from robustatlas.outcomes.tables import Columns


class Memory:
    """In this process."""

    folder = None

    def __init__(self) -> None:
        self._tables: dict[str, Arrays] = {}
        self._texts: dict[str, str] = {}
        self._about: dict[str, dict[str, str]] = {}

    def names(self, folder: str) -> list[str]:
        return [name for name in self._tables if name.startswith(f"{folder}/")]

    def read(self, name: str) -> Arrays:
        return dict(self._tables[name])

    def gather(self, names: Sequence[str], wanted: Sequence[str], strengths: int) -> Arrays:
        return stacked([self._tables[name] for name in names], wanted, strengths)

    def write(self, name: str, columns: Columns, about: Mapping[str, str]) -> None:
        self._tables[name], self._about[name] = dict(columns), dict(about)

    def texts(self, folder: str) -> dict[str, str]:
        return {name: text for name, text in self._texts.items() if name.startswith(f"{folder}/")}

    def put_text(self, name: str, text: str) -> None:
        self._texts.setdefault(name, text)

    def drop(self, name: str) -> None:
        self._tables = {key: table for key, table in self._tables.items() if not key.startswith(f"{name}/")}
        self._texts.pop(name, None)

    def adopt(self, file: Path, name: str) -> None:
        raise UserError(f"{file} cannot be kept in memory; give the folder of a run.")

    def place(self, name: str) -> str:
        return name

    def abouts(self, names: Sequence[str]) -> list[dict[str, str]]:
        return [self._about[name] for name in names]

    def flush(self) -> None:
        return
