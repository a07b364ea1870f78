"""A run in a directory: tables and texts as files."""

import io
import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from pydantic import TypeAdapter

from robustatlas.common.errors import UserError
from robustatlas.common.files import inside, is_temporary, publish_once, write_atomically
from robustatlas.outcomes.columns import OUTCOME_COLUMNS, Arrays
from robustatlas.outcomes.tables import (
    Columns,
    CorruptFileError,
    read_abouts,
    read_columns,
    read_parquet,
    write_parquet,
)


class Directory:
    """Files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def folder(self) -> Path:
        return self._root

    def files(self, folder: str, *endings: str) -> list[Path]:
        """Whole ones in a folder, sorted by their names."""
        found = [path for path in self._at(folder).glob("*") if path.suffix in endings]
        return sorted(inside(self._root, path) for path in found if not is_temporary(path))

    def names(self, folder: str) -> list[str]:
        files = self.files(folder, ".parquet", ".npz")
        return sorted(path.relative_to(self._root).with_suffix("").as_posix() for path in files)

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
        return {str(path): _text_in(path) for path in self.files(folder, ".json")}

    def put_text(self, name: str, text: str) -> None:
        publish_once(self._at(f"{name}.json"), text)

    def drop(self, name: str) -> None:
        for path in [*self.files(name, ".parquet"), self._root / f"{name}.json"]:
            path.unlink(missing_ok=True)

    def adopt(self, file: Path, name: str) -> None:
        if not (target := self._at(name)).exists():
            write_atomically(target, partial(shutil.copyfile, file))

    def place(self, name: str) -> str:
        return str(self._path(name))

    def abouts(self, names: Sequence[str]) -> list[dict[str, str]]:
        paths = [self._path(name) for name in names]
        if any(path.suffix == ".npz" for path in paths):
            return [_about_of_npz(path) for path in paths]
        told = read_abouts(paths)
        return [told[path] for path in paths]

    def flush(self) -> None:
        return

    def _path(self, name: str) -> Path:
        return self._at(f"{name}{'.npz' if name.startswith('adversarial/') else '.parquet'}")

    def _at(self, name: str) -> Path:
        return inside(self._root, self._root / name)


def text_of(path: Path) -> str:
    """What a file says; :class:`UserError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}.") from error


def _text_in(path: Path) -> str:
    """What a file says; nothing where it is not a text, which whoever wants a record of it refuses by name."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


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
