"""Bilinear sampling of images along a grid, exact where the grid is the identity."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def sample(image: Tensor, grid: Tensor, align_corners: bool) -> Tensor:
    """``image`` [B, C, H, W] read at ``grid`` [B, H, W, 2] (x, y in [-1, 1]), bilinear, zero outside; in [0, 1]."""
    read = F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=align_corners)
    return read.clamp(0, 1)  # the weights of four white pixels may add up to a little more than 1


def resample(image: Tensor, grid: Tensor, identity: Tensor, align_corners: bool) -> Tensor:
    """As :func:`sample`, but bit for bit ``image`` where ``grid`` equals ``identity`` [H, W, 2]; in [0, 1].

    Grid coordinates round, so plain sampling changes most images by about 1e-6 even along the identity. That error is
    taken off: s + (x - s) is exactly x because s is so near to x (Sterbenz).
    """
    error = image - sample(image, identity.expand(len(image), -1, -1, -1), align_corners)
    return (sample(image, grid, align_corners) + error).clamp(0, 1)


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
