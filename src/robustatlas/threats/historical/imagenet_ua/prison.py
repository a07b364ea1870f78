"""Prison bars of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.geometry import POSITIVE, Geometry
from robustatlas.threats.imagenet_ua.prison import PrisonMap


@dataclass(frozen=True)
class HistoricalUaPrison(PrisonMap):
    """The bars stand there at every strength, and start grey."""

    geometry: ClassVar[Geometry] = POSITIVE

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return x.new_zeros(len(x), *self.shape(x))
