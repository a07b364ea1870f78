"""Exhaustive sweep over a grid of a few numbers, the smallest size first."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from functools import cache
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import take_rows
from robustatlas.common.errors import UserError
from robustatlas.common.host import cached_tensor
from robustatlas.optimizers.base import Evaluation, Problem, State, counter, unsearchable
from robustatlas.optimizers.sweeping import SweepingOptimizer, count_within, is_clear
from robustatlas.outcomes.strengths import is_same_strength
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.everyday.change import Change, FreeKind


@dataclass(frozen=True)
class SweepState(State):
    """``found`` [B]: the last point looked at was a clear mistake, and the sweep ends. ``points`` int64 [B]: number of
    points within epsilon."""

    found: Tensor
    points: Tensor


@dataclass(frozen=True)
class Sweep(SweepingOptimizer[SweepState]):
    """Sweep over a grid of an everyday change, in the order of size, until the first mistake.

    The sizes are the multiples of ``spacing`` and the strengths. Of one signed number both signs are looked at. Of two
    signed numbers one has that size, and the other that size too or any smaller multiple of ``spacing``. At each of
    these points every combination of the numbers that no strength bounds is looked at: directions and places at equal
    distances, and random patterns. What is found is the smallest size of the grid at which there is a mistake.

    Attributes:
        spacing, strengths: see :class:`~robustatlas.optimizers.sweeping.SweepingOptimizer`.
        bounded: number of bounded numbers of the threat model.
        signed: they may be negative.
        free: kind and number of values of each free number.
        whole: sizes of the threat model are whole numbers, and so is the spacing.

    Raises:
        UserError: a spacing that is not positive, or not whole where it must be.
    """

    title = "exhaustive sweep over a grid"
    foresees: ClassVar[bool] = True

    bounded: int = 1
    signed: bool = True
    free: tuple[tuple[FreeKind, int], ...] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.whole and not float(self.spacing).is_integer():
            raise UserError(f"Sweep got spacing={self.spacing!r} where sizes are whole; expected a whole number.")

    @classmethod
    def for_threat(cls, threat: Change, spacing: float) -> Sweep:
        """Return the sweep of a threat model.

        Example:
            >>> from robustatlas.threats.everyday.geometry import Rotated, Shifted
            >>> Sweep.for_threat(Rotated(), 1.0).include_strengths((30.0,)).steps
            60
            >>> Sweep.for_threat(Shifted(), 1.0).include_strengths((3.0,)).steps
            48
        """
        return cls(float(spacing), threat.bounded, threat.signed, threat.free, threat.has_whole_sizes)

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Number of points of the grid, without the clean one."""
        return _point_count(self)

    @property
    def evaluations(self) -> int:
        return self.steps

    def lengthened(self, factor: float) -> Sweep:
        """Return a finer or coarser sweep."""
        spacing = self.spacing / factor
        return replace(self, spacing=float(max(1, round(spacing))) if self.whole else spacing)

    def check(self, threat: ThreatModel) -> None:
        settings = (self.bounded, self.signed, self.free, self.whole)
        if not isinstance(threat, Change) or settings != (
            threat.bounded,
            threat.signed,
            threat.free,
            threat.has_whole_sizes,
        ):
            raise unsearchable(self, threat, "the everyday change that it was made for (Sweep.for_threat)", "PGD")

    def states_ahead(self, problem: Problem, state: SweepState, count: int) -> SweepState:
        rows = torch.arange(len(state.step), device=state.step.device).repeat_interleave(count)
        steps_ahead = torch.arange(count, device=state.step.device).repeat(len(state.step))
        repeated: SweepState = take_rows(state, rows)
        return self._state_at(take_rows(problem, rows), replace(repeated, step=repeated.step + steps_ahead))

    def init(self, problem: Problem, theta: Tensor) -> SweepState:
        # Points come in the order of size, so the sizes of the table say how many are within epsilon: no second table.
        sizes = cached_tensor(self.grid, like=problem.x)[:, : self.bounded].abs().amax(1)
        points = count_within(sizes, problem.epsilon)
        state = SweepState(theta, counter(theta), torch.zeros_like(problem.epsilon, dtype=torch.bool), points)
        return self._state_at(problem, state)

    def step(self, problem: Problem, state: SweepState, evaluation: Evaluation) -> SweepState:
        following = replace(state, step=state.step + 1, found=state.found | is_clear(evaluation, problem))
        return self._state_at(problem, following)

    def finished(self, state: SweepState) -> Tensor:
        return state.found | (state.step >= state.points)

    def grid(self) -> Tensor:
        """Return the points in their order, [steps, n].

        Bounded numbers are in the unit of the strengths. In the place of a random pattern stands its number.
        """
        free_values = list(itertools.product(*(_values(kind, count) for kind, count in self.free)))
        points = [(*place, *free) for size in self.sizes for place in self._shell(size) for free in free_values]
        return torch.tensor(points, dtype=torch.float64)

    def _shell(self, size: float) -> list[tuple[float, ...]]:
        """Return the points whose largest bounded number is ``size``, a shell of the grid."""
        if not self.signed:
            return [(size,) * self.bounded]
        inner = self._multiples_below(size)
        along = [size, -size, *(sign * each for each in reversed(inner) for sign in (1, -1)), 0.0]
        return [place for place in itertools.product(along, repeat=self.bounded) if max(map(abs, place)) == size]

    def points_at(self, size: float) -> int:
        """Return the number of points of a ``size``."""
        inside = 2 * len(self._multiples_below(size)) + 1
        shell = (inside + 2) ** self.bounded - inside**self.bounded if self.signed else 1
        return shell * math.prod(count for _, count in self.free)

    def _multiples_below(self, size: float) -> list[float]:
        return [each for each in self.multiples if each < size and not is_same_strength(each, size)]

    def _state_at(self, problem: Problem, state: SweepState) -> SweepState:
        """Return ``state`` with theta at the point of its step; a sample that has ended keeps its own."""
        table = cached_tensor(self.grid, like=problem.x)
        point = table[state.step.clamp_max(len(table) - 1)]
        bounded, free = point[:, : self.bounded], point[:, self.bounded :]
        for column, (kind, count) in enumerate(self.free):
            if kind == "draw":
                draws = problem.noise.child(column).uniform(count, dtype=point.dtype)
                free = free.clone()
                free[:, column] = draws.gather(1, point[:, self.bounded + column, None].long())[:, 0]
        theta = torch.cat([bounded, free], 1)
        return replace(state, theta=torch.where(state.found[:, None], state.theta, theta))


@cache
def _point_count(sweep: Sweep) -> int:
    """Return the number of points of the grid, which the loop asks for at each step."""
    return sum(map(sweep.points_at, sweep.sizes))


def _values(kind: FreeKind, count: int) -> list[float]:
    """Return ``count`` values of a free number: both ends of a place, one of an angle, numbers of draws."""
    if kind == "place":
        return [number / (count - 1) for number in range(count)]
    return [number / (count if kind == "angle" else 1) for number in range(count)]
