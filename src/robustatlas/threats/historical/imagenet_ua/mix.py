"""Mixing of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.starts import on_sphere
from robustatlas.threats.imagenet_ua.geometry import BALL, Geometry
from robustatlas.threats.imagenet_ua.mix import UaMix


@dataclass(frozen=True)
class HistoricalUaMix(UaMix):
    """Weights have both signs, and count by their absolute values. The other picture comes from the bank, not from the
    batch, so that results do not depend on the batch."""

    geometry: ClassVar[Geometry] = BALL
    varied: ClassVar[bool] = False

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return on_sphere(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return super().distort(x, latent.abs(), *drawn)
