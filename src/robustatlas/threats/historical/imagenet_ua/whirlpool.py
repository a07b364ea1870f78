"""Whirlpools of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.sampling import sampled
from robustatlas.threats.historical.imagenet_ua.starts import along_ray
from robustatlas.threats.imagenet_ua.geometry import BALL, Geometry
from robustatlas.threats.imagenet_ua.whirlpool import UaWhirlpool, swirled

LEAST = 0.5
"""Radians by which every whirlpool turns at least."""


@dataclass(frozen=True)
class HistoricalUaWhirlpool(UaWhirlpool):
    """Every whirlpool turns by half a radian at least, and every pixel is read half a pixel off; rotations have both
    signs, and count by their absolute values."""

    geometry: ClassVar[Geometry] = BALL
    varied: ClassVar[bool] = False

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return along_ray(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return sampled(x, swirled(x, latent.abs() + LEAST, drawn[0]))
