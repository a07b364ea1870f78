"""Pixelation: every block of every channel fades towards one of its pixels."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from robustatlas.threats.imagenet_ua.geometry import EuclideanBall, Geometry
from robustatlas.threats.imagenet_ua.latents import LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize


def pixelate(x: Tensor, weights: Tensor, block: int) -> Tensor:
    """Return ``x`` [B, C, H, W] with ``weights`` [B, C, h, w] of the upper left pixel of each block, and the rest
    of x.
    """
    height, width = x.shape[2:]

    def spread(blocks: Tensor) -> Tensor:
        return blocks.repeat_interleave(block, 2).repeat_interleave(block, 3)[..., :height, :width]

    weight = spread(weights)
    return (1 - weight) * x + weight * spread(x[..., ::block, ::block])


@dataclass(frozen=True)
class UaPixel(LatentThreat):
    """Pixelation of ImageNet-UA: each block of each channel is mixed with its upper left pixel, with a weight in [0, 1]
    and the Euclidean norm of all weights at most epsilon. Blocks reach over the border where they must.

    Example:
        >>> import torch
        >>> threat = UaPixel()
        >>> threat.neutral(torch.rand(2, 3, 32, 32)).latent.shape
        torch.Size([2, 3, 8, 8])
    """

    title: ClassVar[str] = "ua-pixel"
    geometry: ClassVar[Geometry] = EuclideanBall(positive=True, most=1)
    block: BySize[int] = field(default=BySize(4, 16))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        block = self.block.value(x)
        return (x.shape[1], *(math.ceil(side / block) for side in x.shape[2:]))

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return pixelate(x, latent, self.block.value(x)).clamp(0, 1)
