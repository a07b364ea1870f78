"""Glitches: bars of rows whose channels are shifted sideways, each by itself."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.threats.imagenet_ua.latents import LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize


def bars(x: Tensor, count: int) -> Tensor:
    """Return ``[H]``: the number of the bar that each row lies in."""
    rows = torch.arange(x.shape[2], device=x.device)
    return rows * count // x.shape[2]


def shift_rows(x: Tensor, shift: Tensor) -> Tensor:
    """Return ``x`` [B, C, H, W] read ``shift`` [B, C, H] pixels further right, mirrored at the border; bilinear."""
    width = x.shape[3]
    place = torch.arange(width, dtype=x.dtype, device=x.device) + shift[..., None]
    folded = (place + 0.5).abs().remainder(2 * width)
    place = (torch.where(folded > width, 2 * width - folded, folded) - 0.5).clamp(0, width - 1)
    left = place.detach().floor()
    share = place - left
    index = left.long()
    one, other = x.gather(3, index), x.gather(3, (index + 1).clamp_max(width - 1))
    return one * (1 - share) + other * share


@dataclass(frozen=True)
class UaGlitch(LatentThreat):
    """Glitches of ImageNet-UA: the image is cut into horizontal bars, and each channel of a bar is shifted sideways by
    at most epsilon (half the width of the image is 1), mirrored at the border.

    The published attack reads each pixel half a pixel off.
    """

    title: ClassVar[str] = "ua-glitch"
    largest_size: ClassVar[float] = 2.0
    count: BySize[int] = field(default=BySize(16, 56))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[1], self.count.value(x))

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        rows = bars(x, self.count.value(x))
        return shift_rows(x, latent.index_select(2, rows) * (x.shape[3] / 2)).clamp(0, 1)
