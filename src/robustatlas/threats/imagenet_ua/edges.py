"""Edges of an image, for the attacks ``ua-edge`` and ``ua-texture``."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.host import cached_tensor

THRESHOLD = 0.1
"""Share of the strongest edge from which an edge counts."""

_RIVAL_NEIGHBOURS = (((0, 1), (0, -1)), ((-1, 1), (1, -1)), ((-1, 0),), ((-1, -1),))
"""Neighbours (down, right) that an edge must exceed, for each of four directions of edges."""


def _blur() -> Tensor:
    offsets = torch.arange(-1, 2, dtype=torch.float64)
    weights = torch.exp(-(offsets[:, None].square() + offsets.square()) / 2)
    return weights / weights.sum()


def _slopes() -> Tensor:
    across = torch.tensor([[-0.5, 0.0, 0.5], [-1.0, 0.0, 1.0], [-0.5, 0.0, 0.5]], dtype=torch.float64)
    return torch.stack([across, across.T])


def _neighbour(field: Tensor, down: int, right: int) -> Tensor:
    """Return for every pixel of ``field`` [B, H, W] the one ``down`` and ``right`` of it, 0 outside."""
    padded = F.pad(field, (1, 1, 1, 1))
    height, width = field.shape[1:]
    return padded[:, 1 + down : 1 + down + height, 1 + right : 1 + right + width]


@torch.no_grad()
def edge_strength(x: Tensor) -> Tensor:
    """Return ``[B, H, W]``: the strength of the edges of ``x`` [B, C, H, W], 0 elsewhere.

    Canny's method without its last step, as the public code has it: all is black outside of the image, directions are
    doubled before they are rounded to eighths, and half of the neighbours do not count.
    """
    channels = x.shape[1]
    blurred = F.conv2d(x, cached_tensor(_blur, like=x).expand(channels, 1, 3, 3), padding=1, groups=channels)
    slopes = cached_tensor(_slopes, like=x)[:, None].repeat(channels, 1, 1, 1)
    both = F.conv2d(blurred, slopes, padding=1, groups=channels)
    across, down = both[:, ::2].mean(1), both[:, 1::2].mean(1)
    strength = (across.square() + down.square()).sqrt()
    eighth = torch.round((torch.atan(down / across) * (360 / math.pi) + 180) / 45).remainder(8)
    beaten = torch.zeros_like(strength, dtype=torch.bool)
    for direction, rivals in enumerate(_RIVAL_NEIGHBOURS):
        there = eighth.remainder(4) == direction  # NaN in constant areas, which are so never beaten
        for rival in rivals:
            beaten |= there & (strength <= _neighbour(strength, *rival))
    return strength.masked_fill(beaten, 0)


@torch.no_grad()
def find_edges(x: Tensor) -> Tensor:
    """Return ``[B, 1, H, W]``: 1 at the edges of ``x``, 0 elsewhere."""
    strength = edge_strength(x)
    return (strength / strength.amax(dim=(1, 2), keepdim=True) > THRESHOLD)[:, None].to(x.dtype)
