"""Fog: a random plasma (diamond-square) whose every random number is optimised, blended over the image."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, max_abs
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded
from robustatlas.threats.box import require_images


def plasma_side(height: int, width: int) -> int:
    """Return the side of the plasma for an image: the power of two above its longer side (64 at 32 pixels, 256 at
    224).
    """
    return 1 << max(height, width).bit_length()


def level_count(side: int) -> int:
    """Return the number of values in all levels of a plasma: three square arrays of side 2^i for each level i below
    log2(side).
    """
    return side * side - 1


def levels_for(x: Tensor) -> int:
    """Return the number of values in all levels of the plasma for images ``x`` [B, C, H, W]."""
    return level_count(plasma_side(*x.shape[2:]))


def plasma(levels: Tensor, side: int, corner: Tensor | None = None, diamond_shift: int = 1) -> Tensor:
    """Return the diamond-square plasma on a torus, ``[B, side, side]``.

    Args:
        levels: ``[B, side * side - 1]``; coarse to fine, for each level the squares' centres, then the two halves of
            the diamonds (middles of horizontal edges, then of vertical edges). A number of level i, divided by 2^i, is
            added to the mean of four neighbours.
        side: a power of two.
        corner: ``[B]``, the value at the beginning (default: 0).
        diamond_shift: cells by which the grid of centres is rolled for a diamond's second centre; the public code has
            2 instead of 1.
    """
    batch = len(levels)
    grid = levels.new_zeros(batch, 1, 1) if corner is None else corner.view(batch, 1, 1)
    start, count = 0, 1
    while count < side:
        area = count * count
        parts = levels[:, start : start + 3 * area].view(batch, 3, count, count) / count
        start += 3 * area
        across, down = grid.roll(-1, 2), grid.roll(-1, 1)
        centres = (grid + across + down + down.roll(-1, 2)) / 4 + parts[:, 0]
        horizontal = (centres + centres.roll(diamond_shift, 1) + grid + across) / 4 + parts[:, 1]
        vertical = (centres + centres.roll(diamond_shift, 2) + grid + down) / 4 + parts[:, 2]
        rows = torch.stack((torch.stack((grid, horizontal), -1), torch.stack((vertical, centres), -1)), 2)
        grid = rows.view(batch, 2 * count, 2 * count)
        count *= 2
    return grid


def crop(field: Tensor, height: int, width: int) -> Tensor:
    """Return the middle ``height`` by ``width`` pixels of ``[B, side, side]``."""
    top, left = (field.shape[1] - height) // 2, (field.shape[2] - width) // 2
    return field[:, top : top + height, left : left + width]


@dataclass(frozen=True)
class FogTheta(Bundle):
    """``amplitude`` [B], ``corner`` [B] of the plasma and its ``levels`` [B, side^2 - 1]."""

    amplitude: Tensor
    corner: Tensor
    levels: Tensor


@dataclass(frozen=True)
class Fog(EachBounded):
    """Adversarial fog; ``epsilon`` in units of 1/255.

    With amplitude a (at most ``epsilon`` / 255) and a pattern f in [0, 1] the output is (x + a f) / (1 + a). The corner
    of the plasma and its levels are in [-epsilon, epsilon]. f is the plasma plus a, divided by 2 a and cut to [0, 1].

    The published attack (:class:`~robustatlas.threats.historical.fog.HistoricalFog`) is not nested and changes the
    image at strength 0. Its amplitude is fixed, f is stretched to [0, 1], x is rescaled by its maximum, and diamonds
    have another second centre.

    Example:
        >>> threat = Fog()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    def check(self, x: Tensor) -> None:
        require_images(x, "fog")

    def neutral(self, x: Tensor) -> FogTheta:
        nothing = x.new_zeros(len(x))
        return FogTheta(nothing, nothing, x.new_zeros(len(x), levels_for(x)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> FogTheta:
        """Return full amplitude and a plasma uniform in half of its range, so that little of it is clipped."""
        levels = epsilon[:, None] / 2 * noise.symmetric(levels_for(x), dtype=x.dtype)
        return FogTheta(epsilon, torch.zeros_like(epsilon), levels)

    def apply(self, x: Tensor, theta: FogTheta) -> Tensor:
        height, width = x.shape[2:]
        amplitude = theta.amplitude[:, None, None] / 255
        field = crop(plasma(theta.levels / 255, plasma_side(height, width), theta.corner / 255), height, width)
        light = ((amplitude + field.clamp(-amplitude, amplitude)) / 2)[:, None]
        return (x + light) / (1 + amplitude[:, None])

    def project(self, x: Tensor, theta: FogTheta, epsilon: Tensor) -> FogTheta:
        bound = epsilon[:, None]
        amplitude = theta.amplitude.clamp_min(0).minimum(epsilon)
        return FogTheta(amplitude, theta.corner.clamp(-epsilon, epsilon), theta.levels.clamp(-bound, bound))

    def size(self, x: Tensor, theta: FogTheta) -> Tensor:
        return max_abs(theta)
