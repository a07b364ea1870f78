"""Gabor noise of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Fixed, per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.gabor import UaGabor, patterned, random_positions, random_waves, wave_kernel
from robustatlas.threats.imagenet_ua.latents import Latents

KERNELS = 101
"""One for each forward pass of the longest published run, and one for the result."""


@dataclass(frozen=True)
class HistoricalUaGabor(UaGabor):
    """The kernel is drawn anew at every step; all weights start at the same positive number.

    Weights, kernels and the common start belong to a sample, and not to a batch as in the code.
    """

    varied: ClassVar[bool] = False

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        """The places of the weights, angles and frequencies of the kernels to come, and how many have been."""
        waves = torch.stack(random_waves(noise.child(0), KERNELS, x.dtype), -1)
        return random_positions(x, noise.child(1)), waves, x.new_zeros(len(x))

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return per_sample(epsilon * noise.uniform(dtype=x.dtype), x).expand_as(x)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        places, waves, number = drawn
        current = waves.take_along_dim(number.long().remainder(KERNELS).view(-1, 1, 1), 1)[:, 0]
        kernel = wave_kernel(current[:, 0], current[:, 1], self.directions.at(x))
        return patterned(x, latent * places, kernel)

    def move(self, x: Tensor, theta: Latents, direction: Latents, length: Tensor) -> Latents:
        """A step, after which the next kernel counts."""
        moved: Latents = super().move(x, theta, direction, length)
        places, waves, number = moved.drawn
        return replace(moved, drawn=(places, waves, Fixed(number.values + 1)))
