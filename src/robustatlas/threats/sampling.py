"""Bilinear sampling of images along a grid, exact where the grid is the identity."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Padding = Literal["zeros", "reflection", "border"]
"""Content beyond the edges: zeros, the mirror image, or the outermost pixels."""


def sample(image: Tensor, grid: Tensor, align_corners: bool, padding: Padding = "zeros", level: float = 0.0) -> Tensor:
    """Return ``image`` [B, C, H, W] read bilinearly at ``grid`` [B, H, W, 2] (x, y in [-1, 1]), in [0, 1].

    ``padding`` fills the outside; for "zeros" it has the pixel value ``level``.
    """
    shifted = image - level if level else image
    read = F.grid_sample(shifted, grid, mode="bilinear", padding_mode=padding, align_corners=align_corners)
    return (read + level if level else read).clamp(0, 1)  # rounded weights may sum to slightly more than 1


def resample(
    image: Tensor, grid: Tensor, identity: Tensor, align_corners: bool, padding: Padding = "zeros", level: float = 0.0
) -> Tensor:
    """Return :func:`sample`, but exactly ``image`` if ``grid`` equals ``identity`` [H, W, 2].

    Grid coordinates are rounded, so sampling along the identity changes most images by about 1e-6. That error is
    subtracted: s + (x - s) is exactly x because s is near to x (Sterbenz's lemma).
    """
    settings = (align_corners, padding, level)
    error = image - sample(image, identity.expand(len(image), -1, -1, -1), *settings)
    return (sample(image, grid, *settings) + error).clamp(0, 1)


def cell_centres(height: int, width: int, like: Tensor) -> Tensor:
    """Return ``[H, W, 2]``: the identity grid where -1 and 1 are the borders of the image (``align_corners=False``)."""

    def axis(count: int) -> Tensor:
        return (2 * torch.arange(count, dtype=like.dtype, device=like.device) + 1) / count - 1

    rows, columns = torch.meshgrid(axis(height), axis(width), indexing="ij")
    return torch.stack([columns, rows], -1)


def pixel_grid(height: int, width: int, like: Tensor) -> Tensor:
    """Return ``[H, W, 2]``: column and row of each pixel, in pixels."""
    rows, columns = torch.meshgrid(
        torch.arange(height, dtype=like.dtype, device=like.device),
        torch.arange(width, dtype=like.dtype, device=like.device),
        indexing="ij",
    )
    return torch.stack([columns, rows], -1)
