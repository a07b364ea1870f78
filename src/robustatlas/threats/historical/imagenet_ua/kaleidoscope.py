"""Kaleidoscope of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.kaleidoscope import KaleidoscopeMap


@dataclass(frozen=True)
class HistoricalUaKaleidoscope(KaleidoscopeMap):
    """The shapes lie over the image at every strength; the outlines start on one side."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        colours = noise.child(0).symmetric(3 * self.count.at(x), dtype=x.dtype)
        outlines = noise.child(1).uniform(x[0, 0].numel(), dtype=x.dtype)
        begun = torch.cat([colours, outlines], 1)
        return begun * per_sample(epsilon, begun)
