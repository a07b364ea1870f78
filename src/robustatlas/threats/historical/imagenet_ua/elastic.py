"""Elastic deformation of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.geometry import SIGN_BALL
from robustatlas.threats.historical.imagenet_ua.sampling import sampled
from robustatlas.threats.imagenet_ua.elastic import UaElastic, enlarged
from robustatlas.threats.imagenet_ua.geometry import Geometry


@dataclass(frozen=True)
class HistoricalUaElastic(UaElastic):
    """No displacement zooms the image and darkens its border. Starts lie at the border of the ball; steps go along
    signs."""

    geometry: ClassVar[Geometry] = SIGN_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.geometry.within(noise.symmetric(*self.shape(x), dtype=x.dtype), epsilon)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return sampled(x, enlarged(latent, x), last=True)
