"""Arithmetic of JPEG: quantisation tables, the cosine transform of 8 by 8 blocks, and colours."""

import math

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor

LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
"""Quantisation table for luminance of the JPEG standard (ITU T.81, annex K)."""
CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
"""Quantisation table for chrominance of the JPEG standard (ITU T.81, annex K)."""


def cosine_basis() -> Tensor:
    """Return the orthonormal cosine basis ``[8, 8]``, frequency by position."""
    frequency = torch.arange(8, dtype=torch.float64)[:, None]
    position = torch.arange(8, dtype=torch.float64)
    waves = torch.cos((2 * position + 1) * frequency * math.pi / 16) / 2
    waves[0] /= math.sqrt(2)
    return waves


def synthesis_matrix(table: tuple[tuple[int, ...], ...]) -> Tensor:
    """Return ``[64, 64]``: the pixels of a block, in [0, 255], for one unit of each quantised coefficient."""
    waves = torch.einsum("uy,vx->uvyx", cosine_basis(), cosine_basis())
    return (waves * torch.tensor(table, dtype=torch.float64)[..., None, None]).view(64, 64)


def decode_plane(coefficients: Tensor, rows: int, columns: int, table: tuple[tuple[int, ...], ...]) -> Tensor:
    """Return the pixels ``[B, rows * 8, columns * 8]`` of quantised ``coefficients`` [B, rows * columns * 64]."""
    blocks = coefficients.view(-1, rows, columns, 64) @ cached_tensor(synthesis_matrix, table, like=coefficients)
    return blocks.view(-1, rows, columns, 8, 8).transpose(2, 3).reshape(-1, rows * 8, columns * 8)


def repeat_pixels(plane: Tensor) -> Tensor:
    """Repeat each pixel of ``[..., H, W]`` in a 2 by 2 square."""
    return plane.repeat_interleave(2, -2).repeat_interleave(2, -1)


def ycbcr_to_rgb(luminance: Tensor, cb: Tensor, cr: Tensor) -> Tensor:
    """Return ``[B, 3, H, W]`` from luminance and chrominance ``[B, H, W]``; chrominance is centred at 0."""
    return torch.stack(
        (luminance + 1.402 * cr, luminance - 0.344136 * cb - 0.714136 * cr, luminance + 1.772 * cb), dim=1
    )
