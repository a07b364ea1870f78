"""Inputs that stay on disk until they are needed: folders of pictures, memory-mapped arrays, Hugging Face data sets."""

from __future__ import annotations

import importlib
import io
import struct
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.data.dataset import channels_first
from robustatlas.data.rows import Rows, within_range

PICTURES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".ppm", ".pgm"})


@dataclass(frozen=True)
class Sizing:
    """How pictures come to one size: the shorter side to ``resize`` pixels (bilinear, antialiased, as Pillow does it),
    then the middle of ``crop`` pixels; None leaves either out."""

    resize: int | None = None
    crop: int | None = None

    def __call__(self, picture: Image.Image) -> NDArray[np.uint8]:
        """RGB pixels [C, H, W]."""
        picture = picture.convert("RGB")
        if self.resize is not None:
            width, height = picture.size
            short = min(width, height)
            size = (self.resize * width // short, self.resize * height // short)
            picture = picture.resize(size, Image.Resampling.BILINEAR)
        if self.crop is not None:
            width, height = picture.size
            if min(width, height) < self.crop:
                raise UserError(
                    f"A picture of {width} x {height} pixels is smaller than the {self.crop} x {self.crop} to be cut "
                    "out of it; resize to more."
                )
            left, top = round((width - self.crop) / 2), round((height - self.crop) / 2)
            picture = picture.crop((left, top, left + self.crop, top + self.crop))
        return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))


AS_THEY_ARE = Sizing()


class Pictures(Rows):
    """Pictures in files, decoded when they are needed; uint8 [N, 3, H, W]."""

    def __init__(self, files: Sequence[Path], sizing: Sizing, name: str) -> None:
        self.files, self.sizing, self.name = list(files), sizing, name
        self.shape = (len(files), *self._pixels(0).shape)

    def stored(self, positions: Tensor) -> Tensor:
        pixels = np.empty((len(positions), *self.shape[1:]), np.uint8)
        for place, position in enumerate(positions.tolist()):
            found = self._pixels(position)
            if found.shape != self.shape[1:]:
                raise UserError(
                    f"{self.files[position]} has {found.shape[2]} x {found.shape[1]} pixels, and the first picture of "
                    f"{self.name!r} {self.shape[3]} x {self.shape[2]}; give a size for all (resize and crop)."
                )
            pixels[place] = found
        return torch.from_numpy(pixels)

    def _pixels(self, position: int) -> NDArray[np.uint8]:
        path = self.files[position]
        try:
            with Image.open(path) as picture:
                return self.sizing(picture)
        except (OSError, SyntaxError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            if isinstance(error, UserError):
                raise UserError(f"{path}: {error}") from error
            raise UserError(f"{path} cannot be read as a picture ({str(error) or type(error).__name__}).") from error


def class_folders(folder: Path, classes: Sequence[str] | None = None) -> tuple[list[Path], list[int], list[str]]:
    """The pictures in the class folders of ``folder``, their labels, and the names of the classes.

    Classes are numbered in the order of their names, or of ``classes``, which may leave some out.
    """
    if not folder.is_dir():
        raise UserError(f"There is no folder {folder}; expected one with a folder of pictures for each class.")
    known = sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    names = list(classes) if classes is not None else known
    if missing := [name for name in names if name not in known]:
        raise UserError(f"{folder} has no folder of the class {missing[0]!r}; it has {len(known)} folders of classes.")
    files: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        found = sorted(path for path in (folder / name).rglob("*") if path.suffix.lower() in PICTURES)
        files += found
        labels += [label] * len(found)
    if not files:
        raise UserError(f"{folder} has no pictures; expected a folder for each class, such as {folder}/cat/1.png.")
    return files, labels, names


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


class FromHuggingFace(Rows):
    """The column of images of a data set of the library ``datasets``."""

    def __init__(self, data: Any, column: str, sizing: Sizing, name: str) -> None:
        self.data, self.column, self.sizing, self.name = data, column, sizing, name
        self.shape = (len(data), *self._pixels(0).shape)

    def stored(self, positions: Tensor) -> Tensor:
        found = [self._pixels(position) for position in positions.tolist()]
        if any(pixels.shape != self.shape[1:] for pixels in found):
            raise UserError(f"The images of {self.name!r} have different sizes; give one for all (resize and crop).")
        return torch.from_numpy(np.stack(found)) if found else torch.empty(0, *self.shape[1:], dtype=torch.uint8)

    def _pixels(self, position: int) -> NDArray[np.uint8]:
        image = self.data[position][self.column]
        return self.sizing(image if isinstance(image, Image.Image) else Image.fromarray(np.asarray(image, np.uint8)))


def huggingface_parts(path: Path, split: str, name: str) -> tuple[Any, str, NDArray[np.int64], list[str] | None]:
    """A data set that ``save_to_disk`` wrote: the split, its column of images, its labels and their names."""
    try:
        library = importlib.import_module("datasets")
    except ImportError as error:
        raise UserError(f"{name} needs the package datasets: pip install datasets.") from error
    try:
        data = library.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no data set on disk of Hugging Face (save_to_disk): {error}.") from error
    if isinstance(data, dict):
        if split not in data:
            raise UserError(f"{path} has the splits {', '.join(data)}, and none of them is {split!r}.")
        data = data[split]
    image = next((column for column in ("image", "img", "pixel_values") if column in data.column_names), None)
    label = next((column for column in ("label", "labels", "fine_label") if column in data.column_names), None)
    if image is None or label is None:
        raise UserError(f"{path} must have columns named image and label; it has {', '.join(data.column_names)}.")
    return data, image, np.asarray(data[label], np.int64), getattr(data.features[label], "names", None)
