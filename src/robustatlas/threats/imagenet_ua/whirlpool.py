"""Whirlpools: the image swirls around random centres."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.elastic import displace
from robustatlas.threats.imagenet_ua.elastic import half_sides
from robustatlas.threats.imagenet_ua.geometry import POSITIVE_BALL, Geometry
from robustatlas.threats.imagenet_ua.latents import LatentThreat

SWIRLS = 8
REACH = 0.1 * math.log(2)
"""The distance (half the side of the image is 1) over which the rotation falls to 1/e."""


def places(height: int, width: int) -> Tensor:
    """Return ``[2, H, W]``: column and row of every pixel in [-1, 1)."""
    rows, columns = (2 * torch.arange(side, dtype=torch.float64) / side - 1 for side in (height, width))
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1])


def swirl_flow(x: Tensor, turns: Tensor, centres: Tensor) -> Tensor:
    """Return ``[B, 2, H, W]``: how far whirlpools move what is seen at every pixel, along columns and rows.

    ``turns`` [B, 8] are their angles in radians, ``centres`` [B, 8, 2] their places. Of the eight moves along an axis
    the largest counts.
    """
    offset = cached_tensor(places, *x.shape[2:], like=x) - centres[..., None, None]
    across, down = offset.unbind(2)
    angle = turns[..., None, None] * torch.exp(-offset.square().sum(2).sqrt() / REACH)
    cosine, sine = angle.cos(), angle.sin()
    moved = torch.stack([across * cosine - down * sine, across * sine + down * cosine], 2)
    return (moved - offset).amax(1)


@dataclass(frozen=True)
class UaWhirlpool(LatentThreat):
    """Whirlpools of ImageNet-UA: eight of them at random places turn what is near them. The Euclidean norm of their
    rotations (radians in the middle, none of them negative) is at most epsilon.

    In the published attack each turns by half a radian at least, and each pixel is read half a pixel off.
    """

    title: ClassVar[str] = "ua-whirlpool"
    geometry: ClassVar[Geometry] = POSITIVE_BALL
    varied: ClassVar[bool] = True

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (SWIRLS,)

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        return (noise.symmetric(SWIRLS, 2, dtype=x.dtype),)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return displace(x, swirl_flow(x, latent, drawn[0]) * half_sides(x).view(2, 1, 1)).clamp(0, 1)
