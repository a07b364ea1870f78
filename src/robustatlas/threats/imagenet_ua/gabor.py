"""Gabor noise: a sparse field of weights, each of which lays a kernel of waves over the image."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.correlation import correlate
from robustatlas.threats.imagenet_ua.latents import LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize

KERNEL = 23
SIGMA = 3.0
DENSITY = 0.1
"""Share of the weights that are used."""


def _places() -> Tensor:
    return torch.linspace(-0.5, 0.5, KERNEL, dtype=torch.float64)


def wave_kernel(angle: Tensor, frequency: Tensor, directions: int) -> Tensor:
    """Return ``[B, 23, 23]``: waves in so many directions from ``angle`` [B] on, with ``frequency`` [B] in periods per
    kernel.

    The first direction counts fully, the others one share of their number each, as in the published code.
    """
    steps = torch.arange(directions, dtype=angle.dtype, device=angle.device) * (math.pi / directions)
    turned = (angle[:, None] + steps)[..., None, None]
    place = cached_tensor(_places, like=angle)
    along = place * torch.cos(turned) + place[:, None] * torch.sin(turned)
    across = place[:, None] * torch.cos(turned) - place * torch.sin(turned)
    envelope = torch.exp(-(along.square() + across.square()) / (2 * (SIGMA + 0.001) ** 2))
    waves = envelope * torch.cos(2 * math.pi * frequency[:, None, None, None] * along)
    return waves[:, 0] + waves[:, 1:].sum(1) / directions


def random_waves(noise: Noise, count: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return angles, and frequencies from 3 to 5.75 periods per kernel, of so many kernels: each ``[B, count]``."""
    return math.pi * noise.child(0).uniform(count, dtype=dtype), 3 + 2.75 * noise.child(1).uniform(count, dtype=dtype)


def random_positions(x: Tensor, noise: Noise) -> Tensor:
    """Return a mask like ``x`` of the tenth of the weights that are used; each sample has equally many."""
    count = x[0].numel()
    chosen = noise.uniform(count).argsort(dim=1)[:, : round(DENSITY * count)]
    return x.new_zeros(len(x), count).scatter(1, chosen, 1.0).view_as(x)


def add_pattern(x: Tensor, weights: Tensor, kernel: Tensor) -> Tensor:
    """Return ``x`` [B, C, H, W] plus, channel by channel, ``weights`` like it correlated with ``kernel`` [B, 23,
    23].
    """
    return (x + correlate(weights, kernel[:, None])).clamp(0, 1)


@dataclass(frozen=True)
class UaGabor(LatentThreat):
    """Gabor noise of ImageNet-UA: weights in [-epsilon, epsilon] at a tenth of the places of every channel, each of
    which adds a kernel of waves, 23 by 23 pixels with a largest value of about 1.

    Of several kernels that are drawn the one counts along which the gradient of the image rewards noise the most. The
    published attack draws another one at every step, and the places for a batch.
    """

    title: ClassVar[str] = "ua-gabor"
    varied: ClassVar[bool] = True
    directions: BySize[int] = field(default=BySize(3, 5))

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        angle, frequency = random_waves(noise.child(0), 1, x.dtype)
        kernel = wave_kernel(angle[:, 0], frequency[:, 0], self.directions.value(x))
        return random_positions(x, noise.child(1)), kernel

    def active(self, *drawn: Tensor) -> Tensor:
        return drawn[0]

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        places, kernel = drawn
        return add_pattern(x, latent * places, kernel)
