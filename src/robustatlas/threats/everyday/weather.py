"""Everyday weather by its density: fog, rain, snow."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.everyday.change import Change, FreeKind, pattern_noise
from robustatlas.threats.fog import level_count, plasma, plasma_side

_TINY = 1e-12
_FOG = 0.85
_RAIN, _RAIN_COVER = 0.8, 0.6
_SNOW, _SNOW_COVER = 1.0, 0.9


class Weather(Change):
    """Base of weather between the camera and the scene; its density grows with theta."""

    free: ClassVar[tuple[tuple[FreeKind, int], ...]] = (("draw", 3),)
    colour: ClassVar[float]
    largest_size: ClassVar[float] = 100.0

    @abstractmethod
    def cover(self, x: Tensor, density: Tensor, noise: Noise) -> Tensor:
        """Return ``[B, 1, H, W]``: how much of each pixel is hidden, from 0 to 1, at a ``density`` [B] from 0 to 1."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        hidden = self.cover(x, theta[:, 0] / 100, pattern_noise(theta))
        return x + hidden * (self.colour - x)


@dataclass(frozen=True)
class Foggy(Weather):
    """Fog that takes at most epsilon per cent of the light of what is behind it, on average over the image, in drifts:
    between half and one and a half times that."""

    colour: ClassVar[float] = _FOG

    def cover(self, x: Tensor, density: Tensor, noise: Noise) -> Tensor:
        return (per_sample(density, x) * (0.5 + _drifts(x, noise))).clamp(0, 1)


@dataclass(frozen=True)
class Rainy(Weather):
    """Rain: bright streaks, slightly slanted, that begin at at most epsilon per cent of the pixels."""

    colour: ClassVar[float] = _RAIN

    def cover(self, x: Tensor, density: Tensor, noise: Noise) -> Tensor:
        height, width = x.shape[2:]
        length = max(3, height // 6)
        chance = noise.child(1).uniform(1, height + length, width + length, dtype=x.dtype)
        drops = _draw_drops(chance, density)
        streaks = drops[..., length:, length:]
        for step in range(1, length):
            side = step // 3
            streaks = torch.maximum(streaks, drops[..., length - step : -step, length - side : width + length - side])
        return _RAIN_COVER * streaks


@dataclass(frozen=True)
class Snowy(Weather):
    """Snow: soft white flakes on at most epsilon per cent of the pixels."""

    colour: ClassVar[float] = _SNOW

    def cover(self, x: Tensor, density: Tensor, noise: Noise) -> Tensor:
        flakes = _draw_drops(noise.child(1).uniform(1, *x.shape[2:], dtype=x.dtype), density)
        radius = max(1, min(x.shape[2:]) // 64)
        distance = torch.arange(-2 * radius, 2 * radius + 1, dtype=x.dtype, device=x.device)
        bell = torch.exp(-0.5 * (distance / radius) ** 2)
        kernel = (bell[:, None] * bell)[None, None]
        return _SNOW_COVER * F.conv2d(flakes, kernel, padding=2 * radius).clamp(0, 1)


_SOFT = 0.002
"""Width, in chance, over which a drop appears, so that the density has a gradient."""


def _draw_drops(chance: Tensor, density: Tensor) -> Tensor:
    """Return drops where ``chance`` [B, 1, H, W], from 0 to 1, is below ``density`` [B]; denser ones contain
    sparser.
    """
    return ((per_sample(density, chance) - chance * (1 - _SOFT)) / _SOFT).clamp(0, 1)


def _drifts(x: Tensor, noise: Noise) -> Tensor:
    """Return ``[B, 1, H, W]``: heights from 0 to 1 of a plasma, of mean 1/2."""
    side = plasma_side(x.shape[2] - 1, x.shape[3] - 1)
    heights = plasma(noise.child(0).symmetric(level_count(side), dtype=x.dtype), side)
    field = heights[:, None, : x.shape[2], : x.shape[3]]
    field = field - field.mean((2, 3), keepdim=True)
    return 0.5 + field / (2 * field.abs().amax((2, 3), keepdim=True)).clamp_min(_TINY)
