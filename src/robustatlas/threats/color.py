"""Global colour changes: hue, saturation, brightness, contrast (MultiRobustBench, App. C; formulas as in kornia's
``enhance``).

theta is one number per image, at most epsilon away from 0. The maps are written as ``x + change``, so that theta = 0
is the exact identity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.bundle import per_sample
from robustatlas.host import constant
from robustatlas.threats.box import OneNumber, require_colour

_TINY = 1e-8


def hue_of(x: Tensor) -> Tensor:
    """``[B, H, W]``: the HSV hue of RGB images in [0, 6), one unit per sector; 0 where a pixel is grey."""
    red, green, blue = x.unbind(1)
    top, sector = x.max(1)
    chroma = (top - x.amin(1)).clamp_min(_TINY)
    turns = torch.stack([green - blue, blue - red, red - green], 1) / chroma[:, None]
    offsets = constant((0.0, 2.0, 4.0), x).view(1, 3, 1, 1)
    return (turns + offsets).gather(1, sector[:, None])[:, 0].remainder(6)


def _shadow(hue: Tensor) -> Tensor:
    """``[B, 3, H, W]``: how far each channel lies below the brightest, in units of the chroma."""
    offsets = constant((5.0, 3.0, 1.0), hue).view(1, 3, 1, 1)
    position = (hue[:, None] + offsets).remainder(6)
    return torch.minimum(position, 4 - position).clamp(0, 1)


@dataclass(frozen=True)
class Hue(OneNumber):
    """The HSV hue of all pixels turned by theta radians, |theta| <= epsilon; needs colour images."""

    def check(self, x: Tensor) -> None:
        require_colour(x, "hue")

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        hue = hue_of(x)
        turned = hue + per_sample(theta[:, 0], hue) * (3 / math.pi)
        chroma = x.amax(1, keepdim=True) - x.amin(1, keepdim=True)
        return (x + chroma * (_shadow(hue) - _shadow(turned))).clamp(0, 1)


@dataclass(frozen=True)
class Saturation(OneNumber):
    """The HSV saturation times 1 + theta, clipped to [0, 1], |theta| <= epsilon; needs colour images."""

    def check(self, x: Tensor) -> None:
        require_colour(x, "saturation")

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        value = x.amax(1, keepdim=True)
        chroma = value - x.amin(1, keepdim=True)
        full = (value / chroma.clamp_min(_TINY)).clamp_min(1)
        factor = torch.minimum((1 + per_sample(theta[:, 0], x)).clamp_min(0), full)
        return (x + (1 - factor) * (value - x)).clamp(0, 1)


@dataclass(frozen=True)
class Contrast(OneNumber):
    """All pixels times 1 + theta, clipped to [0, 1], |theta| <= epsilon (no mean is taken off, as in kornia)."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x * (1 + per_sample(theta[:, 0], x))).clamp(0, 1)


@dataclass(frozen=True)
class Brightness(OneNumber):
    """theta added to all pixels, clipped to [0, 1], |theta| <= epsilon."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x + per_sample(theta[:, 0], x)).clamp(0, 1)
