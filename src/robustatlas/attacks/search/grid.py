"""Searches at the strengths of a grid: each by itself, or by bisection."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from robustatlas.attacks.search.base import Schedule
from robustatlas.attacks.search.plan import AttackRun, Plan
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE


class OnGrid(Schedule):
    """Base of both: at a strength each run of the plan follows the one before, until one succeeds."""

    @classmethod
    def select_runs(cls, name: str, runs: Sequence[AttackRun]) -> tuple[AttackRun, ...]:
        """Return its runs; an attack without ascents makes its bounds at each strength."""
        chosen = super().select_runs(name, runs)
        bounds = (run for run in runs if not run.searches and run.role == "bound")
        return chosen or tuple(replace(run, role="ascend") for run in bounds)

    def _next_attempt(self, rows: Tensor, fooled: Tensor) -> Tensor:
        """Count a failed run, and return which of the rows have finished their level."""
        following = self.attempt[rows] + 1
        settled = fooled | (following >= len(self.attempts))
        self.attempt[rows] = torch.where(settled, 0, following)
        return settled


class Every(OnGrid):
    """Each strength by itself, from the smallest; a strength above the smallest example found is settled without a
    run where that counts for all larger ones."""

    @classmethod
    def runs_at_most(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        return [strengths * run.runs_among(classes) for run in plan.runs]

    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        settled = self._next_attempt(rows, fooled)
        following = self.level[rows] + settled.long()
        over = following >= len(self.strengths)
        following = following.clamp_max(len(self.strengths) - 1)
        if self.monotone:
            over |= best_size <= self.strengths[following] * (1 + STRENGTH_TOLERANCE)
        self.level[rows] = following
        self.done[rows] = over


class Bisection(OnGrid):
    """Per-sample bisection over the strengths: the protocol of MultiRobustBench."""

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        self.low = torch.zeros_like(self.level)
        self.high = torch.full_like(self.level, len(strengths) - 1)
        self.level = (self.low + self.high) // 2

    @classmethod
    def runs_at_most(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        return [strengths.bit_length() * run.runs_among(classes) for run in plan.runs]

    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        settled = self._next_attempt(rows, fooled)
        middle = self.level[rows]
        self.high[rows] = torch.where(settled & fooled, middle - 1, self.high[rows])
        self.low[rows] = torch.where(settled & ~fooled, middle + 1, self.low[rows])
        over = self.low[rows] > self.high[rows]
        self.level[rows] = torch.where(over, middle, (self.low[rows] + self.high[rows]) // 2)
        self.done[rows] = over
