"""Fog: a plasma whose every number is optimised, and which hides the image where it is far from 0."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor, constant_tensor
from robustatlas.threats.box import require_grey_or_colour
from robustatlas.threats.fog import crop, level_count, plasma
from robustatlas.threats.imagenet_ua.latents import LatentThreat

DECAY = 3.0
"""Factor by which each level of the plasma counts less than the one before."""
COLOUR = (0.485, 0.45, 0.406)


def field_side(x: Tensor) -> int:
    """Return the side of the plasma: the power of two that covers the image."""
    return 1 << (max(x.shape[2:]) - 1).bit_length()


def _factors(side: int) -> Tensor:
    """Return ``[side^2 - 1]``: what the numbers of each level are multiplied by, as the plasma of 2019 halves every
    level.
    """
    levels = range(side.bit_length() - 1)
    return torch.cat([torch.full((3 * 4**k,), (2 / DECAY) ** k, dtype=torch.float64) for k in levels])


def add_fog(x: Tensor, levels: Tensor) -> Tensor:
    """Return ``x`` [B, 1 or 3, H, W] in the fog of ``levels`` [B, side^2 - 1], coarse to fine."""
    side = field_side(x)
    field = crop(plasma(levels * cached_tensor(_factors, side, like=levels), side), *x.shape[2:])[:, None]
    density = torch.where(field < 0, -field, field).clamp_max(1)  # rises from 0, unlike torch.abs
    colour = COLOUR if x.shape[1] == 3 else (sum(COLOUR) / 3,)
    return (1 - density) * x + density * constant_tensor(colour, like=x).view(1, -1, 1, 1)


@dataclass(frozen=True)
class UaFog(LatentThreat):
    """Fog of ImageNet-UA: the image is mixed with the mean colour of ImageNet (grey ones with the mean grey), by the
    absolute value of a plasma (diamond-square). Each number of the plasma is in [-epsilon, epsilon].

    The published attack starts on one side of the same inputs.
    """

    title: ClassVar[str] = "ua-fog"

    def check(self, x: Tensor) -> None:
        require_grey_or_colour(x, self.title, least=2)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (level_count(field_side(x)),)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return add_fog(x, latent).clamp(0, 1)
