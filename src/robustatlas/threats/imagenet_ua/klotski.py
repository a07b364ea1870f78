"""Sliding blocks: eight by eight blocks of the image, each read from somewhere near."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.threats.elastic import displace
from robustatlas.threats.imagenet_ua.elastic import half_sides
from robustatlas.threats.imagenet_ua.latents import LatentThreat

BLOCKS = 8


def spread(shifts: Tensor, x: Tensor) -> Tensor:
    """Return ``[B, 2, H, W]``: the shift of the block of every pixel of ``x``, from ``shifts`` [B, 8, 8, 2]."""
    rows, columns = (torch.arange(side, device=x.device) * BLOCKS // side for side in x.shape[2:])
    return shifts.index_select(1, rows).index_select(2, columns).permute(0, 3, 1, 2)


@dataclass(frozen=True)
class UaKlotski(LatentThreat):
    """Sliding blocks of ImageNet-UA: each of eight by eight blocks of the image is read at most epsilon further along
    rows and columns (half the side of the image is 1), black outside.

    The published attack reads each pixel half a pixel off.
    """

    title: ClassVar[str] = "ua-klotski"
    largest_size: ClassVar[float] = 2.0

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (BLOCKS, BLOCKS, 2)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return displace(x, spread(latent * half_sides(x), x)).clamp(0, 1)
