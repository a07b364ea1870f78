"""Polka dots of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.geometry import REFLECTED_BALL
from robustatlas.threats.imagenet_ua.geometry import Geometry
from robustatlas.threats.imagenet_ua.polkadot import PolkadotMap


@dataclass(frozen=True)
class HistoricalUaPolkadot(PolkadotMap):
    """Dots cover most of the image at every strength; starts uniformly in [0, 1] whatever epsilon, which the first step
    brings into the set. The dots' places belong to a sample, and not to a batch as in the code."""

    geometry: ClassVar[Geometry] = REFLECTED_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return noise.uniform(*self.shape(x), dtype=x.dtype)
