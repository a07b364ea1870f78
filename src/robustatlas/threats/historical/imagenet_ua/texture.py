"""Texture of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.starts import one_sided
from robustatlas.threats.imagenet_ua.geometry import Geometry, Rectangle
from robustatlas.threats.imagenet_ua.texture import TextureMap


@dataclass(frozen=True)
class HistoricalUaTexture(TextureMap):
    """Edges are black at every strength; weights have both signs, and count by their absolute values."""

    geometry: ClassVar[Geometry] = Rectangle(most=1.0)

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return one_sided(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return super().distort(x, latent.abs(), *drawn)
