"""Hue, saturation and value of every pixel, changed smoothly."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.threats.box import require_colour, require_images
from robustatlas.threats.imagenet_ua.latents import LatentThreat
from robustatlas.threats.imagenet_ua.smoothing import smooth_field

KERNEL, SIGMA = 3, 3.0


def to_hsv(x: Tensor) -> Tensor:
    """Return hue, saturation and value in [0, 1] of RGB images [B, 3, ...]."""
    red, green, blue = x.unbind(1)
    value, least = x.amax(1), x.amin(1)
    spread = value - least
    safe = torch.where(spread > 0, spread, 1)
    hue = torch.where(
        red == value,
        ((green - blue) / safe).remainder(6),
        torch.where(green == value, (blue - red) / safe + 2, (red - green) / safe + 4),
    )
    saturation = torch.where(value > 0, spread / torch.where(value > 0, value, 1), 0)
    return torch.stack([torch.where(spread > 0, hue / 6, 0), saturation, value], 1)


def _orders() -> Tensor:
    """Return ``[6, 3]``: which of chroma, middle and nothing is red, green and blue, in each sixth of the circle of
    hues.
    """
    return torch.tensor([[0, 1, 2], [1, 0, 2], [2, 0, 1], [2, 1, 0], [1, 2, 0], [0, 2, 1]])


def to_rgb(hsv: Tensor) -> Tensor:
    """Return RGB of hue, saturation and value [B, 3, ...] in [0, 1]."""
    hue, saturation, value = hsv.unbind(1)
    chroma = value * saturation
    middle = chroma * (1 - ((6 * hue).remainder(2) - 1).abs())
    parts = torch.stack([chroma, middle, torch.zeros_like(chroma)], 1)
    sector = (6 * hue.detach()).long().remainder(6)
    which = torch.movedim(cached_tensor(_orders, like=sector)[sector], -1, 1)
    return parts.gather(1, which) + (value - chroma)[:, None]


def recolour(x: Tensor, change: Tensor) -> Tensor:
    """Return ``x`` [B, 3, H, W] with its hue, saturation and value moved by the smoothed ``change`` like it."""
    moved = (to_hsv(x) + smooth_field(change, KERNEL, SIGMA)).clamp(0, 1)
    return to_rgb(moved).clamp(0, 1)


@dataclass(frozen=True)
class UaHsv(LatentThreat):
    """Colour of ImageNet-UA: hue, saturation and value of every pixel, each in [0, 1], move by a smoothed change of at
    most epsilon. Hue ends at red and does not go round.

    The change of colours is added to the image itself, so that no change leaves it as it is to the last bit.
    """

    title: ClassVar[str] = "ua-hsv"
    largest_size: ClassVar[float] = 1.0

    def check(self, x: Tensor) -> None:
        require_colour(x, self.title)
        require_images(x, self.title)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        unmoved = recolour(x, torch.zeros_like(latent))
        return (x + (recolour(x, latent) - unmoved)).clamp(0, 1)
