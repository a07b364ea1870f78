"""Patterns of ImageNet-UA as published: what is laid over the image."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Fixed, per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.historical.imagenet_ua.geometry import REFLECTED_BALL, SIGN_BALL
from robustatlas.threats.historical.imagenet_ua.starts import draw_on_sphere, draw_positive
from robustatlas.threats.imagenet_ua.edge import EdgeMap
from robustatlas.threats.imagenet_ua.fbm import UaFbm
from robustatlas.threats.imagenet_ua.fog import UaFog
from robustatlas.threats.imagenet_ua.gabor import UaGabor, add_pattern, random_positions, random_waves, wave_kernel
from robustatlas.threats.imagenet_ua.geometry import BALL, POSITIVE, Geometry, Rectangle
from robustatlas.threats.imagenet_ua.hsv import UaHsv, recolour
from robustatlas.threats.imagenet_ua.latents import Latents
from robustatlas.threats.imagenet_ua.mix import UaMix
from robustatlas.threats.imagenet_ua.polkadot import PolkadotMap
from robustatlas.threats.imagenet_ua.prison import PrisonMap
from robustatlas.threats.imagenet_ua.snow import SnowMap, add_snow, bleach
from robustatlas.threats.imagenet_ua.texture import TextureMap
from robustatlas.threats.imagenet_ua.wood import WoodMap


@dataclass(frozen=True)
class HistoricalUaEdge(EdgeMap):
    """Edges are painted at every strength. Starts are uniform in [0, 1]; the first step brings them into the set."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return noise.uniform(*self.shape(x), dtype=x.dtype)


@dataclass(frozen=True)
class HistoricalUaFbm(UaFbm):
    """Starts on one side. The code throws its last update away, so one step less is made."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_positive(self.shape(x), epsilon, noise)


@dataclass(frozen=True)
class HistoricalUaFog(UaFog):
    """Starts on one side."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_positive(self.shape(x), epsilon, noise)


KERNELS = 101
"""One for each forward pass of the longest published run, and one for the result."""


@dataclass(frozen=True)
class HistoricalUaGabor(UaGabor):
    """The kernel is drawn anew at every step; all weights start at the same positive number.

    Weights, kernels and the common start belong to a sample, and not to a batch as in the code.
    """

    varied: ClassVar[bool] = False

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        """Return the places of the weights, angles and frequencies of the kernels to come, and how many have been."""
        waves = torch.stack(random_waves(noise.child(0), KERNELS, x.dtype), -1)
        return random_positions(x, noise.child(1)), waves, x.new_zeros(len(x))

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return per_sample(epsilon * noise.uniform(dtype=x.dtype), x).expand_as(x)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        places, waves, number = drawn
        current = waves.take_along_dim(number.long().remainder(KERNELS).view(-1, 1, 1), 1)[:, 0]
        kernel = wave_kernel(current[:, 0], current[:, 1], self.directions.value(x))
        return add_pattern(x, latent * places, kernel)

    def move(self, x: Tensor, theta: Latents, direction: Latents, length: Tensor) -> Latents:
        """Return a step, after which the next kernel counts."""
        moved: Latents = super().move(x, theta, direction, length)
        places, waves, number = moved.drawn
        return replace(moved, drawn=(places, waves, Fixed(number.values + 1)))


@dataclass(frozen=True)
class HistoricalUaHsv(UaHsv):
    """Starts on one side; no change is the image only up to rounding."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_positive(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return recolour(x, latent)


@dataclass(frozen=True)
class HistoricalUaMix(UaMix):
    """Weights have both signs, and count by their absolute values. The other picture comes from the bank, not from the
    batch, so that results do not depend on the batch."""

    geometry: ClassVar[Geometry] = BALL
    varied: ClassVar[bool] = False

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_on_sphere(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return super().distort(x, latent.abs(), *drawn)


@dataclass(frozen=True)
class HistoricalUaPolkadot(PolkadotMap):
    """Dots cover most of the image at every strength; starts uniformly in [0, 1] whatever epsilon, which the first step
    brings into the set. The dots' places belong to a sample, and not to a batch as in the code."""

    geometry: ClassVar[Geometry] = REFLECTED_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return noise.uniform(*self.shape(x), dtype=x.dtype)


@dataclass(frozen=True)
class HistoricalUaPrison(PrisonMap):
    """The bars stand there at every strength, and start grey."""

    geometry: ClassVar[Geometry] = POSITIVE

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return x.new_zeros(len(x), *self.shape(x))


@dataclass(frozen=True)
class HistoricalUaSnow(SnowMap):
    """Flakes are fourth powers of numbers whose Euclidean norm is at most epsilon; the image is bleached at every
    strength; steps go along signs."""

    geometry: ClassVar[Geometry] = SIGN_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        flakes = torch.exp(-noise.uniform(*self.shape(x), dtype=x.dtype) / 5)
        return self.geometry.project(flakes, epsilon)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        places, kernels = drawn
        return add_snow(bleach(x, 1.0), (latent * places).square().square(), kernels)


@dataclass(frozen=True)
class HistoricalUaTexture(TextureMap):
    """Edges are black at every strength; weights have both signs, and count by their absolute values."""

    geometry: ClassVar[Geometry] = Rectangle(most=1.0)

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_positive(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return super().distort(x, latent.abs(), *drawn)


@dataclass(frozen=True)
class HistoricalUaWood(WoodMap):
    """The rings stand there at every strength; starts without any bend, and the four bends in the middle never move,
    since the pixel in the middle makes their gradient not a number, whose sign is 0."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return x.new_zeros(len(x), *self.shape(x))

    def steepest(self, x: Tensor, gradient: Any) -> Any:
        direction = super().steepest(x, gradient)
        middle = self.resolution.value(x) // 2
        moving = torch.ones_like(direction.latent)
        moving[..., middle - 1 : middle + 1, middle - 1 : middle + 1] = 0
        return replace(direction, latent=direction.latent * moving)
