"""Sets of inputs that bounds hold on: balls of a norm, and pieces of curves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robustatlas.certificates.distances import distances
from robustatlas.certificates.windowed import Windowed, least
from robustatlas.common.bundle import per_sample


class Region(ABC):
    """A set of inputs for each of B samples.

    ``roundings``: of each number of an input, in units, where attacks compute it.
    """

    roundings: float

    @abstractmethod
    def limits(self) -> tuple[Tensor, Tensor]:
        """``[B, ...]``: the smallest and largest value of each number."""

    @abstractmethod
    def lowest(self, rows: Windowed, owner: Tensor) -> Tensor:
        """``[R]``: at most the smallest value of each of the ``rows`` [R, ...] on the set of its ``owner`` [R]."""

    @abstractmethod
    def take(self, rows: Tensor) -> Region:
        """The sets of some samples."""


@dataclass(frozen=True)
class NormBall(Region):
    """Inputs within ``radius`` [B] of ``centre`` [B, ...] in the lp norm.

    In the maximum norm, and with ``box``, only those in [0, 1]; other balls are taken whole, which is sound.
    """

    centre: Tensor
    radius: Tensor
    p: float
    box: bool = True
    roundings: float = 0.5

    @property
    def dual(self) -> float:
        """The exponent q of the dual norm, 1/p + 1/q = 1."""
        return {1.0: torch.inf, 2.0: 2.0, torch.inf: 1.0}[self.p]

    def limits(self) -> tuple[Tensor, Tensor]:
        radius = per_sample(self.radius, self.centre)
        low, high = self.centre - radius, self.centre + radius
        if self.box:
            low, high = low.clamp_min(0).minimum(self.centre), high.clamp_max(1).maximum(self.centre)
        return low, high

    def lowest(self, rows: Windowed, owner: Tensor) -> Tensor:
        if self.p == torch.inf:
            return least(rows, *self.limits(), owner)
        length = torch.linalg.vector_norm(rows.values.flatten(1), self.dual, dim=1)
        lowest: Tensor = (rows.values * rows.of(self.centre)[owner]).flatten(1).sum(1) - self.radius[owner] * length
        return lowest

    def reach(self, rows: Windowed, constant: Tensor, owner: Tensor) -> Tensor:
        """``[R]``: the largest radii of balls on which affine functions, ``rows`` [R, ...] and a ``constant`` [R], are
        not below 0; what is 0 or less at the centre reaches nowhere."""
        here = rows.of(self.centre)[owner].flatten(1)
        weight = rows.values.flatten(1)
        height = constant + (weight * here).sum(1)
        if self.box and self.p == torch.inf:
            room = torch.where(weight > 0, here, 1 - here).clamp_min(0)
            return distances(weight.abs(), room, height, self.p)
        reach = height / torch.linalg.vector_norm(weight, self.dual, dim=1)
        return torch.where(height > 0, reach, 0.0)

    def take(self, rows: Tensor) -> NormBall:
        return replace(self, centre=self.centre[rows], radius=self.radius[rows])


@dataclass(frozen=True)
class Segment(Region):
    """Inputs at most ``below`` under and ``above`` over a point between ``start`` and ``end``, all [B, ...]."""

    start: Tensor
    end: Tensor
    below: Tensor
    above: Tensor
    roundings: float = 0.5

    def limits(self) -> tuple[Tensor, Tensor]:
        return torch.minimum(self.start, self.end) - self.below, torch.maximum(self.start, self.end) + self.above

    def lowest(self, rows: Windowed, owner: Tensor) -> Tensor:
        values = rows.values
        ends = [(values * rows.of(end)[owner]).flatten(1).sum(1) for end in (self.start, self.end)]
        return torch.minimum(*ends) + least(rows, -self.below, self.above, owner)

    def take(self, rows: Tensor) -> Segment:
        return Segment(self.start[rows], self.end[rows], self.below[rows], self.above[rows], self.roundings)
