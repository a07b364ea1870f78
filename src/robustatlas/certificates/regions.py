"""Sets of inputs that bounds hold on, balls of a norm and pieces of curves, and how far planes are within the box."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.certificates.windowed import Windowed, lowest_on_boxes
from robustatlas.common.bundle import per_sample


def distances(weight: Tensor, room: Tensor, margin: Tensor, p: float) -> Tensor:
    """Return how far it is to lower <weight, x> by ``margin``, where each number can fall by its ``room``.

    Args:
        weight: ``[R, D]``, >= 0.
        room: ``[R, D]``, >= 0.
        margin: ``[R]``; what is not positive is at distance 0.
        p: of the norm: inf, 2, 1, or 0, which counts the numbers that change.

    Returns:
        ``[R]``; inf where all the room is not enough.
    """
    gain = weight * room
    unreachable = gain.sum(1) < margin
    if p == 0:
        order = gain.sort(1, descending=True).values.cumsum(1)
        found = 1.0 + (order < margin[:, None]).sum(1)
    elif p == 1:
        found = _greedy(weight, room, margin)
    else:
        found = _levelled(weight, room, margin, p)
    found = torch.where(unreachable, torch.inf, found.to(weight.dtype))
    return torch.where(margin <= 0, 0.0, found)


def _greedy(weight: Tensor, room: Tensor, margin: Tensor) -> Tensor:
    """l1: the largest weights first, each to the end of its room."""
    steepest, order = weight.sort(1, descending=True)
    rooms = room.gather(1, order)
    before = (steepest * rooms).cumsum(1) - steepest * rooms
    left = (margin[:, None] - before).clamp_min(0)
    return torch.minimum(rooms, left / steepest.clamp_min(1e-300)).sum(1)


def _levelled(weight: Tensor, room: Tensor, margin: Tensor, p: float) -> Tensor:
    """linf and l2: every number falls by min(room, level) or min(room, level * weight); the level by break points."""
    pull = torch.ones_like(weight) if p == torch.inf else weight
    breaks = torch.where(weight > 0, room / pull.clamp_min(1e-300), torch.inf)
    order = breaks.argsort(1)
    w, v, r = (each.gather(1, order) for each in (weight, pull, room))
    full = (w * r).cumsum(1) - w * r
    slope = (w * v).flip(1).cumsum(1).flip(1)
    reach = torch.where(slope > 0, (margin[:, None] - full) / slope.clamp_min(1e-300), -torch.inf)
    at = reach.amax(1, keepdim=True).clamp_min(0)  # what is reached is concave in the level: the least of these lines
    move = torch.minimum(pull * at, room)
    if p == torch.inf:
        return at[:, 0]
    length: Tensor = torch.linalg.vector_norm(move, dim=1)
    return length


class Region(ABC):
    """A set of inputs for each of B samples.

    ``roundings``: of each number of an input, in units, where attacks compute it.
    """

    roundings: float

    @property
    @abstractmethod
    def samples(self) -> int:
        """B."""

    @abstractmethod
    def limits(self) -> tuple[Tensor, Tensor]:
        """Return the smallest and largest value [B, ...] of each number."""

    @abstractmethod
    def lowest(self, rows: Windowed, owner: Tensor) -> Tensor:
        """Return lower bounds [R] of the ``rows`` [R, ...], each on the set of its ``owner`` [R]."""


@dataclass(frozen=True)
class NormBall(Region):
    """Inputs within ``radius`` [B] of ``centre`` [B, ...] in the lp norm.

    With ``box`` only those in [0, 1]. :meth:`lowest` leaves the box out in other norms than the maximum norm, which is
    sound; :meth:`reach` does not.
    """

    centre: Tensor
    radius: Tensor
    p: float
    box: bool = True
    roundings: float = 0.5

    @property
    def samples(self) -> int:
        return len(self.centre)

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
            return lowest_on_boxes(rows, *self.limits(), owner)
        length = torch.linalg.vector_norm(rows.values.flatten(1), self.dual, dim=1)
        lowest: Tensor = (rows.values * rows.crop(self.centre)[owner]).flatten(1).sum(1) - self.radius[owner] * length
        return lowest

    def lowest_points(self, rows: Windowed, owner: Tensor) -> Tensor:
        """Return inputs [R, ...] of the balls where the ``rows`` are lowest, but for the box in other norms than the
        maximum norm."""
        weight, centre, radius = rows.dense(), self.centre[owner], per_sample(self.radius[owner], self.centre)
        flat = weight.flatten(1)
        if self.p == torch.inf:
            step = weight.sign()
        elif self.p == 2:
            step = weight / per_sample(flat.norm(dim=1), weight).clamp_min(torch.finfo(weight.dtype).tiny)
        else:
            largest = flat.abs().argmax(1, keepdim=True)
            step = torch.zeros_like(flat).scatter(1, largest, flat.gather(1, largest).sign()).view_as(weight)
        points = centre - radius * step
        return points.clamp(0, 1) if self.box else points

    def reach(self, rows: Windowed, constant: Tensor, owner: Tensor) -> Tensor:
        """Return the largest radii [R] of balls on which affine functions are not below 0, with coefficients ``rows``
        [R, ...] and a ``constant`` [R]; 0 where they are 0 or less at the centre."""
        here = rows.crop(self.centre)[owner].flatten(1)
        weight = rows.values.flatten(1)
        height = constant + (weight * here).sum(1)
        if self.box:
            room = torch.where(weight > 0, here, 1 - here).clamp_min(0)
            return distances(weight.abs(), room, height, self.p)
        reach = height / torch.linalg.vector_norm(weight, self.dual, dim=1)
        return torch.where(height > 0, reach, 0.0)


@dataclass(frozen=True)
class Segment(Region):
    """Inputs at most ``below`` under and ``above`` over a point between ``start`` and ``end``, all [B, ...]."""

    start: Tensor
    end: Tensor
    below: Tensor
    above: Tensor
    roundings: float = 0.5

    @property
    def samples(self) -> int:
        return len(self.start)

    def limits(self) -> tuple[Tensor, Tensor]:
        return torch.minimum(self.start, self.end) - self.below, torch.maximum(self.start, self.end) + self.above

    def lowest(self, rows: Windowed, owner: Tensor) -> Tensor:
        values = rows.values
        ends = [(values * rows.crop(end)[owner]).flatten(1).sum(1) for end in (self.start, self.end)]
        return torch.minimum(*ends) + lowest_on_boxes(rows, -self.below, self.above, owner)
