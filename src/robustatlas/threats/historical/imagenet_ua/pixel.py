"""Pixelation of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.geometry import CLIPPED_BALL
from robustatlas.threats.historical.imagenet_ua.starts import along_ray
from robustatlas.threats.imagenet_ua.geometry import Geometry
from robustatlas.threats.imagenet_ua.pixel import UaPixel, pixelated


@dataclass(frozen=True)
class HistoricalUaPixel(UaPixel):
    """Images whose sides are not multiples of the block are enlarged, and cut again after mixing."""

    geometry: ClassVar[Geometry] = CLIPPED_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return along_ray(self.shape(x), epsilon, noise).clamp(0, 1)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        block = self.block.at(x)
        whole = [block * count for count in latent.shape[2:]]
        if whole == list(x.shape[2:]):
            return super().distort(x, latent)
        enlarged = F.interpolate(x, whole, mode="bilinear", align_corners=False)
        return pixelated(enlarged, latent, block)[..., : x.shape[2], : x.shape[3]].clamp(0, 1)
