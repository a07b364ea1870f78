"""Snow of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.geometry import SIGN_BALL
from robustatlas.threats.imagenet_ua.geometry import Geometry
from robustatlas.threats.imagenet_ua.snow import SnowMap, bleached, fallen


@dataclass(frozen=True)
class HistoricalUaSnow(SnowMap):
    """Flakes are fourth powers of numbers whose Euclidean norm is at most epsilon; the image is bleached at every
    strength; steps go along signs."""

    geometry: ClassVar[Geometry] = SIGN_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        flakes = torch.exp(-noise.uniform(*self.shape(x), dtype=x.dtype) / 5)
        return self.geometry.within(flakes, epsilon)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        places, kernels = drawn
        return fallen(bleached(x, 1.0), (latent * places).square().square(), kernels)
