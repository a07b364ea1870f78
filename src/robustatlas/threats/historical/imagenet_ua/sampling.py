"""Sampling half a pixel off, as the published attacks that move pixels do."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def sample_moved(
    x: Tensor, displacement: Tensor, padding: Literal["zeros", "reflection"] = "zeros", *, last: bool = False
) -> Tensor:
    """Return ``x`` [B, C, H, W] read at a grid over [-1, 1), moved by ``displacement`` [B, 2, H, W] (columns, rows).

    PyTorch takes -1 and 1 for the borders of the image and not for the middles of its outermost pixels, so that every
    pixel is read half a pixel off. ``last``: the grid reaches up to 1 itself, which zooms the image.
    """

    def axis(side: int) -> Tensor:
        if last:
            return torch.linspace(-1, 1, side, dtype=x.dtype, device=x.device)
        return 2 * torch.arange(side, dtype=x.dtype, device=x.device) / side - 1

    column = axis(x.shape[3]) + displacement[:, 0]
    row = axis(x.shape[2])[:, None] + displacement[:, 1]
    grid = torch.stack([column, row], -1)
    return F.grid_sample(x, grid, mode="bilinear", padding_mode=padding, align_corners=False).clamp(0, 1)
