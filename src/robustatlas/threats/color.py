"""Global colour changes: hue, saturation, brightness, contrast (MultiRobustBench, App. C; as in kornia's ``enhance``).

theta is one number per image, at most epsilon away from 0. Maps are ``x + change``, so that 0 is the exact identity.
"""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.host import constant_tensor
from robustatlas.threats.box import OneNumber, require_colour

_TINY = 1e-8


def hue_of(x: Tensor) -> Tensor:
    """Return ``[B, H, W]``: the HSV hue of RGB images in [0, 6), one unit per sector; 0 where a pixel is grey."""
    red, green, blue = x.unbind(1)
    top, sector = x.max(1)
    chroma = (top - x.amin(1)).clamp_min(_TINY)
    turns = torch.stack([green - blue, blue - red, red - green], 1) / chroma[:, None]
    offsets = constant_tensor((0.0, 2.0, 4.0), x).view(1, 3, 1, 1)
    return (turns + offsets).gather(1, sector[:, None])[:, 0].remainder(6)


def _shadow(hue: Tensor) -> Tensor:
    """Return ``[B, 3, H, W]``: how far each channel lies below the brightest, in units of the chroma.

    ``hue`` [B, 1 or 3, H, W].
    """
    position = (hue + constant_tensor(_OFFSETS, hue).view(1, 3, 1, 1)).remainder(6)
    return torch.minimum(position, 4 - position).clamp(0, 1)


_OFFSETS = (5.0, 3.0, 1.0)
_BENDS = (0.0, 1.0, 3.0, 4.0)
"""Positions in [0, 6) where the slope of :func:`_shadow` changes."""


class Line(OneNumber):
    """Base of changes with one parameter, in which every number of the image is piecewise linear.

    Attributes:
        roundings: bound on the rounding error of :meth:`apply`, in units of half the distance from 1 to the next float.
    """

    roundings: ClassVar[float] = 1.0

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return self.transform(x, per_sample(theta[:, 0], x))

    @abstractmethod
    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        """Return the image where each number [B, ...] has a ``theta`` of its own, or all of a sample the same [B, 1,
        ...].
        """

    @abstractmethod
    def breaks(self, x: Tensor) -> list[Tensor]:
        """Return thetas like ``x`` between which each number of the image is linear in theta."""

    @abstractmethod
    def reach(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``[B]``: how far theta can decrease and increase until the image no longer changes."""


@dataclass(frozen=True)
class Hue(Line):
    """HSV hue of all pixels, turned by theta radians, |theta| <= epsilon; needs colour images."""

    roundings: ClassVar[float] = 64.0
    largest_size: ClassVar[float] = math.pi

    def check(self, x: Tensor) -> None:
        require_colour(x, "hue")

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        hue = hue_of(x)[:, None]
        turned = hue + theta * (3 / math.pi)
        chroma = x.amax(1, keepdim=True) - x.amin(1, keepdim=True)
        return (x + chroma * (_shadow(hue) - _shadow(turned))).clamp(0, 1)

    def breaks(self, x: Tensor) -> list[Tensor]:
        position = hue_of(x)[:, None] + constant_tensor(_OFFSETS, x).view(1, 3, 1, 1)
        return [(bend + 6 * turn - position) * (math.pi / 3) for bend in _BENDS for turn in (-1, 0, 1, 2)]

    def reach(self, x: Tensor) -> tuple[Tensor, Tensor]:
        half = x.new_full((len(x),), math.pi)
        return half, half


@dataclass(frozen=True)
class Saturation(Line):
    """HSV saturation times 1 + theta, clipped to [0, 1], |theta| <= epsilon; needs colour images."""

    roundings: ClassVar[float] = 16.0

    def check(self, x: Tensor) -> None:
        require_colour(x, "saturation")

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        value = x.amax(1, keepdim=True)
        factor = torch.minimum((1 + theta).clamp_min(0), self._full(x))
        return (x + (1 - factor) * (value - x)).clamp(0, 1)

    @staticmethod
    def _full(x: Tensor) -> Tensor:
        """Return the factor at which each pixel [B, 1, H, W] is fully saturated."""
        value = x.amax(1, keepdim=True)
        return (value / (value - x.amin(1, keepdim=True)).clamp_min(_TINY)).clamp_min(1)

    def breaks(self, x: Tensor) -> list[Tensor]:
        return [torch.full_like(x, -1), (self._full(x) - 1).expand_as(x)]

    def reach(self, x: Tensor) -> tuple[Tensor, Tensor]:
        coloured = x.amax(1, keepdim=True) > x.amin(1, keepdim=True)
        return x.new_ones(len(x)), torch.where(coloured, self._full(x) - 1, 0.0).flatten(1).amax(1)


@dataclass(frozen=True)
class Contrast(Line):
    """All pixels times 1 + theta, clipped to [0, 1], |theta| <= epsilon (the mean is not subtracted, as in kornia)."""

    roundings: ClassVar[float] = 3.0

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x * (1 + theta)).clamp(0, 1)

    def breaks(self, x: Tensor) -> list[Tensor]:
        return [torch.full_like(x, -1), 1 / x.clamp_min(_TINY) - 1]

    def reach(self, x: Tensor) -> tuple[Tensor, Tensor]:
        full = torch.where(x > 0, 1 / x.clamp_min(_TINY) - 1, 0.0)
        return x.new_ones(len(x)), full.flatten(1).amax(1)


@dataclass(frozen=True)
class Brightness(Line):
    """Sum of theta and all pixels, clipped to [0, 1], |theta| <= epsilon."""

    in_pixels: ClassVar[bool] = True
    largest_size: ClassVar[float] = 1.0

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x + theta).clamp(0, 1)

    def breaks(self, x: Tensor) -> list[Tensor]:
        return [-x, 1 - x]

    def reach(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.flatten(1).amax(1), (1 - x).flatten(1).amax(1)
