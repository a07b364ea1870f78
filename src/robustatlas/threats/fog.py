"""Fog: a random plasma (diamond-square) whose every random number is optimised, blended over the image."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import require_images

BATCH_REACH = 2.8
"""Largest absolute value of the plasma over 100 images under attack, relative to the root mean square of the numbers
that make it.

Measured with the historical attack on CIFAR-10 (2.8 at each strength); uniform random numbers give 2.5 at sides 64
and 256.
"""


def plasma_side(height: int, width: int) -> int:
    """Side of the plasma for an image: the power of two above its longer side (64 at 32 pixels, 256 at 224)."""
    return 1 << max(height, width).bit_length()


def level_count(side: int) -> int:
    """Numbers in all levels of a plasma: three square arrays of side 2^i for each level i below log2(side)."""
    return side * side - 1


def plasma(levels: Tensor, side: int, corner: Tensor | None = None, diamond_shift: int = 1) -> Tensor:
    """Diamond-square on a torus, ``[B, side, side]``.

    Args:
        levels: ``[B, side * side - 1]``; coarse to fine, for each level the squares' centres, then the two halves of
            the diamonds (middles of
            horizontal edges, of vertical edges). A number of level i adds itself divided by 2^i to the mean of four
            neighbours.
        side: a power of two.
        corner: ``[B]``, the value that everything starts from (0 where not given).
        diamond_shift: how far the grid of centres is rolled to find a diamond's second centre: 1 is its neighbour;
            the public code has 2.
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
    """The middle ``height`` by ``width`` pixels of ``[B, side, side]``."""
    top, left = (field.shape[1] - height) // 2, (field.shape[2] - width) // 2
    return field[:, top : top + height, left : left + width]


@dataclass(frozen=True)
class Fog(ThreatModel):
    """Adversarial fog; ``epsilon`` in units of 1/255.

    With amplitude a (``epsilon`` / 255 at most) and a fog pattern f in [0, 1] the output is (x + a f) / (1 + a): as
    in the published attack, light is added and the contrast falls.

    ``theta`` is ``[B, side^2 + 1]``: the amplitude in [0, epsilon], the corner of the plasma and its levels, all in
    [-epsilon, epsilon]. f is the plasma plus the amplitude, halved, divided by the amplitude and cut to [0, 1].

    Differences from the published attack (Kang et al. 2019), which is not nested and changes the image even at
    strength 0: amplitude is optimised instead of fixed; the pattern is cut to [0, 1] instead of stretched to it; x is
    taken to reach up to 1 instead of rescaled by its maximum; diamonds use their own two centres (the code rolls by 2
    where 1 is meant).

    Args:
        faithful: the published map, 255 (X + epsilon f) / (max X + epsilon) with the maximum of each channel, and its
            update, which clips every
            number of the plasma to [0, 1]. ``theta`` is then the strength (never optimised) and the levels. Only one
            thing differs from the code, which stretches f to [0, 1] by the minimum and the maximum over the whole
            batch: to keep results independent of the batch, the range of a typical batch of 100 images stands in for
            them (see :data:`BATCH_REACH`).

    Example:
        >>> threat = Fog()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    faithful: bool = False

    def check(self, x: Tensor) -> None:
        """Raise where ``x`` does not hold images."""
        require_images(x, "fog")

    def _count(self, x: Tensor) -> int:
        return level_count(plasma_side(x.shape[2], x.shape[3])) + (1 if self.faithful else 2)

    def neutral(self, x: Tensor) -> Tensor:
        """No fog (historical form: strength 0 and a flat plasma, which still stretches the image to the full range)."""
        theta = x.new_zeros(len(x), self._count(x))
        if self.faithful:
            theta[:, 1:] = 0.5
        return theta

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """Full amplitude; the plasma uniform in half of its range, so that little of it is cut (historical form: in
        all)."""
        count = self._count(x) - 1
        if self.faithful:
            return torch.cat((epsilon[:, None], noise.uniform(count, dtype=x.dtype)), dim=1)
        levels = epsilon[:, None] / 2 * noise.symmetric(count - 1, dtype=x.dtype)
        return torch.cat((epsilon[:, None], torch.zeros_like(levels[:, :1]), levels), dim=1)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        """The image in the fog."""
        height, width = x.shape[2:]
        side = plasma_side(height, width)
        amplitude = theta[:, 0, None, None] / 255
        if self.faithful:
            levels = 2 * theta[:, 1:] - 1
            reach = BATCH_REACH * levels.detach().square().mean(dim=1).sqrt().clamp_min(1e-12)
            field = ((1 + plasma(levels, side, diamond_shift=2) / reach.view(-1, 1, 1)) / 2).clamp(0, 1)
            light = (amplitude * crop(field, height, width))[:, None]
            brightest = x.amax(dim=(2, 3), keepdim=True)
            return ((x + light) / (brightest + amplitude[:, None]).clamp_min(1e-12)).clamp(0, 1)
        field = crop(plasma(theta[:, 2:] / 255, side, corner=theta[:, 1] / 255), height, width)
        light = ((amplitude + field.clamp(-amplitude, amplitude)) / 2)[:, None]
        return (x + light) / (1 + amplitude[:, None])

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        """Every number clipped to its interval; in the historical form the strength becomes ``epsilon`` itself."""
        if self.faithful:
            return torch.cat((epsilon[:, None], theta[:, 1:].clamp(0, 1)), dim=1)
        bound = epsilon[:, None]
        return torch.cat((theta[:, :1].clamp_min(0).minimum(bound), theta[:, 1:].clamp(-bound, bound)), dim=1)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The sign of the gradient (historical form: not for the strength)."""
        direction = gradient.sign()
        if self.faithful:
            direction[:, 0] = 0
        return direction

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        """The largest absolute number of theta (historical form: its strength)."""
        return theta[:, 0].clone() if self.faithful else theta.abs().amax(dim=1)
