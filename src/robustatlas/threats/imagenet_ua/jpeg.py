"""Changes of the cosine coefficients of blocks of 8 by 8 pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached
from robustatlas.common.jpeg import to_rgb
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.imagenet_ua.latents import LatentThreat


def _cosines() -> Tensor:
    """``[8, 8]``: frequency by position, orthonormal."""
    frequency = torch.arange(8, dtype=torch.float64)[:, None]
    position = torch.arange(8, dtype=torch.float64)
    cosines = torch.cos((2 * position + 1) * frequency * math.pi / 16) / 2
    cosines[0] /= math.sqrt(2)
    return cosines


def blocks_of(x: Tensor) -> tuple[int, int]:
    """Rows and columns of the blocks that cover an image."""
    return math.ceil(x.shape[2] / 8), math.ceil(x.shape[3] / 8)


def recomposed(x: Tensor, coefficients: Tensor) -> Tensor:
    """``x`` plus what ``coefficients`` [B, C, blocks, 8, 8] of luminance and chrominance add to it, in [0, 1]."""
    rows, columns = blocks_of(x)
    cosines = cached(_cosines, like=coefficients)
    pixels = cosines.T @ coefficients @ cosines
    tiled = pixels.view(len(x), x.shape[1], rows, columns, 8, 8).transpose(3, 4)
    planes = tiled.reshape(len(x), x.shape[1], rows * 8, columns * 8)[..., : x.shape[2], : x.shape[3]]
    return (x + (to_rgb(*planes.unbind(1)) if x.shape[1] == 3 else planes)).clamp(0, 1)


@dataclass(frozen=True)
class UaJpeg(LatentThreat):
    """JPEG of ImageNet-UA: every cosine coefficient of every block of 8 by 8 pixels, of luminance and chrominance,
    moves by at most epsilon (pixels in [0, 1]). Blocks reach over the border where they must.

    The change is added to the image itself.

    Example:
        >>> threat = UaJpeg()
        >>> threat.neutral(torch.rand(2, 3, 32, 32)).latent.shape
        torch.Size([2, 3, 16, 8, 8])
    """

    title: ClassVar[str] = "ua-jpeg"

    def check(self, x: Tensor) -> None:
        require_grey_or_colour(x, self.title)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[1], math.prod(blocks_of(x)), 8, 8)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return recomposed(x, latent)


def require_grey_or_colour(x: Tensor, what: str) -> None:
    """Raise unless ``x`` holds grey or RGB images; ``what`` names the threat model in the message."""
    if x.dim() != 4 or x.shape[1] not in (1, 3) or min(x.shape[2:]) < 2:
        raise UnsupportedInputError(
            f"{what} needs grey or RGB images [B, 1 or 3, H, W] of at least 2x2 pixels; got shape {tuple(x.shape)}: "
            "leave this attack out for this data."
        )
