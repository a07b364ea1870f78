"""Changes of the cosine coefficients of blocks of 8 by 8 pixels."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.common.jpeg import cosine_basis, ycbcr_to_rgb
from robustatlas.threats.box import require_grey_or_colour
from robustatlas.threats.imagenet_ua.latents import LatentThreat


def blocks_of(x: Tensor) -> tuple[int, int]:
    """Return rows and columns of the blocks that cover an image."""
    return math.ceil(x.shape[2] / 8), math.ceil(x.shape[3] / 8)


def add_coefficients(x: Tensor, coefficients: Tensor) -> Tensor:
    """Return ``x`` plus what ``coefficients`` [B, C, blocks, 8, 8] of luminance and chrominance add to it, in [0,
    1].
    """
    rows, columns = blocks_of(x)
    waves = cached_tensor(cosine_basis, like=coefficients)
    pixels = waves.T @ coefficients @ waves
    tiled = pixels.view(len(x), x.shape[1], rows, columns, 8, 8).transpose(3, 4)
    planes = tiled.reshape(len(x), x.shape[1], rows * 8, columns * 8)[..., : x.shape[2], : x.shape[3]]
    return (x + (ycbcr_to_rgb(*planes.unbind(1)) if x.shape[1] == 3 else planes)).clamp(0, 1)


@dataclass(frozen=True)
class UaJpeg(LatentThreat):
    """JPEG of ImageNet-UA: every cosine coefficient of every block of 8 by 8 pixels, of luminance and chrominance,
    moves by at most epsilon (pixels in [0, 1]). Blocks reach over the border where they must.

    The change is added to the image itself.

    Example:
        >>> import torch
        >>> threat = UaJpeg()
        >>> threat.neutral(torch.rand(2, 3, 32, 32)).latent.shape
        torch.Size([2, 3, 16, 8, 8])
    """

    title: ClassVar[str] = "ua-jpeg"

    def check(self, x: Tensor) -> None:
        require_grey_or_colour(x, self.title, least=2)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[1], math.prod(blocks_of(x)), 8, 8)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return add_coefficients(x, latent)
