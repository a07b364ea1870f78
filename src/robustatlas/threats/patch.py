"""An adversarial patch: a square of the image is replaced, its side is the strength (Brown et al. 2017)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed, per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded
from robustatlas.threats.box import require_images
from robustatlas.threats.lp import clip_to_box


@dataclass(frozen=True)
class PatchTheta(Bundle):
    """``change`` [B, C, H, W] of each pixel. ``place`` [B, 2] of the square, row and column: 0 is the top or left end,
    1 the bottom or right end. ``strength`` [B] that it was last projected to, which sets the length of a step."""

    change: Tensor
    place: Fixed
    strength: Fixed


@dataclass(frozen=True)
class Patch(EachBounded):
    """Arbitrary changes inside of a square whose side is at most epsilon times the image's shorter side (in whole
    pixels, rounded down).

    The place of the square is drawn per sample and not optimised. At one place, squares of growing side contain each
    other. The size of theta is that of the smallest of them that holds every changed pixel.

    Example:
        >>> x, patch = torch.rand(1, 3, 8, 8), Patch()
        >>> noise = Noise.for_samples(seed=0, indices=torch.tensor([0]), purpose="patch")
        >>> theta = patch.start(x, torch.tensor([0.25]), noise)
        >>> int((patch.apply(x, theta) != x).any(1).sum())
        4
    """

    largest_size: ClassVar[float] = 1.0

    def check(self, x: Tensor) -> None:
        require_images(x, "patch")

    def neutral(self, x: Tensor) -> PatchTheta:
        return PatchTheta(torch.zeros_like(x), Fixed(x.new_full((len(x), 2), 0.5)), Fixed(x.new_zeros(len(x))))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> PatchTheta:
        change = noise.child(0).uniform(*x.shape[1:], dtype=x.dtype) - x
        place = noise.child(1).uniform(2, dtype=x.dtype)
        return self.project(x, PatchTheta(change, Fixed(place), Fixed(epsilon)), epsilon)

    def apply(self, x: Tensor, theta: PatchTheta) -> Tensor:
        return (x + theta.change).clamp(0, 1)

    def project(self, x: Tensor, theta: PatchTheta, epsilon: Tensor) -> PatchTheta:
        inside = _covering_side(x, theta.place.values) <= per_sample(_side_in_pixels(x, epsilon), x[:, 0])
        change = torch.where(inside[:, None], clip_to_box(x, theta.change), torch.zeros_like(x))
        return PatchTheta(change, theta.place, Fixed(epsilon.clamp_max(1)))

    def move(self, x: Tensor, theta: PatchTheta, direction: PatchTheta, length: Tensor) -> PatchTheta:
        """Return a step as long as the strength changes a pixel by 1, its whole range."""
        moved: PatchTheta = super().move(x, theta, direction, length / theta.strength.values.clamp_min(1e-3))
        return moved

    def size(self, x: Tensor, theta: PatchTheta) -> Tensor:
        changed = (theta.change != 0).any(1)
        needed = torch.where(changed, _covering_side(x, theta.place.values), torch.zeros_like(x[:, 0]))
        return needed.flatten(1).amax(1) / min(x.shape[2:])


def _side_in_pixels(x: Tensor, epsilon: Tensor) -> Tensor:
    """Return the side in pixels; the tiny excess keeps a strength such as 3/32 from rounding down to 2."""
    return (epsilon * min(x.shape[2:]) * (1 + 1e-6)).floor().clamp_max(min(x.shape[2:]))


def _covering_side(x: Tensor, place: Tensor) -> Tensor:
    """Return ``[B, H, W]``: side of the smallest square at ``place`` [B, 2] that holds the pixel (infinite where none
    does).

    A square of side s covers the rows floor(r (H - s)) + 0 .. s - 1: as s grows its ends only move outwards.
    """
    height, width = x.shape[2:]
    sides = torch.arange(1, min(height, width) + 1, device=x.device, dtype=x.dtype)

    def cover(at: Tensor, count: int) -> Tensor:
        first = (at[:, None] * (count - sides)).floor()[..., None]
        index = torch.arange(count, device=x.device, dtype=x.dtype)
        return (index >= first) & (index < first + sides[:, None])

    def smallest_side(at: Tensor, count: int) -> Tensor:
        inside = cover(at, count)
        return torch.where(inside.any(1), inside.int().argmax(1).to(x.dtype) + 1, torch.inf)

    row, column = place.unbind(1)
    return torch.maximum(smallest_side(row, height)[:, :, None], smallest_side(column, width)[:, None, :])
