"""The searches from above: minimum-size runs bound the size of a sample, then ascents work below it until they fail."""

from __future__ import annotations

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
    AscentsByRatio,
    NearMisses,
    Rule,
    SkipAgreeingKinds,
    StopLaggingRuns,
    StopRestarts,
    StopSlowAscents,
)


class Downward(Schedule):
    """Base of both: the runs for the smallest size come first, and end where their rules say so.

    Indices of ``attempts``: the first ascent (``first``), that of another kind (``closing``), the first that resumes
    (``resuming``), the first that refines (``last``), and where bounds go on once two kinds agree (``agreed``).
    """

    order = (
        frozenset({"bound", "restart"}),
        frozenset({"ascend"}),
        frozenset({"close"}),
        frozenset({"resume"}),
        frozenset({"refine"}),
    )
    reads: ClassVar[tuple[type[Rule], ...]] = (
        StopLaggingRuns,
        StopSlowAscents,
        SkipAgreeingKinds,
        StopRestarts,
        NearMisses,
    )

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        runs = [len(attempts_of(plan.having(*group), classes)) for group in self.order]
        self.first, self.closing, self.resuming, self.last = (sum(runs[: k + 1]) for k in range(4))
        self.ascents = runs[1]
        self.agreeing, self.stopping = plan.rule(SkipAgreeingKinds), plan.rule(StopRestarts)
        self.restarts = torch.tensor([a.leg.role == "restart" for a in self.attempts], device=todo.device)
        self.agreed = self._goes_on()
        near = plan.rule(NearMisses)
        self.near = near.within if near is not None and plan.having("resume") else None
        self.smallest = torch.full_like(self.level, torch.inf, dtype=strengths.dtype)
        self.finder = torch.full_like(self.level, -1)
        self.in_vain = torch.zeros_like(self.level)

    def begin(self, clean: Tensor, theta: Tree) -> None:
        if self.plan.having("resume"):
            self.misses = NearestMisses.none(clean, theta)

    def _goes_on(self) -> int:
        """Where bounds go on once two kinds agree: the first of the restarts that are left, or the first ascent."""
        places = [k for k, attempt in enumerate(self.attempts) if attempt.leg.role == "restart"]
        if self.agreeing is not None and self.agreeing.restarts is not None:
            places = places[max(0, len(places) - self.agreeing.restarts) :]
        return places[0] if places else self.first

    def _resumes(self, rows: Tensor, attempt: Tensor, fooled: Tensor) -> Tensor:
        """``[B]``: legs are left that go on from a near miss, or one of them has just succeeded."""
        if self.misses is None or self.near is None:
            return torch.zeros_like(fooled)
        return (attempt < self.last) & ((self.misses.share[rows] <= self.near) | (fooled & (attempt >= self.resuming)))

    def _after_bounds(self, rows: Tensor, best_size: Tensor, reached: Tensor, following: Tensor) -> Tensor:
        """The attempt ``following`` [B]; or that of index ``agreed``, where the run that ended came to the size that
        one of another stage had found; or the first ascent, after restarts in vain."""
        attempt, known = self.attempt[rows], self.smallest[rows]
        stage = self.stage_of[attempt]
        if (rule := self.agreeing) is not None:
            same = (reached >= (1 - rule.within) * known) & (reached <= (1 + rule.within) * known)
            agreed = same & known.isfinite() & (stage != self.finder[rows]) & (attempt < self.agreed)
            following = torch.where(agreed, self.agreed, following)
        if self.stopping is not None:
            gained = best_size < (1 - self.stopping.threshold) * known
            in_vain = torch.where(self.restarts[attempt] & ~gained, self.in_vain[rows] + 1, 0)
            self.in_vain[rows] = in_vain
            following = torch.where(in_vain >= self.stopping.patience, self.first, following)
        self.finder[rows] = torch.where(best_size < known, stage, self.finder[rows])
        self.smallest[rows] = best_size
        return following


class Descent(Downward):
    """From above: minimum-size attacks bound the size, then the strong attack works just below the bound until it
    fails.

    A success at any strength is itself the next bound, and the run goes on from that very example drawn into the set
    of the next strength below. How many ascents are made, and whether another kind of attack closes, follows the ratio
    of strength to bound (:class:`~robustatlas.search.rules.AscentsByRatio`). Where all fail, but one by little, the
    legs that resume go on from there. At the end the legs that refine go on from the smallest example.
    """

    reads = (*Downward.reads, AscentsByRatio)

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        self.level += len(strengths) - 1
        self.proof = plan.rule(AscentsByRatio)

    def allowed(self, ratio: Tensor) -> Tensor:
        """Number of attempts (bound ones included) that a sample gets when its strength is ``ratio`` times its
        bound."""
        allowed = torch.full_like(ratio, self.resuming, dtype=torch.int64)
        if self.proof is None:
            return allowed
        allowed = torch.where(ratio < self.proof.close, self.closing, allowed)
        for limit, runs in reversed(self.proof.runs):
            allowed = torch.where(ratio < limit, self.first + min(runs, self.ascents), allowed)
        return allowed

    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        below = torch.searchsorted(self.strengths * (1 + STRENGTH_TOLERANCE), best_size) - 1
        attempt = self.attempt[rows]
        bounding, refining = attempt < self.first, attempt >= self.last
        self.warm[rows] = fooled | bounding
        attempt = self._after_bounds(rows, best_size, reached, attempt + (bounding | refining | ~fooled).long())
        bounding = attempt < self.first
        level = torch.where(bounding, len(self.strengths) - 1, torch.minimum(below, self.level[rows]))
        ratio = torch.where(best_size.isfinite(), self.strengths[level.clamp_min(0)] / best_size, 1.0)
        over = ~bounding & ~refining & (attempt >= self.allowed(ratio))
        resumed = over & self._resumes(rows, attempt, fooled)
        settled = (over & ~resumed) | (~bounding & ~refining & (level < 0))
        attempt = torch.where(resumed, attempt.clamp_min(self.resuming), attempt)
        attempt = torch.where(settled, self.last, attempt)
        self.done[rows] = (settled & best_size.isinf()) | (attempt >= len(self.attempts))
        self.attempt[rows] = attempt.clamp_max(len(self.attempts) - 1)
        self.level[rows] = level.clamp_min(0)


class Minimum(Downward):
    """The smallest size of each sample, whatever the strengths.

    As the descent, but the ascents work a little below the smallest example itself: first far below and briefly, then,
    where that fails, nearer and with more runs (:class:`~robustatlas.search.rules.Approach`).
    """

    on_grid = False
    reads = (*Downward.reads, Approach)

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        steps = (plan.rule(Approach) or Approach()).steps
        self.levels = len(steps)
        self.ratios = torch.tensor([ratio for ratio, _ in steps], dtype=strengths.dtype, device=todo.device)
        runs = [self.resuming if n is None else self.first + min(n, self.ascents) for _, n in steps]
        self.ends = torch.tensor(runs, device=todo.device)

    @classmethod
    def most_runs(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        steps = (plan.rule(Approach) or Approach()).steps
        left, counts = [n for _, n in steps], []
        for leg in plan.legs:
            runs = leg.runs_of(classes)
            if leg.role in ("ascend", "close"):
                made = [runs if n is None else min(runs, n) for n in left]
                left = [None if n is None else n - m for n, m in zip(left, made, strict=True)]
                runs = sum(made)
            counts.append(runs)
        return counts

    def epsilon(self, rows: Tensor, best_size: Tensor) -> Tensor:
        below = best_size * self.ratios[self.level[rows]]
        return torch.where(self.bounds[self.attempt[rows]] | best_size.isinf(), self.strengths[-1], below)

    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        attempt, level = self.attempt[rows], self.level[rows]
        bounding, refining = attempt < self.first, attempt >= self.last
        attempt = self._after_bounds(rows, best_size, reached, attempt + (bounding | refining | ~fooled).long())
        strong = (attempt >= self.first) & ~refining
        unknown = best_size.isinf()
        level = torch.where(strong & unknown, self.levels - 1, level)
        over = strong & (attempt >= self.ends[level])
        finest = level == self.levels - 1
        resumed = over & finest & self._resumes(rows, attempt, fooled)
        over &= ~resumed
        attempt = torch.where(resumed, attempt.clamp_min(self.resuming), attempt)
        finer = over & ~finest
        self.warm[rows] = fooled | bounding | finer
        attempt = torch.where(finer, self.first, torch.where(over & finest, self.last, attempt))
        self.done[rows] = (over & finest & unknown) | (attempt >= len(self.attempts))
        self.attempt[rows] = attempt.clamp_max(len(self.attempts) - 1)
        self.level[rows] = level + finer.long()
