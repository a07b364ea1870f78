"""Gabor noise as published (Kang et al. 2019)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed, per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded
from robustatlas.threats.box import require_images
from robustatlas.threats.gabor import convolve, neutral_kernel, random_kernel

SPARSITY = 14
"""One of this many numbers of the start is not zero."""


def stretched_noise(field: Tensor, kernel: Tensor) -> Tensor:
    """Return the published pattern ``[B, H, W]`` in [0, 1]: nearly the sign of the convolution.

    Mean, normalisation and range count as constants for the gradient. Where nothing varies, the pattern is 0.
    """
    convolved = convolve(field, kernel)
    mean = convolved.detach().mean(dim=(1, 2), keepdim=True)
    deviation = convolved - mean
    size = deviation.detach().abs()
    size = size / size.amax(dim=(1, 2), keepdim=True).clamp_min(1e-12)
    normalised = mean + deviation * (1.001 / (0.001 + size))
    fixed = normalised.detach()
    low, high = fixed.amin(dim=(1, 2), keepdim=True), fixed.amax(dim=(1, 2), keepdim=True)
    return (normalised - low) / (high - low).clamp_min(1e-12)


@dataclass(frozen=True)
class HistoricalGaborTheta(Bundle):
    """``strength`` [B], ``field`` [B, H, W] in [-1, 1], its ``mask`` and the ``kernel`` [B, 23, 23]."""

    strength: Fixed
    field: Tensor
    mask: Fixed
    kernel: Fixed


@dataclass(frozen=True)
class HistoricalGabor(EachBounded):
    """The published map and update; ``epsilon`` in units of 1/255.

    The start is sparse, and the mask keeps everything *but* the numbers of the start: the first step removes them, and
    sets all others free. The start has exactly one in 14 numbers in each image (the code: in the whole batch), so that
    results do not depend on batch composition. ``size`` is the strength, which :meth:`project` sets.
    """

    def check(self, x: Tensor) -> None:
        require_images(x, "gabor")

    def neutral(self, x: Tensor) -> HistoricalGaborTheta:
        """Return strength 0."""
        field = torch.zeros_like(x[:, 0])
        return HistoricalGaborTheta(
            Fixed(x.new_zeros(len(x))), field, Fixed(torch.ones_like(field)), Fixed(neutral_kernel(x))
        )

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> HistoricalGaborTheta:
        """Return a random kernel and a sparse field."""
        shape, count = x.shape[2:], x.shape[2:].numel()
        field = noise.child(1).symmetric(*shape, dtype=x.dtype)
        first = noise.child(2).uniform(count).argsort(dim=1)[:, : round(count / SPARSITY)]
        mask = torch.ones_like(field).flatten(1).scatter(1, first, 0.0).view_as(field)
        kernel = random_kernel(noise.child(0), x.dtype)
        return HistoricalGaborTheta(Fixed(epsilon), field * (1 - mask), Fixed(mask), Fixed(kernel))

    def apply(self, x: Tensor, theta: HistoricalGaborTheta) -> Tensor:
        """Return the image with the noise added, clipped to [0, 1]."""
        noise = stretched_noise(theta.field, theta.kernel.values)
        pattern = per_sample(theta.strength.values, noise) * noise
        return (x + pattern[:, None] / 255).clamp(0, 1)

    def project(self, x: Tensor, theta: HistoricalGaborTheta, epsilon: Tensor) -> HistoricalGaborTheta:
        return replace(theta, strength=Fixed(epsilon), field=theta.field.clamp(-1, 1))

    def move(
        self, x: Tensor, theta: HistoricalGaborTheta, direction: HistoricalGaborTheta, length: Tensor
    ) -> HistoricalGaborTheta:
        """Return a step; the mask is applied to its end."""
        moved: HistoricalGaborTheta = super().move(x, theta, direction, length)
        return replace(moved, field=moved.field.clamp(-1, 1) * theta.mask.values)

    def size(self, x: Tensor, theta: HistoricalGaborTheta) -> Tensor:
        return theta.strength.values
