"""Wood of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.wood import WoodMap


@dataclass(frozen=True)
class HistoricalUaWood(WoodMap):
    """The rings stand there at every strength; starts without any bend, and the four bends in the middle never move,
    since the pixel in the middle makes their gradient not a number, whose sign is 0."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return x.new_zeros(len(x), *self.shape(x))

    def steepest(self, x: Tensor, gradient: Any) -> Any:
        direction = super().steepest(x, gradient)
        middle = self.resolution.at(x) // 2
        moving = torch.ones_like(direction.latent)
        moving[..., middle - 1 : middle + 1, middle - 1 : middle + 1] = 0
        return replace(direction, latent=direction.latent * moving)
