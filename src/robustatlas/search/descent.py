"""The searches from above: minimum-size runs bound the size of a sample, then ascents work below it until they fail."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.bundle import Tree
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.search.base import Schedule, attempts_of
from robustatlas.search.plan import Plan
from robustatlas.search.remembered import NearestMisses
from robustatlas.search.rules import (
    Approach,
    NearMisses,
    Rule,
    SettleByKinds,
    StopFruitless,
    StopLaggingRuns,
    StopSlowAscents,
)


class Downward(Schedule):
    """Base of both: in each round runs for the smallest size, then ascents below it, until a round finds nothing.

    The first round begins with the bounds, the others, where :class:`~robustatlas.search.rules.SettleByKinds` asks for
    them, with the restarts. Indices of ``attempts``: the first restart (``again``), ascent (``first``), the first that
    resumes (``resuming``) and that refines (``last``). Of each sample: ``smallest`` [N], its smallest size when its
    last run ended, ``in_vain`` [N] how many runs in a row have found nothing smaller, ``round`` [N], and ``late`` [N]:
    an ascent but the first found something in this one.
    """

    version = 2
    order = (frozenset({"bound"}), frozenset({"restart"}), *(frozenset({r}) for r in ("ascend", "resume", "refine")))
    reads: ClassVar[tuple[type[Rule], ...]] = (
        StopLaggingRuns,
        StopSlowAscents,
        StopFruitless,
        SettleByKinds,
        NearMisses,
    )

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        runs = [len(attempts_of(plan.having(*group), classes)) for group in self.order]
        self.again, self.first, self.resuming, self.last = (sum(runs[: k + 1]) for k in range(4))
        self.fruitless, kinds, near = plan.rule(StopFruitless), plan.rule(SettleByKinds), plan.rule(NearMisses)
        self.rounds = 1 if kinds is None else kinds.rounds
        self.near = near.within if near is not None and plan.having("resume") else None
        self.smallest = torch.full_like(self.level, torch.inf, dtype=strengths.dtype)
        self.in_vain, self.round = torch.zeros_like(self.level), torch.zeros_like(self.level)
        self.late, self.stubborn = torch.zeros_like(todo), torch.zeros_like(todo)

    def begin(self, clean: Tensor, theta: Tree) -> None:
        if self.plan.having("resume"):
            self.misses = NearestMisses.none(clean, theta)

    def draw(self, rows: Tensor) -> Tensor:
        return super().draw(rows) + self.round[rows] * len(self.attempts) * self.levels

    @classmethod
    def most_runs(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        kinds = plan.rule(SettleByKinds)
        several = {role: kinds.rounds for role in ("restart", "ascend", "resume")} if kinds else {}
        return [several.get(leg.role, 1) * leg.runs_of(classes) for leg in plan.legs]

    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        before = self.attempt[rows]
        bounding, refining = before < self.first, before >= self.last
        attempt = self._after_bounds(rows, best_size, before + (bounding | refining | ~fooled).long())
        self.late[rows] |= fooled & (before > self.first) & ~refining
        self.warm[rows] = fooled | bounding
        attempt, over = self._after_ascents(rows, attempt, fooled, best_size, (attempt >= self.first) & ~refining)
        another = over & self.late[rows] & (self.round[rows] < self.rounds - 1)
        settled = over | (self._all_found(best_size) & (attempt >= self.again) & ~refining)
        another &= ~self._all_found(best_size)
        self.round[rows] += another.long()
        self.late[rows] &= ~another
        self.in_vain[rows] = torch.where(another, 0, self.in_vain[rows])
        attempt = torch.where(settled, torch.where(another, self.again, self.last), attempt)
        self.done[rows] = (settled & best_size.isinf()) | (attempt >= len(self.attempts))
        self.attempt[rows] = attempt.clamp_max(len(self.attempts) - 1)

    def _after_bounds(self, rows: Tensor, best_size: Tensor, following: Tensor) -> Tensor:
        """``[B]``: the attempt ``following`` [B], or the first ascent after runs for the smallest size in vain."""
        if self.fruitless is not None:
            gained = self._gained(best_size, self.smallest[rows], self.fruitless.threshold)
            self.in_vain[rows] = in_vain = torch.where(gained, 0, self.in_vain[rows] + 1)
            self.stubborn[rows] |= gained & (self.attempt[rows] >= self.again) & (self.attempt[rows] != self.first)
            patience = torch.where(self.stubborn[rows], self.fruitless.stubborn, self.fruitless.patience)
            enough = (following < self.first) & (in_vain >= patience)
            following = torch.where(enough, self.first, following)
        self.smallest[rows] = best_size
        return following

    def _gained(self, best_size: Tensor, before: Tensor, threshold: float) -> Tensor:
        """``[B]``: ``best_size`` [B] is smaller than the one ``before`` [B] by so much that it counts."""
        return best_size < (1 - threshold) * before

    def _all_found(self, best_size: Tensor) -> Tensor:
        """``[B]``: nothing smaller than ``best_size`` [B] is asked for."""
        return torch.zeros_like(best_size, dtype=torch.bool)

    @abstractmethod
    def _after_ascents(
        self, rows: Tensor, attempt: Tensor, fooled: Tensor, best_size: Tensor, ascending: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``[B]``: the attempt that comes next, and ``[B]``: those of the ascending samples that are through with their
        round; the level of each is set. ``attempt`` [B]: what would come next, at the same strength."""

    def _resumed(self, rows: Tensor, attempt: Tensor, fooled: Tensor, over: Tensor) -> Tensor:
        """``[B]``: of the samples whose ascents are ``over``, those with legs left that go on from a near miss, or of
        which one has just succeeded."""
        if self.misses is None or self.near is None:
            return torch.zeros_like(over)
        near = self.misses.share[rows] <= self.near
        return over & (attempt < self.last) & (near | (fooled & (attempt >= self.resuming)))


class Descent(Downward):
    """From above: minimum-size attacks bound the size, then ascents of several kinds work just below the bound until
    all fail.

    A success at any strength is itself the next bound, and the run goes on from that very example drawn into the set
    of the next strength below. Where all fail, but one by little, the legs that resume go on from there. At the end the
    legs that refine go on from the smallest example.
    """

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        self.level += len(strengths) - 1

    def _below(self, size: Tensor) -> Tensor:
        """``[B]``: index of the largest strength below ``size`` [B]; -1: there is none."""
        return torch.searchsorted(self.strengths * (1 + STRENGTH_TOLERANCE), size) - 1

    def _gained(self, best_size: Tensor, before: Tensor, threshold: float) -> Tensor:
        import os
        if os.environ.get("GAIN") == "1":
            return (self._below(best_size) < self._below(before)) | (best_size.isfinite() & before.isinf())
        return super()._gained(best_size, before, threshold)

    def _all_found(self, best_size: Tensor) -> Tensor:
        return best_size <= self.strengths[0] * (1 + STRENGTH_TOLERANCE)

    def _after_ascents(
        self, rows: Tensor, attempt: Tensor, fooled: Tensor, best_size: Tensor, ascending: Tensor
    ) -> tuple[Tensor, Tensor]:
        below = torch.searchsorted(self.strengths * (1 + STRENGTH_TOLERANCE), best_size) - 1
        level = torch.where(ascending, torch.minimum(below, self.level[rows]), len(self.strengths) - 1)
        over = ascending & (attempt >= self.resuming)
        resumed = self._resumed(rows, attempt, fooled, over)
        self.level[rows] = level.clamp_min(0)
        return torch.where(resumed, attempt.clamp_min(self.resuming), attempt), over & ~resumed


class Minimum(Downward):
    """The smallest size of each sample, whatever the strengths.

    As the descent, but the ascents work a little below the smallest example itself: first far below by the first kind,
    then, where that fails, nearer by all (:class:`~robustatlas.search.rules.Approach`).
    """

    on_grid = False
    reads = (*Downward.reads, Approach)

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        shares = (plan.rule(Approach) or Approach()).shares
        self.levels = len(shares)
        self.ratios = torch.tensor(shares, dtype=strengths.dtype, device=todo.device)

    @classmethod
    def most_runs(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        runs, ascents = super().most_runs(plan, strengths, classes), [leg.role == "ascend" for leg in plan.legs]
        if any(ascents):
            kinds = plan.rule(SettleByKinds)
            more = len((plan.rule(Approach) or Approach()).shares) - 1
            runs[ascents.index(True)] += more * (kinds.rounds if kinds else 1)
        return runs

    def epsilon(self, rows: Tensor, best_size: Tensor) -> Tensor:
        below = best_size * self.ratios[self.level[rows]]
        return torch.where(self.bounds[self.attempt[rows]] | best_size.isinf(), self.strengths[-1], below)

    def _after_ascents(
        self, rows: Tensor, attempt: Tensor, fooled: Tensor, best_size: Tensor, ascending: Tensor
    ) -> tuple[Tensor, Tensor]:
        finest = self.levels - 1
        level = torch.where(ascending, self.level[rows], 0)
        level = torch.where(ascending & best_size.isinf(), finest, level)
        nearer = ascending & (level < finest) & (attempt > self.first)
        over = ascending & (level == finest) & (attempt >= self.resuming)
        resumed = self._resumed(rows, attempt, fooled, over)
        attempt = torch.where(resumed, attempt.clamp_min(self.resuming), torch.where(nearer, self.first, attempt))
        self.warm[rows] |= nearer
        self.level[rows] = level + nearer.long()
        return attempt, over & ~resumed
