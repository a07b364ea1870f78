"""Mixing: another picture shines through the image, more here and less there."""

from dataclasses import dataclass, field, replace
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel, UnsupportedInputError
from robustatlas.threats.imagenet_ua.geometry import POSITIVE_BALL, Geometry
from robustatlas.threats.imagenet_ua.latents import LatentThreat
from robustatlas.threats.imagenet_ua.smoothing import require_room, smooth_field

KERNEL, SIGMA = 11, 5.0
PICTURES = 16


def _pictures(channels: int, height: int, width: int) -> Tensor:
    """Return ``[16, C, H, W]``: random pictures whose amplitudes fall with the frequency, as those of photographs do
    (Field, Relations between the statistics of natural images and the response properties of cortical cells, 1987).
    """
    generator = torch.Generator().manual_seed(0)
    white = torch.randn(PICTURES, channels, height, width, generator=generator, dtype=torch.float64)
    white += 2 * torch.randn(PICTURES, 1, height, width, generator=generator, dtype=torch.float64)
    rows, columns = torch.fft.fftfreq(height, dtype=white.dtype), torch.fft.rfftfreq(width, dtype=white.dtype)
    frequency = torch.hypot(rows[:, None], columns).clamp_min(1 / max(height, width))
    pink: Tensor = torch.fft.irfft2(torch.fft.rfft2(white) / frequency, s=(height, width))
    pink = (pink - pink.mean((1, 2, 3), keepdim=True)) / pink.std((1, 2, 3), keepdim=True)
    return (0.5 + 0.25 * pink).clamp(0, 1)


@cache
def _sent(bank: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return the bank on a device, sent there once."""
    return bank.to(device, dtype)


def mix_images(x: Tensor, weights: Tensor, partner: Tensor) -> Tensor:
    """Return ``x`` [B, C, H, W] and its ``partner`` like it, mixed by the smoothed ``weights`` [B, 1, H, W] of the
    partner.
    """
    weight = smooth_field(weights, KERNEL, SIGMA)
    return weight * partner + (1 - weight) * x


@dataclass(frozen=True)
class UaMix(LatentThreat):
    """Mixing of ImageNet-UA: another picture shines through, by a smoothed weight at every pixel. The Euclidean norm of
    the weights, none of them negative, is at most epsilon.

    ``bank`` [N, C, H, W] are the pictures, of which the most promising of several drawn is taken. An evaluation takes
    the first ones of the data set. Without a bank there are sixteen random ones with the spectrum of photographs. The
    published attack mixes in another image of the batch.

    Example:
        >>> threat = UaMix(bank=torch.rand(10, 3, 32, 32))
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    title: ClassVar[str] = "ua-mix"
    geometry: ClassVar[Geometry] = POSITIVE_BALL
    varied: ClassVar[bool] = True
    bank: Tensor | None = field(default=None, compare=False)

    def check(self, x: Tensor) -> None:
        require_room(x, KERNEL, self.title)
        if self.bank is not None and self.bank.shape[1:] != x.shape[1:]:
            raise UnsupportedInputError(
                f"The pictures that {self.title} mixes in have shape {tuple(self.bank.shape[1:])}, and the images "
                f"{tuple(x.shape[1:])}; expected the same."
            )

    def for_data(self, first: Tensor) -> ThreatModel:
        """Return the threat model with the first images of the data as its bank, if it has none."""
        return replace(self, bank=first) if self.bank is None and first.dim() == 4 else self

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (1, *x.shape[2:])

    def pictures(self, x: Tensor) -> Tensor:
        """Return the bank, like ``x``."""
        return (
            cached_tensor(_pictures, *x.shape[1:], like=x) if self.bank is None else _sent(self.bank, x.dtype, x.device)
        )

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        return (noise.integers(len(self.pictures(x))).to(x.dtype),)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return mix_images(x, latent, self.pictures(x)[drawn[0].long()]).clamp(0, 1)
