"""Where the files of a run lie: tables and texts by name, in a directory or in memory."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from pydantic import TypeAdapter

from robustatlas.errors import UserError
from robustatlas.files import is_temporary, publish_once, write_atomically
from robustatlas.outcomes.columns import OUTCOME_COLUMNS, Arrays, stacked
from robustatlas.outcomes.tables import (
    Columns,
    CorruptFileError,
    read_abouts,
    read_columns,
    read_parquet,
    write_parquet,
)


class Storage(Protocol):
    """Holds tables and texts under names like ``outcomes/linf-0123456789ab/0-512-1b2c3d4e``."""

    def names(self, folder: str) -> list[str]:
        """Of the tables in a folder."""
        ...

    def read(self, name: str) -> Arrays:
        """A table; CorruptFileError where it is damaged."""
        ...

    def gather(self, names: Sequence[str], wanted: Sequence[str], strengths: int) -> Arrays:
        """Some of OUTCOME_COLUMNS of several tables together; CorruptFileError where one is damaged."""
        ...

    def write(self, name: str, columns: Columns, about: Mapping[str, str]) -> None:
        """Keep a table, whole or not at all."""
        ...

    def texts(self, folder: str) -> dict[str, str]:
        """The texts in a folder, by their place."""
        ...

    def put_text(self, name: str, text: str) -> None:
        """Keep a text, unless there is one of this name."""
        ...

    def place(self, name: str) -> str:
        """What messages call a table."""
        ...

    def abouts(self, names: Sequence[str]) -> list[dict[str, str]]:
        """What was said of each of some tables of one folder when it was written; CorruptFileError where one is
        damaged."""
        ...


class Memory:
    """In this process."""

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

    def place(self, name: str) -> str:
        return name

    def abouts(self, names: Sequence[str]) -> list[dict[str, str]]:
        return [self._about[name] for name in names]


class Directory:
    """Files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        files = [path for path in self._root.glob(f"{folder}/*") if path.suffix in (".parquet", ".npz")]
        return sorted(
            path.relative_to(self._root).with_suffix("").as_posix() for path in files if not is_temporary(path)
        )

    def read(self, name: str) -> Arrays:
        path = self._path(name)
        return _read_npz(path, ("index", "images")) if path.suffix == ".npz" else read_parquet(path)

    def gather(self, names: Sequence[str], wanted: Sequence[str], strengths: int) -> Arrays:
        lists = {name: strengths for name, (_, dimensions) in OUTCOME_COLUMNS.items() if dimensions == 2}
        return read_columns([self._path(name) for name in names], wanted, lists, OUTCOME_COLUMNS)

    def write(self, name: str, columns: Columns, about: Mapping[str, str]) -> None:
        path = self._path(name)
        if path.suffix == ".npz":
            _write_npz(path, columns, about)
        else:
            write_parquet(path, columns, about)

    def texts(self, folder: str) -> dict[str, str]:
        files = [path for path in sorted(self._root.glob(f"{folder}/*.json")) if not is_temporary(path)]
        return {str(path): text_of(path) for path in files}

    def put_text(self, name: str, text: str) -> None:
        publish_once(self._root / f"{name}.json", text)

    def place(self, name: str) -> str:
        return str(self._path(name))

    def abouts(self, names: Sequence[str]) -> list[dict[str, str]]:
        paths = [self._path(name) for name in names]
        if any(path.suffix == ".npz" for path in paths):
            return [_about_of_npz(path) for path in paths]
        told = read_abouts(paths)
        return [told[path] for path in paths]

    def _path(self, name: str) -> Path:
        return self._root / f"{name}{'.npz' if name.startswith('adversarial/') else '.parquet'}"


def text_of(path: Path) -> str:
    """What a file says; :class:`UserError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


def _write_npz(path: Path, arrays: Columns, about: Mapping[str, str]) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, index=arrays["index"], images=arrays["images"], about=np.array(json.dumps(dict(about))))

    write_atomically(path, write)


def _about_of_npz(path: Path) -> dict[str, str]:
    said = _read_npz(path, ("about",), complete=False).get("about")
    return {} if said is None else TypeAdapter(dict[str, str]).validate_json(str(said))


def _read_npz(path: Path, names: Sequence[str], complete: bool = True) -> Arrays:
    """The arrays of ``names`` in a file; those that it has, unless it has to be ``complete``."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names if complete or name in arrays}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise CorruptFileError(
            f"{path} cannot be read ({error}); delete it and run the same evaluation again."
        ) from error
