"""Fractional Brownian motion of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.starts import one_sided
from robustatlas.threats.imagenet_ua.fbm import UaFbm


@dataclass(frozen=True)
class HistoricalUaFbm(UaFbm):
    """Starts on one side. The code throws its last update away, so one step less is made."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return one_sided(self.shape(x), epsilon, noise)
