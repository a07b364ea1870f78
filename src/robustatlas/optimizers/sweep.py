"""Exhaustive sweep over a grid of a few numbers, the smallest size first."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import take
from robustatlas.common.host import cached
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.everyday.change import Change, Free


@dataclass(frozen=True)
class SweepState(State):
    """``found`` [B] bool: the last point was misclassified, and the sweep ends."""

    found: Tensor


@dataclass(frozen=True)
class Sweep(Optimizer[SweepState]):
    """Sweep over a grid of an everyday change, in the order of size, until the first mistake.

    The numbers that the strength bounds take ``sizes`` equal steps up to epsilon: one signed number with both signs,
    two signed numbers at all points of the square grid. At each of these points all combinations of the free numbers
    are evaluated: directions and places at equal distances, and random patterns by their number. The result is the
    smallest size of the grid at which there is a mistake.

    Attributes:
        sizes: number of steps up to epsilon.
        bounded: number of bounded numbers of the threat model.
        signed: they may be negative.
        free: kind and number of values of each free number.
    """

    title = "exhaustive sweep over a grid"
    needs_gradient: ClassVar[bool] = False
    needs = "labels"
    minimum_size: ClassVar[bool] = True
    foresees: ClassVar[bool] = True

    sizes: int = 10
    bounded: int = 1
    signed: bool = True
    free: tuple[tuple[Free, int], ...] = ()

    @classmethod
    def for_threat(cls, threat: Change, sizes: int) -> Sweep:
        """Return the sweep of ``threat`` in ``sizes`` sizes.

        Example:
            >>> from robustatlas.threats.everyday.geometry import Rotated, Shifted
            >>> Sweep.for_threat(Rotated(), 30).steps, Sweep.for_threat(Shifted(), 3).steps
            (60, 48)
        """
        return cls(sizes, threat.bounded, threat.signed, threat.free)

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Number of points of the grid, without the clean one."""
        bounded_points = (2 * self.sizes + 1) ** self.bounded - 1 if self.signed else self.sizes
        return bounded_points * math.prod(count for _, count in self.free)

    @property
    def evaluations(self) -> int:
        return self.steps

    def lengthened(self, factor: float) -> Sweep:
        """Return the sweep over a finer or coarser grid: ``factor`` times the sizes."""
        return replace(self, sizes=max(1, round(factor * self.sizes)))

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, Change) or (threat.bounded, threat.signed, threat.free) != (
            self.bounded,
            self.signed,
            self.free,
        ):
            raise unsearchable(self, threat, "the everyday change that it was made for (Sweep.for_threat)", "PGD")

    def states_ahead(self, problem: Problem, state: SweepState, count: int) -> SweepState:
        rows = torch.arange(len(state.step), device=state.step.device).repeat_interleave(count)
        steps_ahead = torch.arange(count, device=state.step.device).repeat(len(state.step))
        repeated: SweepState = take(state, rows)
        return self._state_at(take(problem, rows), replace(repeated, step=repeated.step + steps_ahead))

    def init(self, problem: Problem, theta: Tensor) -> SweepState:
        state = SweepState(theta, counter(theta), torch.zeros_like(problem.epsilon, dtype=torch.bool))
        return self._state_at(problem, state)

    def step(self, problem: Problem, state: SweepState, evaluation: Evaluation) -> SweepState:
        following = SweepState(state.theta, state.step + 1, state.found | evaluation.fooled)
        return self._state_at(problem, following)

    def finished(self, state: SweepState) -> Tensor:
        return state.found | (state.step >= self.steps)

    def grid(self) -> Tensor:
        """Return the points in their order, [steps, n].

        Bounded numbers are shares of epsilon. In the place of a random pattern stands its number.
        """
        free_values = list(itertools.product(*(_values(kind, count) for kind, count in self.free)))
        points = []
        for size in range(1, self.sizes + 1):
            # The points whose largest bounded number is this size, a shell of the grid.
            along = sorted(range(-size, size + 1), key=lambda place: (-abs(place), -place)) if self.signed else [size]
            shell = [place for place in itertools.product(along, repeat=self.bounded) if max(map(abs, place)) == size]
            points += [(*(number / self.sizes for number in place), *free) for place in shell for free in free_values]
        return torch.tensor(points, dtype=torch.float64)

    def _state_at(self, problem: Problem, state: SweepState) -> SweepState:
        """Return ``state`` with theta at the point of its step; a sample that has ended keeps its own."""
        table = cached(self.grid, like=problem.x)
        point = table[state.step.clamp_max(len(table) - 1)]
        bounded, free = point[:, : self.bounded] * problem.epsilon[:, None], point[:, self.bounded :]
        for column, (kind, count) in enumerate(self.free):
            if kind == "draw":
                draws = problem.noise.child(column).uniform(count, dtype=point.dtype)
                free = free.clone()
                free[:, column] = draws.gather(1, point[:, self.bounded + column, None].long())[:, 0]
        theta = torch.cat([bounded, free], 1)
        return replace(state, theta=torch.where(state.found[:, None], state.theta, theta))


def _values(kind: Free, count: int) -> list[float]:
    """Return ``count`` values of a free number: both ends of a place, one of an angle, numbers of draws."""
    if kind == "place":
        return [number / (count - 1) for number in range(count)]
    return [number / (count if kind == "angle" else 1) for number in range(count)]
