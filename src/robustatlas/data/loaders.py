"""Inputs that stay on disk until they are needed: folders of pictures, memory-mapped arrays, Hugging Face data sets."""

from __future__ import annotations

import importlib
import io
import struct
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from robustatlas.common.errors import UserError, first_line
from robustatlas.data.dataset import channels_first
from robustatlas.data.pictures import UNREADABLE, Pictures, Sizing, picture_of
from robustatlas.data.rows import Rows, within_range


class PictureFiles(Pictures):
    """Pictures in files."""

    def __init__(self, files: Sequence[Path], sizing: Sizing, name: str, channels: int | None = None) -> None:
        self.files = list(files)
        super().__init__(len(self.files), sizing, name, channels)

    def pictures(self, positions: Sequence[int]) -> Iterator[Image.Image]:
        """The pictures at some positions, each open while it is looked at."""
        for position in positions:
            try:
                picture = Image.open(self.files[position])
            except UNREADABLE as error:
                whose = self.called(position)
                raise UserError(f"{whose} cannot be read as a picture ({first_line(error)}).") from error
            with picture:
                yield picture

    def called(self, position: int) -> str:
        """The name of the file."""
        return str(self.files[position])


class Mapped(Rows):
    """An array on disk, of which the system keeps in memory what is used: uint8 0..255 or floats in [0, 1], [N, H, W],
    [N, H, W, C] or [N, C, H, W]."""

    def __init__(self, array: NDArray[Any], name: str) -> None:
        if array.ndim < 2 or array.size == 0:
            raise UserError(f"Images of {name!r} must be a non-empty array [N, ...], got shape {array.shape}.")
        if array.dtype != np.uint8 and not np.issubdtype(array.dtype, np.floating):
            raise UserError(f"Images of {name!r} must be uint8 in 0..255 or floats in [0, 1], got {array.dtype}.")
        self.array, self.name = array, name
        self.shape = (len(array), *channels_first(array[:1]).shape[1:])

    def stored(self, positions: Tensor) -> Tensor:
        found = channels_first(np.asarray(self.array[positions.numpy()]))
        kept = np.uint8 if found.dtype == np.uint8 else np.float32
        values = torch.from_numpy(np.array(found, dtype=kept, order="C"))
        return within_range(values, f"Images of {self.name!r}") if kept is np.float32 else values


def mapped(path: Path, member: str | None = None) -> NDArray[Any]:
    """The array in a ``.npy`` file, or ``member`` of an ``.npz`` archive, memory-mapped; a compressed one is read."""
    try:
        if member is None:
            return np.load(path, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
        return _member(path, member)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, zipfile.BadZipFile, struct.error) as error:
        raise UserError(f"{path} cannot be read as an array of NumPy without pickled objects: {error}.") from error


def has_member(path: Path, member: str) -> bool:
    """Whether an ``.npz`` archive holds an array of that name."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{member}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} cannot be read as an .npz archive: {error}.") from error


def _member(path: Path, member: str) -> NDArray[Any]:
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


class FromHuggingFace(Pictures):
    """The column of images of a data set of the library ``datasets``."""

    def __init__(self, data: Any, column: str, sizing: Sizing, name: str, channels: int | None = None) -> None:
        self.data, self.column = data, column
        super().__init__(len(data), sizing, name, channels)

    def pictures(self, positions: Sequence[int]) -> Iterator[Image.Image]:
        """The pictures at some positions."""
        for position in positions:
            image = self.data[position][self.column]
            yield image if isinstance(image, Image.Image) else picture_of(np.asarray(image), self.called(position))

    def called(self, position: int) -> str:
        """The number of the row."""
        return f"Row {position} of {self.name!r}"


def huggingface_parts(path: Path, split: str, name: str) -> tuple[Any, str, NDArray[np.int64], list[str] | None]:
    """A data set that ``save_to_disk`` wrote: the split, its column of images, its labels and their names."""
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
    return data, image, np.asarray(data[label], np.int64), getattr(data.features[label], "names", None)
