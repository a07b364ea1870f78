"""Elastic deformation: a smooth field of displacements, each component bounded in pixels."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.threats.box import BoxThreat, require_images


def gaussian_kernel(resolution: int, like: Tensor) -> Tensor:
    """Return the one-dimensional smoothing kernel ``[k]`` for images of ``resolution`` pixels; its outer product sums
    to 1.

    Kang et al. give (k, sigma) = (25, 3) at 224 pixels and (5, 3 * 32 / 224) at 32; both scale with the resolution, k
    to the next odd number.
    """
    half = math.ceil((25 * resolution / 224 - 1) / 2)
    sigma = 3 * resolution / 224
    offsets = torch.arange(-half, half + 1, dtype=like.dtype, device=like.device)
    weights = torch.exp(-0.5 * (offsets / sigma) ** 2)
    return weights / weights.sum()


def smooth(field: Tensor) -> Tensor:
    """Smooth ``[B, 2, H, W]`` by a Gaussian, mirrored at the border."""
    kernel = gaussian_kernel(min(field.shape[-2:]), field)
    half = len(kernel) // 2
    padded = F.pad(field, (half, half, half, half), mode="reflect")
    channels = field.shape[1]
    columns = kernel.view(1, 1, 1, -1).expand(channels, 1, 1, -1)
    rows = kernel.view(1, 1, -1, 1).expand(channels, 1, -1, 1)
    return F.conv2d(F.conv2d(padded, columns, groups=channels), rows, groups=channels)


def displace(x: Tensor, displacement: Tensor) -> Tensor:
    """Return bilinear samples of ``x`` [B, C, H, W] at every pixel plus its displacement; black outside.

    ``displacement`` [B, 2, H, W] is in pixels, along columns (channel 0) and rows (channel 1). A displacement of zero
    returns ``x`` bit for bit.
    """
    batch, channels, height, width = x.shape
    column = torch.arange(width, dtype=x.dtype, device=x.device) + displacement[:, 0]
    row = torch.arange(height, dtype=x.dtype, device=x.device)[:, None] + displacement[:, 1]
    left, top = column.detach().floor(), row.detach().floor()
    right_weight, bottom_weight = column - left, row - top
    flat = x.flatten(2)

    def corner(r: Tensor, c: Tensor, weight: Tensor) -> Tensor:
        inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
        index = (r.clamp(0, height - 1) * width + c.clamp(0, width - 1)).long().flatten(1)
        pixels = flat.gather(2, index[:, None].expand(-1, channels, -1)).view(batch, channels, height, width)
        return pixels * (weight * inside)[:, None]

    return (
        corner(top, left, (1 - bottom_weight) * (1 - right_weight))
        + corner(top, left + 1, (1 - bottom_weight) * right_weight)
        + corner(top + 1, left, bottom_weight * (1 - right_weight))
        + corner(top + 1, left + 1, bottom_weight * right_weight)
    )


@dataclass(frozen=True)
class Elastic(BoxThreat):
    """Elastic deformation (Kang et al., Testing Robustness Against Unforeseen Adversaries, 2019).

    ``theta`` is ``[B, 2, H, W]``: displacements in pixels before smoothing, along columns (channel 0) and rows (channel
    1), each within ``epsilon``. They are smoothed with a Gaussian and the image is sampled bilinearly, black outside.

    Example:
        >>> threat = Elastic()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    def check(self, x: Tensor) -> None:
        require_images(x, "elastic")

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (2, *x.shape[2:])

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return displace(x, smooth(theta)).clamp(0, 1)
