"""Data sets in Parquet files as Hugging Face's hub has them: encoded pictures in a column ``image``, and labels."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from robustatlas.common.errors import UserError, first_line
from robustatlas.data.pictures import UNREADABLE, Pictures, Sizing

_IMAGES = ("image", "img")
_LABELS = ("label", "labels", "fine_label")
_SPLITS = {"test": ("test", "validation", "valid", "val"), "train": ("train",)}


class ParquetPictures(Pictures):
    """Encoded pictures in the rows of files."""

    def __init__(
        self,
        files: Sequence[Path],
        column: str,
        counts: Sequence[int],
        sizing: Sizing,
        name: str,
        channels: int | None = None,
    ) -> None:
        self.files, self.column = list(files), column
        self.first = np.concatenate([[0], np.cumsum(counts)])
        super().__init__(int(self.first[-1]), sizing, name, channels)

    def called(self, position: int) -> str:
        """The number of the row, and its file."""
        file = int(np.searchsorted(self.first, position, side="right")) - 1
        return f"Row {position - int(self.first[file])} of {self.files[file]}"

    def pictures(self, positions: Sequence[int]) -> list[Image.Image]:
        """The pictures at some positions, by one query of each file."""
        found: dict[int, Image.Image] = {}
        asked = np.asarray(positions, np.int64)
        of_file = np.searchsorted(self.first, asked, side="right") - 1
        for file in np.unique(of_file).tolist():
            rows = sorted({int(p - self.first[file]) for p in asked[of_file == file]})
            where = f"file_row_number IN ({', '.join(map(str, rows))})"
            for row, encoded in _query(self.files[file], f"file_row_number, {self.column}.bytes", where):
                position = int(self.first[file]) + row
                found[position] = self._opened(encoded, position)
        return [found[position] for position in positions]

    def _opened(self, encoded: bytes | None, position: int) -> Image.Image:
        try:
            return Image.open(io.BytesIO(encoded or b""))
        except UNREADABLE as error:
            whose = self.called(position)
            raise UserError(f"{whose} cannot be read as a picture ({first_line(error)}).") from error


def parquet_parts(
    folder: Path, split: str, sizing: Sizing, name: str, channels: int | None = None
) -> tuple[ParquetPictures, NDArray[np.int64], list[str] | None, list[Path]]:
    """The pictures of a split in a folder of Parquet files, their labels, the names of the classes where they are told,
    and the files. A test split without labels is passed over for the validation split.
    """
    known = sorted(folder.rglob("*.parquet"))
    for kind in _SPLITS[split]:
        files = [file for file in known if file.stem.partition("-")[0].partition(".")[0] == kind]
        if files:
            columns = [row[0] for row in _query(files[0], "*", None, describe=True)]
            image, label = (next((name for name in names if name in columns), None) for names in (_IMAGES, _LABELS))
            if image is None or label is None:
                raise UserError(f"{files[0]} must have columns named image and label; it has {', '.join(columns)}.")
            labels = [[row[0] for row in _query(file, label, None)] for file in files]
            truth = np.asarray([each for part in labels for each in part], np.int64)
            if (truth >= 0).all() or kind == _SPLITS[split][-1]:
                rows = ParquetPictures(files, image, [len(part) for part in labels], sizing, name, channels)
                return rows, truth, _classes(files[0], label), files
    raise UserError(
        f"{folder} has no Parquet files of the split {split!r} with labels; expected names such as "
        f"{_SPLITS[split][0]}-00000-of-00001.parquet."
    )


def _query(file: Path, columns: str, where: str | None, *, describe: bool = False) -> list[tuple[Any, ...]]:
    source = "read_parquet(?, file_row_number = true)" if where else "read_parquet(?)"
    select = f"SELECT {columns} FROM {source}" + (f" WHERE {where}" if where else "")
    try:
        with duckdb.connect() as connection:
            return connection.execute(f"DESCRIBE {select}" if describe else select, [str(file)]).fetchall()
    except duckdb.Error as error:
        raise UserError(f"{file} cannot be read as a Parquet file of pictures ({first_line(error)}).") from error


def _classes(file: Path, label: str) -> list[str] | None:
    with duckdb.connect() as connection:
        told = connection.execute(
            "SELECT value FROM parquet_kv_metadata(?) WHERE key = 'huggingface'::BLOB", [str(file)]
        ).fetchall()
    try:
        names = json.loads(bytes(told[0][0]))["info"]["features"][label]["names"]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return [str(name) for name in names]
