"""Colour of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.starts import one_sided
from robustatlas.threats.imagenet_ua.hsv import UaHsv, recoloured


@dataclass(frozen=True)
class HistoricalUaHsv(UaHsv):
    """Starts on one side; no change is the image only up to rounding."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return one_sided(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return recoloured(x, latent)
