"""Gaussian smoothing as the attacks of ImageNet-UA do it."""

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.box import require_images


def _weights(size: int, sigma: float) -> Tensor:
    offsets = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    weights = torch.exp(-offsets.square() / (2 * sigma**2))
    return weights / weights.sum()


def smooth_field(field: Tensor, size: int, sigma: float) -> Tensor:
    """Return ``field`` [B, C, H, W] smoothed with ``size`` by ``size`` weights, mirrored at the border (the border
    pixel is not repeated).
    """
    weights, half, channels = cached_tensor(_weights, size, sigma, like=field), size // 2, field.shape[1]
    padded = F.pad(field, (half, half, half, half), mode="reflect")
    rows = F.conv2d(padded, weights.view(1, 1, -1, 1).expand(channels, 1, -1, 1), groups=channels)
    return F.conv2d(rows, weights.view(1, 1, 1, -1).expand(channels, 1, 1, -1), groups=channels)


def require_room(x: Tensor, size: int, what: str) -> None:
    """Raise unless images ``x`` have room for smoothing over ``size`` pixels that mirrors at the border."""
    require_images(x, what)
    least = size // 2 + 1
    if min(x.shape[2:]) < least:
        raise UnsupportedInputError(
            f"{what} smooths over {size} pixels and needs images of at least {least}x{least}; got shape "
            f"{tuple(x.shape)}: leave this attack out for this data."
        )
