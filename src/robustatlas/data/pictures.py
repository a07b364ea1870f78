"""Pictures, whatever their mode, as pixels of one size and number of channels, read when they are needed."""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from robustatlas.common.errors import UserError, first_line
from robustatlas.data.rows import Rows, as_inputs, within_range

Pixels = NDArray[np.uint8] | NDArray[np.float32]

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""What Pillow raises about files that are not pictures, or damaged."""

_GREY = ("1", "L", "LA", "La", "I", "F")
_WHITE = 65535
"""Of pictures with 16 bits a pixel."""
_LOOKED_AT = 32
"""Pictures, spread over all, that tell whether a data set is grey."""


def is_grey(picture: Image.Image) -> bool:
    """Whether a picture has one channel, besides transparency."""
    return picture.mode in _GREY or picture.mode.startswith("I;16")


def plain(picture: Image.Image) -> Image.Image:
    """A picture in the mode RGB, L (8 bits), or F (floats in [0, 1], of more bits); transparency is left out."""
    if picture.mode in ("RGB", "L"):
        return picture
    if picture.mode in ("1", "LA", "La"):
        return picture.convert("LA").convert("L") if picture.mode == "La" else picture.convert("L")
    if picture.mode == "F":
        values = torch.from_numpy(np.array(picture, np.float32))
        return Image.fromarray(within_range(values, "The pixels of a picture of floats").numpy())
    if picture.mode.startswith("I"):
        if picture.mode == "I" and picture.format not in ("PNG", "PPM"):  # which Pillow reads as such where of 16 bits
            raise UserError(
                "Its pixels are whole numbers of 32 bits, of which it is not known what is white; save them with 8 or "
                "16 bits."
            )
        return Image.fromarray(np.asarray(picture).astype(np.float32) / np.float32(_WHITE))
    return picture.convert("RGB")


def picture_of(values: NDArray[Any], whose: str) -> Image.Image:
    """An array [H, W], [H, W, 1] or [H, W, 3] as a picture: whole numbers in 0..255, or one channel of uint16 or of
    floats in [0, 1].
    """
    pixels = values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values
    if pixels.dtype.kind in "iu" and pixels.dtype != np.uint16 and pixels.min() >= 0 and pixels.max() <= 255:
        pixels = pixels.astype(np.uint8)
    elif pixels.dtype.kind == "f" and pixels.ndim == 2:
        pixels = pixels.astype(np.float32)
    try:
        return Image.fromarray(pixels)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{whose} is an array of {values.dtype} with shape {values.shape}; expected a picture, or bytes [H, W] or "
            "[H, W, 3]."
        ) from error


@dataclass(frozen=True)
class Sizing:
    """How pictures come to one size: the shorter side to ``resize`` pixels (bilinear, antialiased, as Pillow does it),
    then the middle of ``crop`` pixels; None leaves either out."""

    resize: int | None = None
    crop: int | None = None

    def __call__(self, picture: Image.Image) -> Image.Image:
        """The picture in that size."""
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
        return picture


AS_THEY_ARE = Sizing()


def pixels_of(picture: Image.Image, channels: int, sizing: Sizing = AS_THEY_ARE) -> Pixels:
    """Pixels [C, H, W] with 1 or 3 ``channels``: bytes, or floats in [0, 1] of pictures with more than 8 bits.

    >>> pixels_of(Image.new("L", (4, 2), 51), 3).shape, pixels_of(Image.new("RGB", (4, 2)), 1).shape
    ((3, 2, 4), (1, 2, 4))
    """
    shown = plain(picture)
    if channels == 1 and shown.mode == "RGB":
        shown = shown.convert("L")
    values = np.asarray(sizing(shown))
    values = values if values.dtype == np.uint8 else values.clip(0, 1)
    values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    return np.array(np.broadcast_to(values, (channels, *values.shape[1:])), order="C")  # which can be written to


def stacked(pixels: Sequence[Tensor]) -> Tensor:
    """Images [C, H, W] as one tensor [B, C, H, W]; as floats where some are."""
    if len({image.dtype for image in pixels}) > 1:
        pixels = [as_inputs(image) for image in pixels]
    return torch.stack(list(pixels))


class Pictures(Rows):
    """Pictures that are decoded when they are needed: [N, C, H, W], uint8, or floats in [0, 1] of those with more bits.

    ``channels``: 1 or 3; by default 1 where the pictures are grey, by some that are spread over all.
    """

    def __init__(self, count: int, sizing: Sizing, name: str, channels: int | None = None) -> None:
        self.sizing, self.name, self.asked = sizing, name, channels
        if channels is None:
            spread = np.unique(np.linspace(0, count - 1, min(count, _LOOKED_AT)).round().astype(np.int64))
            channels = 1 if all(map(is_grey, self.pictures(spread.tolist()))) else 3
        self.channels = channels
        for first in self.pictures([0]):
            self.shape = (count, *self._pixels(first, 0).shape)

    @abstractmethod
    def pictures(self, positions: Sequence[int]) -> Iterable[Image.Image]:
        """The pictures at some positions, in that order."""

    @abstractmethod
    def called(self, position: int) -> str:
        """What a picture is called in messages."""

    def stored(self, positions: Tensor) -> Tensor:
        """Pixels of the pictures at ``positions`` [B]."""
        places = positions.tolist()
        found = [self._pixels(picture, at) for picture, at in zip(self.pictures(places), places, strict=True)]
        return stacked(found) if found else torch.empty(0, *self.shape[1:], dtype=torch.uint8)

    def _pixels(self, picture: Image.Image, position: int) -> Tensor:
        whose = self.called(position)
        if self.asked is None and self.channels == 1 and not is_grey(picture):
            raise UserError(
                f"{whose} has colours, and the pictures of {self.name!r} that were looked at first have none; give the "
                "number of channels for all (--channels 3, or 1; channels in Python)."
            )
        try:
            found = torch.from_numpy(pixels_of(picture, self.channels, self.sizing))
        except UserError as error:
            raise UserError(f"{whose}: {error}") from error
        except UNREADABLE as error:
            raise UserError(f"{whose} cannot be read as a picture ({first_line(error)}).") from error
        if position and tuple(found.shape) != self.shape[1:]:
            raise UserError(
                f"{whose} has {found.shape[2]} x {found.shape[1]} pixels, and the first picture of {self.name!r} "
                f"{self.shape[3]} x {self.shape[2]}; different sizes need one for all (resize and crop)."
            )
        return found
