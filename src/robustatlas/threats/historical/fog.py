"""Fog as published (Kang et al. 2019)."""

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded
from robustatlas.threats.box import require_images
from robustatlas.threats.fog import crop, levels_for, plasma, plasma_side

BATCH_REACH = 2.8
"""Largest absolute value of the plasma over 100 images under attack, relative to the root mean square of the numbers
that make it: that of this attack on CIFAR-10."""


@dataclass(frozen=True)
class HistoricalFogTheta(Bundle):
    """``strength`` [B] and the ``levels`` [B, side^2 - 1] of the plasma in [0, 1]."""

    strength: Fixed
    levels: Tensor


@dataclass(frozen=True)
class HistoricalFog(EachBounded):
    """The published map, 255 (X + epsilon f) / (max X + epsilon) with the maximum of each channel, and its update,
    which clips every number of the plasma to [0, 1]; ``epsilon`` in units of 1/255.

    One thing differs from the code, which stretches f to [0, 1] by the minimum and the maximum over the whole batch:
    to keep results independent of the batch, the range of a typical batch of 100 images stands in for them (see
    :data:`BATCH_REACH`). ``size`` is the strength, which :meth:`project` sets.
    """

    def check(self, x: Tensor) -> None:
        require_images(x, "fog")

    def neutral(self, x: Tensor) -> HistoricalFogTheta:
        """Return strength 0 and a flat plasma, which still stretches the image to the full range."""
        return HistoricalFogTheta(Fixed(x.new_zeros(len(x))), x.new_full((len(x), levels_for(x)), 0.5))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> HistoricalFogTheta:
        return HistoricalFogTheta(Fixed(epsilon), noise.uniform(levels_for(x), dtype=x.dtype))

    def apply(self, x: Tensor, theta: HistoricalFogTheta) -> Tensor:
        """Return the image in the fog."""
        height, width = x.shape[2:]
        amplitude = theta.strength.values[:, None, None] / 255
        levels = 2 * theta.levels - 1
        reach = BATCH_REACH * levels.detach().square().mean(dim=1).sqrt().clamp_min(1e-12)
        field = plasma(levels, plasma_side(height, width), diamond_shift=2) / reach.view(-1, 1, 1)
        light = (amplitude * crop(((1 + field) / 2).clamp(0, 1), height, width))[:, None]
        brightest = x.amax(dim=(2, 3), keepdim=True)
        return ((x + light) / (brightest + amplitude[:, None]).clamp_min(1e-12)).clamp(0, 1)

    def project(self, x: Tensor, theta: HistoricalFogTheta, epsilon: Tensor) -> HistoricalFogTheta:
        return HistoricalFogTheta(Fixed(epsilon), theta.levels.clamp(0, 1))

    def size(self, x: Tensor, theta: HistoricalFogTheta) -> Tensor:
        return theta.strength.values
