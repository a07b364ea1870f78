"""Defenses that transform the input, as modules to put before a network: ``nn.Sequential(JPEGCompression(75), net)``.

Their rounding has no useful gradient, so the backward pass takes it for the identity (the straight-through estimator,
or BPDA: Athalye et al. 2018). An attack then sees through the defense instead of stalling in front of it.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.errors import UserError
from robustatlas.threats.jpeg import _CHROMINANCE, _LUMINANCE, _double, _plane, _synthesis, _to_rgb

Table = tuple[tuple[int, ...], ...]
_ONES: Table = ((1,) * 8,) * 8


class _Round(torch.autograd.Function):
    """To the nearest integer, halves away from zero; the gradient of the identity."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.sign() * (x.abs() + 0.5).floor()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient


def _round(x: Tensor) -> Tensor:
    rounded: Tensor = _Round.apply(x)  # type: ignore[no-untyped-call]
    return rounded


class BitDepthReduction(nn.Module):
    """Round each pixel to ``bits`` bits (Xu et al. 2018, feature squeezing).

    Example:
        >>> BitDepthReduction(1)(torch.tensor([0.2, 0.7]))
        tensor([0., 1.])
    """

    def __init__(self, bits: int) -> None:
        super().__init__()
        if not 1 <= bits <= 16:
            raise UserError(f"The bit depth must lie in 1..16, got {bits}.")
        self.levels = 2**bits - 1

    def forward(self, x: Tensor) -> Tensor:
        """``x`` in [0, 1], of any shape, with ``2**bits`` values."""
        return _round(x * self.levels).div(self.levels)


class MedianSmoothing(nn.Module):
    """Each pixel becomes the median of the ``size`` x ``size`` ones around it (Xu et al. 2018, feature squeezing)."""

    def __init__(self, size: int = 3) -> None:
        super().__init__()
        if size < 1 or size % 2 == 0:
            raise UserError(f"The window must have an odd side, got {size}.")
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[B, C, H, W]``, mirrored at its borders."""
        padded = F.pad(x, (self.size // 2,) * 4, mode="reflect")
        windows = padded.unfold(2, self.size, 1).unfold(3, self.size, 1)
        return windows.flatten(4).median(dim=-1).values


class JPEGCompression(nn.Module):
    """Compress and decompress images as JPEG does (Guo et al. 2018, Dziugaite et al. 2016).

    Baseline JPEG with the standard's tables, scaled and applied as libjpeg does. The colours of subsampled images are
    repeated in 2 by 2 pixels, where some decoders smooth them.

    Args:
        quality: 1..100.
        subsample: Average the chrominance of RGB images over 2 by 2 pixels, as most encoders do (4:2:0).
    """

    def __init__(self, quality: int = 75, subsample: bool = True) -> None:
        super().__init__()
        if not 1 <= quality <= 100:
            raise UserError(f"The JPEG quality must lie in 1..100, got {quality}.")
        self.luminance = _scaled(_LUMINANCE, quality)
        self.chrominance = _scaled(_CHROMINANCE, quality)
        self.subsample = subsample

    def forward(self, x: Tensor) -> Tensor:
        """``x`` is ``[B, 1 or 3, H, W]`` in [0, 1]; so is the result."""
        if x.dim() != 4 or x.shape[1] not in (1, 3):
            raise UserError(f"JPEG needs grey or RGB images [B, 1 or 3, H, W], got shape {tuple(x.shape)}.")
        height, width = x.shape[2:]
        step = 16 if x.shape[1] == 3 and self.subsample else 8
        bytes_ = F.pad(_round(x * 255), (0, -width % step, 0, -height % step), mode="replicate")
        if x.shape[1] == 1:
            decoded = (_coded(bytes_[:, 0] - 128, self.luminance) + 128)[:, None]
        else:
            red, green, blue = bytes_.unbind(1)
            luminance = _round(0.299 * red + 0.587 * green + 0.114 * blue)
            cb = _round(-0.168736 * red - 0.331264 * green + 0.5 * blue)
            cr = _round(0.5 * red - 0.418688 * green - 0.081312 * blue)
            decoded_luminance = _coded(luminance - 128, self.luminance) + 128
            decoded = _to_rgb(decoded_luminance, self._chrominance(cb), self._chrominance(cr))
        return _round(decoded[..., :height, :width].clamp(0, 255)) / 255

    def _chrominance(self, plane: Tensor) -> Tensor:
        if not self.subsample:
            return _coded(plane, self.chrominance)
        return _double(_coded(_round(F.avg_pool2d(plane[:, None], 2)[:, 0]), self.chrominance))


def _scaled(table: Table, quality: int) -> Table:
    """A quantisation table at ``quality`` (libjpeg, jcparam.c)."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return tuple(tuple(min(max((step * scale + 50) // 100, 1), 255) for step in row) for row in table)


def _coded(plane: Tensor, table: Table) -> Tensor:
    """``plane`` ``[B, H, W]`` after quantising the discrete cosine transform of its 8 by 8 blocks."""
    rows, columns = plane.shape[1] // 8, plane.shape[2] // 8
    blocks = plane.view(-1, rows, 8, columns, 8).transpose(2, 3).reshape(-1, rows * columns, 64)
    cosine_transform = torch.linalg.inv(_synthesis(_ONES)).to(blocks)
    coefficients = _round(8 * blocks @ cosine_transform) / 8  # the precision of libjpeg's integer transform
    steps = torch.tensor(table).view(64).to(blocks)
    return _round(_plane(_round(coefficients / steps).flatten(1), rows, columns, table))
