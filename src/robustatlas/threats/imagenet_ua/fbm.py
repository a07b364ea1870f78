"""Fractional Brownian motion: several octaves of gradient noise, whose gradients are optimised."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.threats.fog import crop
from robustatlas.threats.imagenet_ua.latents import LatentThreat

COARSEST = 8
"""Cells along a side of the first octave; the next ones have twice as many each."""


def field_side(x: Tensor) -> int:
    """Return side of the field of noise: the next power of two, and at least twice as many pixels as the coarsest
    cells.
    """
    return max(2 * COARSEST, 1 << (max(x.shape[2:]) - 1).bit_length())


def octaves(side: int) -> list[int]:
    """Return cells along a side, for each octave; the finest are two pixels wide."""
    return [COARSEST << k for k in range(side.bit_length() - 4)]


def octave(gradients: Tensor, side: int) -> Tensor:
    """Return ``[B, side, side]``: gradient noise (Perlin) of ``gradients`` [B, cells + 1, cells + 1, 2]."""
    cells = gradients.shape[1] - 1
    pixels = side // cells
    inside = torch.arange(pixels, dtype=gradients.dtype, device=gradients.device) / pixels
    share = inside**3 * (inside * (6 * inside - 15) + 10)

    def ramp(down: int, right: int) -> Tensor:
        """Return ``[B, cells, pixels, cells, pixels]``: what the gradient at this corner of a cell adds inside of
        it.
        """
        corner = gradients[:, down : down + cells, right : right + cells]
        along_rows, along_columns = corner[:, :, None, :, None].unbind(-1)
        return (inside - down)[:, None, None] * along_rows + (inside - right) * along_columns

    upper, lower = (torch.lerp(ramp(0, k), ramp(1, k), share[:, None, None]) for k in (0, 1))
    return math.sqrt(2) * (upper + share * (lower - upper)).reshape(-1, side, side)


def brownian(gradients: Tensor, side: int) -> Tensor:
    """Return ``[B, side, side]``: the octaves of ``gradients`` [B, N], each half as strong as the one before."""
    counts = octaves(side)
    parts = torch.split(gradients, [2 * (cells + 1) ** 2 for cells in counts], dim=1)
    fields = [
        octave(part.view(-1, cells + 1, cells + 1, 2), side) / 2**k
        for k, (part, cells) in enumerate(zip(parts, counts, strict=True))
    ]
    return torch.stack(fields).sum(0)


@dataclass(frozen=True)
class UaFbm(LatentThreat):
    """Fractional Brownian motion of ImageNet-UA: noise of several octaves is added to all channels alike. Each number
    of the gradients that make it is in [-epsilon, epsilon]. Images need not be square.

    The published attack returns the image before its last update, and starts on one side of the same inputs.
    """

    title: ClassVar[str] = "ua-fbm"

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (sum(2 * (cells + 1) ** 2 for cells in octaves(field_side(x))),)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return (x + crop(brownian(latent, field_side(x)), *x.shape[2:])[:, None]).clamp(0, 1)
