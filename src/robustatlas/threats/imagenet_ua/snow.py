"""Snow: flakes at random places of five layers, each smeared along a random streak, over a slightly paler image."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.box import require_grey_or_colour
from robustatlas.threats.imagenet_ua.correlation import correlate_and_sum
from robustatlas.threats.imagenet_ua.geometry import Geometry
from robustatlas.threats.imagenet_ua.latents import Faded, FadedLatents, LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize
from robustatlas.threats.jpeg import fill_largest_first
from robustatlas.threats.lp import project_l1_ball
from robustatlas.threats.snow import blur_lines, pale_image, streak

LAYERS = 5
PALENESS = 0.15


def streaks(row: Tensor, column: Tensor, width: Tensor, mirrored: Tensor, size: int) -> Tensor:
    """Return ``[B, 5, size, size]``: lines of ``width`` through the centre, towards (``row``, ``column``) [B, 5] and as
    far back; ``mirrored`` [B] left to right.
    """
    lines, middle = streak(row, column, width, size), size // 2
    lines[..., : middle + 1, : middle + 1] = lines[..., middle:, middle:].flip(-1, -2)
    return torch.where(mirrored.view(-1, 1, 1, 1), lines.flip(-1), lines)


def random_streaks(noise: Noise, size: int, blur: bool, dtype: torch.dtype) -> Tensor:
    """Return ``[B, 5, size, size]``: streaks of random directions, lengths and widths."""
    reach = size - 1 - size // 2
    row, column = (size // 2 + 1 + noise.child(k).integers(reach, LAYERS).to(dtype) for k in (0, 1))
    draw = noise.child(2).uniform(LAYERS, dtype=dtype)
    width = 1 + 2 * ((draw >= 0.6).to(dtype) + (draw >= 0.9).to(dtype))
    lines = streaks(row, column, width, noise.child(3).uniform(dtype=dtype) < 0.5, size)
    return blur_lines(lines, 10 + 5 * noise.child(4).uniform(LAYERS, dtype=dtype), "reflect") if blur else lines


def bleach(x: Tensor, share: Tensor | float) -> Tensor:
    """Return the image bleached, by ``share`` [B, 1, 1, 1] of the published 15 %."""
    return x + PALENESS * share * (pale_image(x) - x)


def add_snow(base: Tensor, flakes: Tensor, kernels: Tensor) -> Tensor:
    """Return ``base`` with ``flakes`` [B, 5, H, W], each layer smeared with its kernel [B, 5, k, k], in [0, 1]."""
    return (base + correlate_and_sum(flakes, kernels)).clamp(0, 1)


class Flakes(Geometry):
    """Numbers in [0, 1] with a sum of at most epsilon: the convex hull of so many full flakes."""

    def random(self, shape: tuple[int, ...], epsilon: Tensor, noise: Noise) -> Tensor:
        flakes = torch.exp(-5 * noise.uniform(*shape, dtype=epsilon.dtype))
        return self.project(flakes, epsilon)

    def project(self, latent: Tensor, epsilon: Tensor) -> Tensor:
        positive = latent.clamp_min(0)
        return project_l1_ball(positive, epsilon, torch.ones_like(positive))

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient / per_sample(gradient.flatten(1).abs().amax(1).clamp_min(1e-12), gradient)

    def step(self, latent: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """Return a step towards the best full flakes, as many as the sum of the set that ``latent`` is on has room for;
        those that lower the objective fade.
        """
        rising = direction.flatten(1).clamp_min(0)
        budget = torch.maximum(length, self.size(latent))
        best = fill_largest_first(rising, torch.ones_like(rising), budget).view_as(latent)
        share = length / budget.clamp_min(1e-12)
        return latent + per_sample(share, latent) * torch.where(direction < 0, -1, best)

    def size(self, latent: Tensor) -> Tensor:
        return latent.flatten(1).sum(1)


@dataclass(frozen=True)
class SnowMap(LatentThreat):
    """Base of our and the published snow: places of flakes, and streaks."""

    title: ClassVar[str] = "ua-snow"
    streak: BySize[int] = field(default=BySize(3, 15))
    spacing: BySize[int] = field(default=BySize(10, 15))

    def check(self, x: Tensor) -> None:
        require_grey_or_colour(x, self.title, least=2)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (LAYERS, *x.shape[2:])

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        places = noise.child(0).uniform(*self.shape(x)) < self.spacing.value(x) ** -2
        size = self.streak.value(x)
        return places.to(x.dtype), random_streaks(noise.child(1), size, size > 3, x.dtype)

    def active(self, *drawn: Tensor) -> Tensor:
        return drawn[0]


@dataclass(frozen=True)
class UaSnow(Faded, SnowMap):
    """Snow of ImageNet-UA: flakes at random places of five layers, each smeared along a streak. epsilon is how many
    full flakes fall: every flake is in [0, 1], and their sum is at most epsilon. The image is bleached as well, by at
    most 15 % of the way to ``max(x, 1.5 luminance + 0.5)``.

    Only the bleaching is faded in. Published flakes are fourth powers of numbers whose Euclidean norm is bounded; the
    gradient of a fourth power is 0 where nothing falls, so their brightness itself is optimised here. A published
    strength e is e^2 full flakes, and the set of that strength contains the published one's corners.
    """

    geometry: ClassVar[Geometry] = Flakes()
    varied: ClassVar[bool] = True
    whole: ClassVar[BySize[float]] = BySize(9.0, 100.0)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        """Return the fully bleached image in the snow."""
        return add_snow(bleach(x, 1.0), latent * drawn[0], drawn[1])

    def apply(self, x: Tensor, theta: FadedLatents) -> Tensor:
        """Return the image in the snow; only the bleaching is faded in."""
        places, kernels = (fixed.values for fixed in theta.drawn)
        return add_snow(bleach(x, self.share(x, theta)), theta.latent * places, kernels)
