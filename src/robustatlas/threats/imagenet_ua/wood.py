"""Wood: dark rings around the middle of the image, whose radius is bent."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.threats.imagenet_ua.latents import Faded, LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize

POWER = 8
"""The brightness between rings is this root of a sine."""


def _radii(height: int, width: int, dtype: torch.dtype) -> Tensor:
    """Return ``[H, W]``: distances from the middle; half the side of the image is 1."""
    rows, columns = (2 * (torch.arange(side, dtype=dtype) - side / 2) / side for side in (height, width))
    return (columns.square() + rows[:, None].square()).sqrt()


def add_rings(x: Tensor, bend: Tensor, rings: int) -> Tensor:
    """Return ``x`` [B, C, H, W] times the grain of wood, whose radius is bent by ``bend`` [B, 1, r, r].

    In the middle of a ring, where the root has no derivative, it counts as 0.
    """
    bent = F.interpolate(bend, x.shape[2:], mode="bilinear", align_corners=False)
    sine = torch.sin(math.pi * rings * (cached_tensor(_radii, *x.shape[2:], x.dtype, like=x) + bent)).abs()
    dark = sine == 0
    grain = torch.where(dark, 0, torch.where(dark, 1, sine).pow(1 / POWER))
    return (x * grain).clamp(0, 1)


@dataclass(frozen=True)
class WoodMap(LatentThreat):
    """Latent numbers, draws and the published map."""

    title: ClassVar[str] = "ua-wood"
    resolution: BySize[int] = field(default=BySize(16, 32))
    rings: BySize[int] = field(default=BySize(5, 4))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        side = self.resolution.value(x)
        return (1, side, side)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return add_rings(x, latent, self.rings.value(x))


@dataclass(frozen=True)
class UaWood(Faded, WoodMap):
    """Wood of ImageNet-UA: dark rings around the middle, whose radius is bent by at most epsilon (half the side of the
    image is 1). The bends of a coarse grid are enlarged to the image.

    In the published attack the numbers around the middle never move, since their gradient is not a number.
    """

    whole: ClassVar[BySize[float]] = BySize(0.03, 0.03)
