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

from robustatlas.noise import Noise
from robustatlas.threats.base import per_sample
from robustatlas.threats.box import BoxThreat, require_colour

_TINY = 1e-8


class _Scalar(BoxThreat):
    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (1,)


def hue_of(x: Tensor) -> Tensor:
    """``[B, H, W]``: the HSV hue of RGB images in [0, 6), one unit per sector; 0 where a pixel is grey."""
    red, green, blue = x.unbind(1)
    top, sector = x.max(1)
    chroma = (top - x.amin(1)).clamp_min(_TINY)
    turns = torch.stack([green - blue, blue - red, red - green], 1) / chroma[:, None]
    offsets = torch.tensor([0.0, 2.0, 4.0], dtype=x.dtype, device=x.device).view(1, 3, 1, 1)
    return (turns + offsets).gather(1, sector[:, None])[:, 0].remainder(6)


def _shadow(hue: Tensor) -> Tensor:
    """``[B, 3, H, W]``: how far each channel lies below the brightest, in units of the chroma."""
    offsets = torch.tensor([5.0, 3.0, 1.0], dtype=hue.dtype, device=hue.device).view(1, 3, 1, 1)
    position = (hue[:, None] + offsets).remainder(6)
    return torch.minimum(position, 4 - position).clamp(0, 1)


@dataclass(frozen=True)
class Hue(_Scalar):
    """The HSV hue of all pixels turned by theta radians, |theta| <= epsilon; needs colour images."""

    def check(self, x: Tensor) -> None:
        require_colour(x, "hue")

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        hue = hue_of(x)
        turned = hue + per_sample(theta[:, 0], hue) * (3 / math.pi)
        chroma = x.amax(1, keepdim=True) - x.amin(1, keepdim=True)
        return (x + chroma * (_shadow(hue) - _shadow(turned))).clamp(0, 1)


@dataclass(frozen=True)
class Saturation(_Scalar):
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
class Contrast(_Scalar):
    """All pixels times 1 + theta, clipped to [0, 1], |theta| <= epsilon (no mean is taken off, as in kornia)."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x * (1 + per_sample(theta[:, 0], x))).clamp(0, 1)


@dataclass(frozen=True)
class Brightness(_Scalar):
    """theta added to all pixels, clipped to [0, 1], |theta| <= epsilon.

    ``faithful=True`` only brightens (0 <= theta <= epsilon), as MultiRobustBench's code does; a negative theta then
    has infinite size.
    """

    faithful: bool = False

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        theta = super().start(x, epsilon, noise)
        return (theta + per_sample(epsilon, theta)) / 2 if self.faithful else theta

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x + per_sample(theta[:, 0], x)).clamp(0, 1)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        theta = super().project(x, theta, epsilon)
        return theta.clamp_min(0) if self.faithful else theta

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        size = super().size(x, theta)
        if self.faithful:
            return torch.where(theta[:, 0] < 0, torch.full_like(size, torch.inf), size)
        return size
