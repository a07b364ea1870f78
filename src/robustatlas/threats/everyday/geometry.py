"""Everyday changes of place and shape.

Each is a matrix from pixels of the image (column, row, 1; the origin is the centre of the top left pixel) to those of
the result, which is read by bilinear sampling.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.threats.everyday.change import Border, Bordered, Change, FreeKind, border_level
from robustatlas.threats.sampling import Padding, pixel_grid, sample
from robustatlas.threats.warp import centre_matrix, rotation_matrix, stack_matrix, to_unit_grid, warp

_PADDING: dict[Border, Padding] = {"reflect": "reflection", "black": "zeros", "grey": "zeros"}


class Displaced(Bordered):
    """Base of warps by a matrix that depends on theta."""

    signed: ClassVar[bool] = True

    @abstractmethod
    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        """Return ``[B, 3, 3]``: the map from pixels of ``x`` to pixels of the result."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return warp(x, self.matrix(x, theta), _PADDING[self.border], border_level(self.border))


@dataclass(frozen=True)
class Rotated(Displaced):
    """Rotation about the middle of the image, counter-clockwise, by at most epsilon degrees either way."""

    largest_size: ClassVar[float] = 180.0

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        return rotation_matrix(x, theta[:, 0])


@dataclass(frozen=True)
class Shifted(Displaced):
    """A shift to the right and down, each by at most epsilon pixels, or per cent of the side, either way.

    Args:
        per_cent: of the width and of the height, instead of pixels.
    """

    bounded: ClassVar[int] = 2

    per_cent: bool = False

    @property
    def has_whole_sizes(self) -> bool:
        return not self.per_cent

    def max_size(self, x: Tensor) -> float:
        return 100.0 if self.per_cent else float(max(x.shape[2:]))

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        right, down = theta.unbind(1)
        if self.per_cent:
            right, down = right * (x.shape[3] / 100), down * (x.shape[2] / 100)
        return stack_matrix((1, 0, right), (0, 1, down), (0, 0, 1))


@dataclass(frozen=True)
class Zoomed(Displaced):
    """Zoom about the middle by at most epsilon per cent: a side becomes 1 + theta / 100 times as long."""

    largest_size: ClassVar[float] = 90.0

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        scale = 1 + theta[:, 0] / 100
        return centre_matrix(x, stack_matrix((scale, 0, 0), (0, scale, 0), (0, 0, 1)))


@dataclass(frozen=True)
class Sheared(Displaced):
    """Shear about the middle: upright lines lean by at most epsilon degrees either way."""

    largest_size: ClassVar[float] = 80.0

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        slope = torch.deg2rad(theta[:, 0]).tan()
        return centre_matrix(x, stack_matrix((1, slope, 0), (0, 1, 0), (0, 0, 1)))


@dataclass(frozen=True)
class Tilted(Displaced):
    """The image as a flat picture, seen from straight ahead at a distance of its longer side, and turned about its
    horizontal and its vertical middle line, each by at most epsilon degrees either way."""

    bounded: ClassVar[int] = 2
    largest_size: ClassVar[float] = 60.0

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        about_horizontal, about_vertical = torch.deg2rad(theta).unbind(1)
        up, side = about_horizontal.sin(), about_vertical.sin()
        high, wide = about_horizontal.cos(), about_vertical.cos()
        distance = max(x.shape[2:])
        away = (-side * high / distance, up / distance, 1)
        return centre_matrix(x, stack_matrix((wide, 0, 0), (up * side, high, 0), away))


@dataclass(frozen=True)
class Cropped(Change):
    """A part of the image, at least 100 - epsilon per cent as wide and as high, from anywhere in it, enlarged to its
    size."""

    free: ClassVar[tuple[tuple[FreeKind, int], ...]] = (("place", 3), ("place", 3))
    largest_size: ClassVar[float] = 95.0

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        lost = theta[:, 0].clamp_max(99) / 100
        scale = 1 / (1 - lost)
        left, top = lost * (theta[:, 1] * x.shape[3] - 0.5), lost * (theta[:, 2] * x.shape[2] - 0.5)
        return warp(x, stack_matrix((scale, 0, -scale * left), (0, scale, -scale * top), (0, 0, 1)), "border")


def translate(x: Tensor, shift: Tensor, border: Border) -> Tensor:
    """Return ``x`` read at places that are ``shift`` [B, 2] pixels further right and down."""
    places = pixel_grid(x.shape[2], x.shape[3], x) + shift[:, None, None]
    return sample(x, to_unit_grid(x, places), True, _PADDING[border], border_level(border))
