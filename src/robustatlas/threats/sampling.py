"""Bilinear sampling of images along a grid, exact where the grid is the identity."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Padding = Literal["zeros", "reflection", "border"]
"""What lies beyond the edges: zeros, the mirror image, or the outermost pixels."""


def sample(image: Tensor, grid: Tensor, align_corners: bool, padding: Padding = "zeros", level: float = 0.0) -> Tensor:
    """``image`` [B, C, H, W] read at ``grid`` [B, H, W, 2] (x, y in [-1, 1]), bilinear; in [0, 1]. ``padding``: what
    lies outside; zeros are the pixel value ``level``."""
    shown = image - level if level else image
    read = F.grid_sample(shown, grid, mode="bilinear", padding_mode=padding, align_corners=align_corners)
    return (read + level if level else read).clamp(0, 1)  # four weights may add up to a little more than 1


def resample(
    image: Tensor, grid: Tensor, identity: Tensor, align_corners: bool, padding: Padding = "zeros", level: float = 0.0
) -> Tensor:
    """As :func:`sample`, but bit for bit ``image`` where ``grid`` equals ``identity`` [H, W, 2]; in [0, 1].

    Grid coordinates round, so plain sampling changes most images by about 1e-6 even along the identity. That error is
    taken off: s + (x - s) is exactly x because s is so near to x (Sterbenz).
    """
    how = (align_corners, padding, level)
    error = image - sample(image, identity.expand(len(image), -1, -1, -1), *how)
    return (sample(image, grid, *how) + error).clamp(0, 1)


def cell_centres(height: int, width: int, like: Tensor) -> Tensor:
    """``[H, W, 2]``: the identity grid where -1 and 1 are the borders of the image (``align_corners=False``)."""

    def axis(count: int) -> Tensor:
        return (2 * torch.arange(count, dtype=like.dtype, device=like.device) + 1) / count - 1

    rows, columns = torch.meshgrid(axis(height), axis(width), indexing="ij")
    return torch.stack([columns, rows], -1)


def pixels(height: int, width: int, like: Tensor) -> Tensor:
    """``[H, W, 2]``: column and row of each pixel, in pixels."""
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=like.dtype, device=like.device),
        torch.arange(width, dtype=like.dtype, device=like.device),
        indexing="ij",
    )
    return torch.stack([columns, rows], -1)
