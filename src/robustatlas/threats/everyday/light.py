"""Everyday changes of light and colour: exposure, gamma, contrast, saturation."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.host import constant_tensor
from robustatlas.threats.box import require_colour
from robustatlas.threats.everyday.change import Change

LUMINANCE = (0.299, 0.587, 0.114)
"""Weights of red, green and blue in a grey (ITU-R BT.601, as in Pillow)."""
_LINEAR_END = 0.04045
_TINY = 1e-7


class Lit(Change):
    """Base of changes of all pixels by one signed number."""

    signed: ClassVar[bool] = True

    @abstractmethod
    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        """Return the image at ``theta`` [B, 1, 1, 1]; at 0 it is ``x`` up to rounding."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return self.transform(x, per_sample(theta[:, 0], x)).clamp(0, 1)


@dataclass(frozen=True)
class Exposed(Lit):
    """Exposure changed by at most epsilon stops: light (sRGB made linear) times 2 to the power theta."""

    largest_size: ClassVar[float] = 8.0

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        light = to_linear_light(x)
        return x + (_to_srgb(light * torch.exp2(theta)) - _to_srgb(light))


@dataclass(frozen=True)
class Gamma(Lit):
    """Pixels to the power 1 + theta / 100, or its inverse below 0, by at most epsilon per cent either way."""

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        exponent = torch.where(theta < 0, 1 / (1 - theta.clamp_max(0) / 100), 1 + theta.clamp_min(0) / 100)
        positive = x.clamp_min(_TINY)
        return torch.where(x > 0, x * (positive.log() * (exponent - 1)).exp(), x)


@dataclass(frozen=True)
class Contrasted(Lit):
    """Distances from the image's mean grey times 1 + theta / 100, by at most epsilon per cent either way."""

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        return x + (x - to_grey(x).mean((2, 3), keepdim=True)) * (theta / 100)


@dataclass(frozen=True)
class Saturated(Lit):
    """Distances from each pixel's grey times 1 + theta / 100, by at most epsilon per cent either way; needs colour."""

    def check(self, x: Tensor) -> None:
        require_colour(x, "saturation-percent")

    def transform(self, x: Tensor, theta: Tensor) -> Tensor:
        return x + (x - to_grey(x)) * (theta / 100)


def to_grey(x: Tensor) -> Tensor:
    """Return ``[B, 1, H, W]``: the luminance of colour images, the mean of the channels of others."""
    if x.shape[1] != len(LUMINANCE):
        return x.mean(1, keepdim=True)
    return (x * constant_tensor(LUMINANCE, x).view(1, -1, 1, 1)).sum(1, keepdim=True)


def to_linear_light(x: Tensor) -> Tensor:
    """Return the linear light of sRGB pixel values (IEC 61966-2-1)."""
    return torch.where(x > _LINEAR_END, ((x + 0.055) / 1.055) ** 2.4, x / 12.92)


def _to_srgb(light: Tensor) -> Tensor:
    dark = light <= _LINEAR_END / 12.92
    bright = torch.where(dark, 1.0, light) ** (1 / 2.4)
    return torch.where(dark, light * 12.92, 1.055 * bright - 0.055)
