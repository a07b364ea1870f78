"""Inputs that stay on disk until they are used: folders of pictures, memory-mapped arrays, Hugging Face data sets."""

import importlib
import io
import json
import re
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch import Tensor

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import list_files
from robustatlas.common.wording import list_names
from robustatlas.data.dataset import channels_first
from robustatlas.data.labels import class_numbers
from robustatlas.data.pictures import UNREADABLE, Pictures, Sizing, array_to_picture
from robustatlas.data.rows import Rows, clip_to_unit_range


class PictureFiles(Pictures):
    """Pictures in files, one in each."""

    def __init__(self, files: Sequence[Path], sizing: Sizing, name: str, channels: int | None = None) -> None:
        self.files = list(files)
        super().__init__(len(self.files), sizing, name, channels)

    def pictures(self, positions: Sequence[int]) -> Iterator[Image.Image]:
        """Yield the pictures at ``positions``; each file is open until the next one is requested."""
        for position in positions:
            try:
                picture = Image.open(self.files[position])
            except UNREADABLE as error:
                whose = self.picture_name(position)
                raise UserError(f"{whose} cannot be read as a picture ({first_line(error)}).") from error
            with picture:
                yield picture

    def picture_name(self, position: int) -> str:
        """Return the name of the file."""
        return str(self.files[position])


class MappedArray(Rows):
    """Memory-mapped images on disk: uint8 0..255 or floats in [0, 1]; [N, H, W], [N, H, W, C] or [N, C, H, W]."""

    def __init__(self, array: NDArray[Any], name: str) -> None:
        if array.ndim < 2 or array.size == 0:
            raise UserError(f"Images of {name!r} must be a non-empty array [N, ...], got shape {array.shape}.")
        if array.dtype != np.uint8 and not np.issubdtype(array.dtype, np.floating):
            raise UserError(f"Images of {name!r} must be uint8 in 0..255 or floats in [0, 1], got {array.dtype}.")
        self.array, self.name = array, name
        self.shape = (len(array), *channels_first(array[:1]).shape[1:])

    def read(self, positions: Tensor) -> Tensor:
        stored = channels_first(np.asarray(self.array[positions.numpy()]))
        dtype = np.uint8 if stored.dtype == np.uint8 else np.float32
        values = torch.from_numpy(np.array(stored, dtype=dtype, order="C"))
        return clip_to_unit_range(values, f"Images of {self.name!r}") if dtype is np.float32 else values


def open_array(path: Path, member: str | None = None) -> NDArray[Any]:
    """Return the memory-mapped array of a ``.npy`` file, or the array ``member`` of an ``.npz`` archive.

    A compressed array is read into memory instead.
    """
    try:
        if member is None:
            return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
        return _open_member(path, member)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, struct.error) as error:
        raise UserError(f"{path} cannot be read as an array of NumPy without pickled objects: {error}.") from error


def has_member(path: Path, member: str) -> bool:
    """Return True if an ``.npz`` archive contains an array with this name."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{member}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read as an .npz archive: {error}.") from error


def _open_member(path: Path, member: str) -> NDArray[Any]:
    with zipfile.ZipFile(path) as archive:
        entry = archive.getinfo(f"{member}.npy")
        if entry.compress_type != zipfile.ZIP_STORED:
            content = io.BytesIO(archive.read(entry))
            return np.load(content, allow_pickle=False)  # type: ignore[no-any-return]
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        name, extra = struct.unpack_from("<HH", file.read(30), 26)
        file.seek(entry.header_offset + 30 + name + extra)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, kind = read(file)
        if kind.hasobject:
            raise ValueError("it holds pickled objects")
        return np.memmap(path, kind, "r", file.tell(), shape, "F" if fortran else "C")


class HuggingFacePictures(Pictures):
    """Column of images of a data set of the library ``datasets``."""

    def __init__(self, data: Any, column: str, sizing: Sizing, name: str, channels: int | None = None) -> None:
        self.data, self.column = data, column
        super().__init__(len(data), sizing, name, channels)

    def pictures(self, positions: Sequence[int]) -> Iterator[Image.Image]:
        """Yield the pictures at ``positions``."""
        for position in positions:
            image = self.data[position][self.column]
            yield (
                image
                if isinstance(image, Image.Image)
                else array_to_picture(np.asarray(image), self.picture_name(position))
            )

    def picture_name(self, position: int) -> str:
        """Return the number of the row."""
        return f"Row {position} of {self.name!r}"


def read_huggingface(path: Path, split: str, name: str) -> tuple[Any, str, NDArray[np.int64], list[str] | None]:
    """Read a split that ``save_to_disk`` wrote; return it with its column of images, its labels and their names."""
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise UserError(f"{name} needs the package datasets: pip install datasets.") from error
    try:
        data = library.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a data set on disk of Hugging Face (save_to_disk): {error}.") from error
    if isinstance(data, dict):
        if split not in data:
            raise UserError(f"{path} has the splits {', '.join(data)}, and none of them is {split!r}.")
        data = data[split]
    image = next((column for column in ("image", "img", "pixel_values") if column in data.column_names), None)
    label = next((column for column in ("label", "labels", "fine_label") if column in data.column_names), None)
    if image is None or label is None:
        raise UserError(f"{path} must have columns named image and label; it has {', '.join(data.column_names)}.")
    names = getattr(data.features[label], "names", None)
    return data, image, class_numbers(data[label], f"The labels of {path}", names), names


_IMAGES = ("image", "img")
_LABELS = ("label", "labels", "fine_label")
_SPLITS = {"test": ("test", "validation", "valid", "val"), "train": ("train",)}


class ParquetPictures(Pictures):
    """Encoded pictures in the rows of Parquet files; ``content`` is the SQL expression for the bytes of one."""

    def __init__(
        self,
        files: Sequence[Path],
        content: str,
        counts: Sequence[int],
        sizing: Sizing,
        name: str,
        channels: int | None = None,
    ) -> None:
        self.files, self.content = list(files), content
        self.first = np.concatenate([[0], np.cumsum(counts)])
        super().__init__(int(self.first[-1]), sizing, name, channels)

    def picture_name(self, position: int) -> str:
        """Return the number of the row and its file."""
        file = int(np.searchsorted(self.first, position, side="right")) - 1
        return f"Row {position - int(self.first[file])} of {self.files[file]}"

    def pictures(self, positions: Sequence[int]) -> list[Image.Image]:
        """Return the pictures at ``positions``, with one query for each file."""
        found: dict[int, Image.Image] = {}
        wanted = np.asarray(positions, np.int64)
        file_numbers = np.searchsorted(self.first, wanted, side="right") - 1
        for file in np.unique(file_numbers).tolist():
            rows = sorted({int(p - self.first[file]) for p in wanted[file_numbers == file]})
            where = f"file_row_number IN ({', '.join(map(str, rows))})"
            for row, encoded in _query(self.files[file], f"file_row_number, {self.content}", where):
                position = int(self.first[file]) + row
                found[position] = self._decode(encoded, position)
        return [found[position] for position in positions]

    def _decode(self, encoded: bytes | None, position: int) -> Image.Image:
        try:
            return ImageOps.exif_transpose(Image.open(io.BytesIO(encoded or b"")))  # the library datasets does the same
        except UNREADABLE as error:
            whose = self.picture_name(position)
            raise UserError(f"{whose} cannot be read as a picture ({first_line(error)}).") from error


def read_parquet(
    folder: Path, split: str, sizing: Sizing, name: str, channels: int | None = None
) -> tuple[ParquetPictures, NDArray[np.int64], list[str] | None, list[Path]]:
    """Read a split in a folder of Parquet files.

    If the test split has no labels, the validation split is used.

    Returns:
        the pictures, their labels, the names of the classes if the files contain them, and the files.
    """
    known = [file for file in list_files(folder) if file.suffix == ".parquet" and not _is_hidden(file, folder)]
    for kind in _SPLITS[split]:
        files = [file for file in known if file.stem.partition("-")[0].partition(".")[0] == kind]
        if files:
            _check_parts(folder, files)
            columns = {row[0]: str(row[1]) for row in _query(files[0], "*", None, describe=True)}
            image, label = (next((name for name in names if name in columns), None) for names in (_IMAGES, _LABELS))
            if image is None or label is None:
                raise UserError(f"{files[0]} must have columns named image and label; it has {', '.join(columns)}.")
            counts, labels, names = _read_labels(files, label)
            if labels is not None and ((labels >= 0).all() or kind == _SPLITS[split][-1]):
                content = image if columns[image] == "BLOB" else f"{image}.bytes"
                return ParquetPictures(files, content, counts, sizing, name, channels), labels, names, files
    raise UserError(
        f"{folder} has no Parquet files of the split {split!r} with labels; expected names such as "
        f"{_SPLITS[split][0]}-00000-of-00001.parquet."
    )


def _is_hidden(file: Path, folder: Path) -> bool:
    """Return True if a file, or a folder on the way to it from ``folder``, is hidden, such as a download's cache."""
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _read_labels(files: Sequence[Path], column: str) -> tuple[list[int], NDArray[np.int64] | None, list[str] | None]:
    """Return the number of rows of each file, all labels (None if no row has one), and the names of the classes."""
    names = _read_class_names(files[0], column)
    parts = [[row[0] for row in _query(file, column, None)] for file in files]
    counts = [len(part) for part in parts]
    if not any(counts):
        raise UserError(f"{files[0]} has no rows; expected a picture and a label in each.")
    if all(value is None for part in parts for value in part):
        return counts, None, names
    labelled = zip(files, parts, strict=True)
    numbers = [class_numbers(part, f"The labels ({column}) of {file}", names) for file, part in labelled if part]
    return counts, np.concatenate(numbers), names


_PART = re.compile(r"(?P<name>.+)-(?P<number>\d+)-of-(?P<count>\d+)")


def _check_parts(folder: Path, files: Sequence[Path]) -> None:
    """Raise :class:`UserError` if the files of a split belong to several data sets, or one of them is missing."""
    places = sorted({file.parent.relative_to(folder) for file in files})
    if len(places) > 1:
        raise UserError(
            f"{folder} holds {files[0].stem.partition('-')[0]} files in {len(places)} folders "
            f"({list_names(list(map(str, places)))}), which are several configurations of a data set; give one of "
            "them, such "
            f"as hf:{folder / places[0]}."
        )
    numbered = [found for file in files if (found := _PART.fullmatch(file.stem))]
    kinds = sorted({(found["name"], found["count"]) for found in numbered})
    if len(kinds) > 1 or (kinds and len(numbered) < len(files)):
        raise UserError(
            f"{files[0].parent} holds parts of several copies of a split "
            f"({list_names([file.name for file in files])}); "
            "leave one there."
        )
    for name, count in kinds:
        there = {int(found["number"]) for found in numbered}
        if missing := [number for number in range(int(count)) if number not in there]:
            raise UserError(
                f"{files[0].parent} holds {len(there)} of the {int(count)} parts of {name}; part {missing[0]:05d} is "
                "missing: fetch it again."
            )


def _query(file: Path, columns: str, where: str | None, *, describe: bool = False) -> list[tuple[Any, ...]]:
    numbered = ", file_row_number = true" if where else ""
    source = f"read_parquet(?, hive_partitioning = false{numbered})"  # a folder named key=value is not a column
    select = f"SELECT {columns} FROM {source}" + (f" WHERE {where}" if where else "")
    try:
        with duckdb.connect() as connection:
            return connection.execute(f"DESCRIBE {select}" if describe else select, [str(file)]).fetchall()
    except duckdb.Error as error:
        raise UserError(f"{file} cannot be read as a Parquet file of pictures ({first_line(error)}).") from error


def _read_class_names(file: Path, label: str) -> list[str] | None:
    with duckdb.connect() as connection:
        metadata = connection.execute(
            "SELECT value FROM parquet_kv_metadata(?) WHERE key = 'huggingface'::BLOB", [str(file)]
        ).fetchall()
    try:
        names = json.loads(bytes(metadata[0][0]))["info"]["features"][label]["names"]
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return [str(name) for name in names]
