"""Pictures of any mode as pixels of one size and number of channels, decoded on demand."""

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
from robustatlas.data.rows import Rows, as_inputs, clip_to_unit_range

Pixels = NDArray[np.uint8] | NDArray[np.float32]

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)
"""Errors that Pillow raises for damaged files and files that are not pictures."""

_GREY_MODES = ("1", "L", "LA", "La", "I", "F")
_WHITE_16_BITS = 65535
"""Value of white in pictures with 16 bits for each pixel."""
_PROBED_PICTURES = 32
"""Number of pictures, spread over the data set, that decide if it is grey."""


def is_grey(picture: Image.Image) -> bool:
    """Return True if a picture has one channel besides transparency."""
    return picture.mode in _GREY_MODES or picture.mode.startswith("I;16")


def to_supported_mode(picture: Image.Image) -> Image.Image:
    """Convert a picture to the mode RGB, L (8 bits) or F (floats in [0, 1], for more bits), without transparency."""
    if picture.mode in ("RGB", "L"):
        return picture
    if picture.mode in ("1", "LA", "La"):
        return picture.convert("LA").convert("L") if picture.mode == "La" else picture.convert("L")
    if picture.mode == "F":
        values = torch.from_numpy(np.array(picture, np.float32))
        return Image.fromarray(clip_to_unit_range(values, "The pixels of a picture of floats").numpy())
    if picture.mode.startswith("I"):
        if picture.mode == "I" and picture.format not in ("PNG", "PPM"):  # in these, the mode I means 16 bits
            raise UserError(
                "Its pixels are whole numbers of 32 bits, of which it is not known what is white; save them with 8 or "
                "16 bits."
            )
        return Image.fromarray(np.asarray(picture).astype(np.float32) / np.float32(_WHITE_16_BITS))
    return picture.convert("RGB")


def array_to_picture(values: NDArray[Any], whose: str) -> Image.Image:
    """Return an array [H, W], [H, W, 1] or [H, W, 3] as a picture.

    The array has integers in 0..255, or one channel of uint16 or of floats in [0, 1].
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
    """Resizing of pictures to one size.

    Attributes:
        resize: length of the shorter side in pixels (bilinear and antialiased, as Pillow resizes); None: unchanged.
        crop: side in pixels of the central square that is cut out afterwards; None: unchanged.
    """

    resize: int | None = None
    crop: int | None = None

    def __call__(self, picture: Image.Image) -> Image.Image:
        """Return the picture in this size."""
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


NO_SIZING = Sizing()


def picture_pixels(picture: Image.Image, channels: int, sizing: Sizing = NO_SIZING) -> Pixels:
    """Return pixels [C, H, W] with 1 or 3 ``channels``: uint8, or floats in [0, 1] for more than 8 bits.

    >>> picture_pixels(Image.new("L", (4, 2), 51), 3).shape, picture_pixels(Image.new("RGB", (4, 2)), 1).shape
    ((3, 2, 4), (1, 2, 4))
    """
    converted = to_supported_mode(picture)
    if channels == 1 and converted.mode == "RGB":
        converted = converted.convert("L")
    values = np.asarray(sizing(converted))
    values = values if values.dtype == np.uint8 else values.clip(0, 1)
    values = values[None] if values.ndim == 2 else values.transpose(2, 0, 1)
    # A copy, as torch expects memory that can be written to and a broadcast array cannot.
    return np.array(np.broadcast_to(values, (channels, *values.shape[1:])), order="C")


def stack_pictures(pixels: Sequence[Tensor]) -> Tensor:
    """Return images [C, H, W] as one tensor [B, C, H, W]; of floats if any image is."""
    if len({image.dtype for image in pixels}) > 1:
        pixels = [as_inputs(image) for image in pixels]
    return torch.stack(list(pixels))


class Pictures(Rows):
    """Base of pictures that are decoded on demand: [N, C, H, W], uint8, or floats in [0, 1] for more than 8 bits.

    Args:
        count: number of pictures.
        sizing: that brings them to one size.
        name: of the data set, for messages.
        channels: 1 or 3; default: 1 if a sample of the pictures is grey, else 3.
    """

    def __init__(self, count: int, sizing: Sizing, name: str, channels: int | None = None) -> None:
        self.sizing, self.name, self.requested_channels = sizing, name, channels
        if channels is None:
            spread = np.unique(np.linspace(0, count - 1, min(count, _PROBED_PICTURES)).round().astype(np.int64))
            channels = 1 if all(map(is_grey, self.pictures(spread.tolist()))) else 3
        self.channels = channels
        for first in self.pictures([0]):
            self.shape = (count, *self._pixels(first, 0).shape)

    @abstractmethod
    def pictures(self, positions: Sequence[int]) -> Iterable[Image.Image]:
        """Return or yield the pictures at ``positions``, in that order."""

    @abstractmethod
    def picture_name(self, position: int) -> str:
        """Return the name of a picture for messages."""

    def read(self, positions: Tensor) -> Tensor:
        """Return the pixels of the pictures at ``positions`` [B]."""
        places = positions.tolist()
        found = [self._pixels(picture, at) for picture, at in zip(self.pictures(places), places, strict=True)]
        return stack_pictures(found) if found else torch.empty(0, *self.shape[1:], dtype=torch.uint8)

    def _pixels(self, picture: Image.Image, position: int) -> Tensor:
        whose = self.picture_name(position)
        if self.requested_channels is None and self.channels == 1 and not is_grey(picture):
            raise UserError(
                f"{whose} has colours, and the pictures of {self.name!r} that were looked at first have none; give the "
                "number of channels for all (--channels 3, or 1; channels in Python)."
            )
        try:
            found = torch.from_numpy(picture_pixels(picture, self.channels, self.sizing))
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
