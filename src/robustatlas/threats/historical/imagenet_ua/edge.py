"""Edges of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.edge import EdgeMap


@dataclass(frozen=True)
class HistoricalUaEdge(EdgeMap):
    """Edges are painted at every strength. Starts are uniform in [0, 1]; the first step brings them into the set."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return noise.uniform(*self.shape(x), dtype=x.dtype)
