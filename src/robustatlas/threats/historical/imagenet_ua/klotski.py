"""Sliding blocks of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.sampling import sampled
from robustatlas.threats.historical.imagenet_ua.starts import one_sided
from robustatlas.threats.imagenet_ua.klotski import UaKlotski, spread


@dataclass(frozen=True)
class HistoricalUaKlotski(UaKlotski):
    """Reads half a pixel off, so that the image is blurred even by no shift; starts on one side."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return one_sided(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return sampled(x, spread(latent, x))
