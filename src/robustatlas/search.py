"""How strengths are explored: which strength a sample is attacked at next, and by which run of which stage.

A schedule holds, per sample, the index of the strength (``level``) and of the run (``attempt``) that come next. The
engine reports how each run ended.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack, Search, Stage
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.patience import Patience

LONG_PATIENCE = Patience(behind=((1 / 3, 2.5), (1 / 2, 1.7), (2 / 3, 1.3), (3 / 4, 1.15), (5 / 6, 1.05)), hope=math.inf)
"""Ends minimum-size attacks that lag so far that hardly any would still gain; every ascent goes on."""


def _looks(patience: Patience) -> list[list[float]]:
    return [list(look) for look in patience.behind]


@dataclass(frozen=True)
class Attempt:
    """One run: a stage, and which of its targets or restarts."""

    stage: Stage
    number: int
    bound: bool


def attempts_of(stages: tuple[Stage, ...], classes: int, *, bound: bool = False) -> list[Attempt]:
    """All runs of ``stages``, in order; ``bound``: they look for the smallest size, whatever the strength."""
    return [Attempt(stage, n, bound) for stage in stages for n in range(stage.runs(classes))]


class Schedule(ABC):
    """Which strength and which run comes next for each of N samples.

    ``level`` int64 [N]: index of the strength, of ``levels``; ``attempt`` int64 [N]: index into ``attempts``; ``done``
    bool [N]; ``warm`` bool [N]: the last run found something, from which the next may start.
    Of each attempt, as tensors [A]: ``stage_of`` (index into ``stages``), ``number_of`` and ``bounds``.
    ``shares``: runs start at the example of the lowest margin within a neighbouring strength, of index ``source``.
    ``on_grid``: runs are at the strengths themselves; otherwise ``level`` is something else.
    ``patience``: with which runs are given up (None: all are carried to their end).
    """

    shares: ClassVar[bool] = False
    on_grid: ClassVar[bool] = True
    patience: Patience | None = None

    def __init__(self, attack: Attack, strengths: Tensor, classes: int, todo: Tensor) -> None:
        self.strengths, self.levels = strengths, len(strengths)
        self.attempts = self.plan(attack, classes)
        self.stages = list(dict.fromkeys(a.stage for a in self.attempts))
        self.stage_of = torch.tensor([self.stages.index(a.stage) for a in self.attempts], device=todo.device)
        self.number_of = torch.tensor([a.number for a in self.attempts], device=todo.device)
        self.bounds = torch.tensor([a.bound for a in self.attempts], device=todo.device)
        self.level = torch.zeros_like(todo, dtype=torch.int64)
        self.attempt = torch.zeros_like(self.level)
        self.done = ~todo
        self.warm = torch.zeros_like(todo)

    def source(self, rows: Tensor) -> Tensor:
        """Index of the strength within which the start of each run lies; the number of strengths: anywhere."""
        return self.level[rows]

    def epsilon(self, rows: Tensor, best_size: Tensor) -> Tensor:
        """The strength of the run that comes next of each of ``rows``; ``best_size``: their smallest so far."""
        return self.strengths[self.level[rows]]

    def plan(self, attack: Attack, classes: int) -> list[Attempt]:
        """The runs that this search makes of an attack."""
        return attempts_of(attack.stages, classes)

    @classmethod
    def settings(cls) -> dict[str, float | list[list[float]]]:
        """The constants on which the numbers of this search depend."""
        return {}

    @abstractmethod
    def advance(
        self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor, missed: Tensor | None = None
    ) -> None:
        """Samples ``rows`` ended a run; ``fooled``: with a verified example at their strength; ``best_size``: their
        smallest so far; ``reached``: the smallest size of that run (inf: none, or nobody asked for it); ``missed``: by
        how much the ascents at that strength failed, as a share of the clean margin (inf or None: nobody asked)."""

    def _next_attempt(self, rows: Tensor, fooled: Tensor) -> Tensor:
        """Count a failed run; which of the rows are through with their level."""
        following = self.attempt[rows] + 1
        settled = fooled | (following >= len(self.attempts))
        self.attempt[rows] = torch.where(settled, 0, following)
        return settled


class Every(Schedule):
    """Each strength by itself, from the smallest; a strength above the smallest example found is settled without a
    run."""

    def __init__(self, attack: Attack, strengths: Tensor, classes: int, todo: Tensor) -> None:
        super().__init__(attack, strengths, classes, todo)
        self.skips = attack.nested and all(a.stage.judge == "best" for a in self.attempts)

    def advance(
        self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor, missed: Tensor | None = None
    ) -> None:
        settled = self._next_attempt(rows, fooled)
        following = self.level[rows] + settled.long()
        over = following >= len(self.strengths)
        following = following.clamp_max(len(self.strengths) - 1)
        if self.skips:
            over |= best_size <= self.strengths[following] * (1 + STRENGTH_TOLERANCE)
        self.level[rows] = following
        self.done[rows] = over


class Bisection(Schedule):
    """Per-sample bisection over the strengths: the procedure of MultiRobustBench."""

    def __init__(self, attack: Attack, strengths: Tensor, classes: int, todo: Tensor) -> None:
        super().__init__(attack, strengths, classes, todo)
        self.low = torch.zeros_like(self.level)
        self.high = torch.full_like(self.level, len(strengths) - 1)
        self.level = (self.low + self.high) // 2

    def advance(
        self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor, missed: Tensor | None = None
    ) -> None:
        settled = self._next_attempt(rows, fooled)
        middle = self.level[rows]
        self.high[rows] = torch.where(settled & fooled, middle - 1, self.high[rows])
        self.low[rows] = torch.where(settled & ~fooled, middle + 1, self.low[rows])
        over = self.low[rows] > self.high[rows]
        self.level[rows] = torch.where(over, middle, (self.low[rows] + self.high[rows]) // 2)
        self.done[rows] = over


class Descent(Schedule):
    """From above: minimum-size attacks bound the size, then the strong attack works just below the bound until it
    fails.

    A success at any strength is itself the next bound, and the run goes on from that very example drawn into the set
    of the next strength below. The effort follows the ratio of strength to bound: a strength far below a bound needs
    little proof, one just below deserves all runs, and the closing attack of another kind. At the end minimum-size
    attacks go on from the smallest example.

    Where all of these fail, but one left no more than ``NEAR`` of the clean margin, the closing attacks that go on from
    there do so, whatever the ratio.

    Runs that come to nothing are given up (:class:`~robustatlas.patience.Patience`), and where two kinds of
    minimum-size attacks come to the same size, up to a share of ``AGREE``, the remaining ones are left out, but for
    ``HOPS_AFTER`` hops. High effort waits longer for minimum-size attacks, and leaves out nothing else. Hops end when
    as many in a row as their stage allows have found nothing smaller by that share.
    """

    EFFORT = ((0.5, 1), (0.75, 2), (0.85, 3))
    CLOSE = 0.9
    PATIENCE = Patience(behind=((1 / 3, 1.8), (1 / 2, 1.4), (2 / 3, 1.2), (3 / 4, 1.1), (5 / 6, 1.03)), hope=1.0)
    AGREE = 0.003
    HOPS_AFTER: ClassVar[float] = 1
    NEAR = 0.1

    @classmethod
    def settings(cls) -> dict[str, float | list[list[float]]]:
        effort = [list(step) for step in cls.EFFORT]
        return {"effort": effort, "close": cls.CLOSE, "hops_after": cls.HOPS_AFTER, **cls._bounding()}

    @classmethod
    def _bounding(cls) -> dict[str, float | list[list[float]]]:
        behind = {"behind": _looks(cls.PATIENCE), "behind_at_high_effort": _looks(LONG_PATIENCE)}
        return {**behind, "hope": cls.PATIENCE.hope, "agree": cls.AGREE, "near": cls.NEAR}

    def plan(self, attack: Attack, classes: int) -> list[Attempt]:
        bound = attempts_of(attack.bound, classes, bound=True)
        strong = attempts_of(attack.stages if attack.descent is None else attack.descent, classes)
        self.first, self.strong = len(bound), len(strong)
        hops = [number for number, attempt in enumerate(bound) if attempt.stage.kick]
        self.settling = hops[-int(min(self.HOPS_AFTER, len(hops)))] if hops else self.first
        closing, polish = attempts_of(attack.closing, classes), attempts_of(attack.polish, classes, bound=True)
        closing.sort(key=lambda attempt: attempt.stage.start == "missed")
        self.last = len(bound) + len(strong) + len(closing)
        self.resuming = self.last - sum(attempt.stage.start == "missed" for attempt in closing)
        return [*bound, *strong, *closing, *polish]

    def __init__(self, attack: Attack, strengths: Tensor, classes: int, todo: Tensor) -> None:
        super().__init__(attack, strengths, classes, todo)
        self.level += len(strengths) - 1
        self.smallest = torch.full_like(self.level, torch.inf, dtype=strengths.dtype)
        self.finder = torch.full_like(self.level, -1)
        self.hops = torch.tensor([a.bound and a.stage.kick > 0 for a in self.attempts], device=todo.device)
        self.fruitless = torch.zeros_like(self.level)
        self.most_fruitless = torch.tensor([a.stage.fruitless for a in self.attempts], device=todo.device)
        self.agreement = attack.effort != "high"
        self.patience = self.PATIENCE if self.agreement else LONG_PATIENCE

    def allowed(self, ratio: Tensor) -> Tensor:
        """Number of attempts (bound ones included) that a sample gets when its strength is ``ratio`` times its
        bound."""
        allowed = torch.full_like(ratio, self.resuming, dtype=torch.int64)
        allowed = torch.where(ratio < self.CLOSE, self.first + self.strong, allowed)
        for limit, runs in reversed(self.EFFORT):
            allowed = torch.where(ratio < limit, self.first + min(runs, self.strong), allowed)
        return allowed

    def _resumes(self, attempt: Tensor, fooled: Tensor, missed: Tensor | None) -> Tensor:
        """``[B]``: closing attacks are left that go on from a near miss, or one of them has just succeeded."""
        if missed is None or self.resuming == self.last:
            return torch.zeros_like(fooled)
        return (attempt < self.last) & ((missed <= self.NEAR) | (fooled & (attempt >= self.resuming)))

    def _after_bounds(self, rows: Tensor, best_size: Tensor, reached: Tensor, following: Tensor) -> Tensor:
        """The attempt ``following`` [B]; or that of index ``settling``, where the run that ended came to the size that
        one of another stage had found; or the first strong one, after fruitless hops."""
        attempt, known = self.attempt[rows], self.smallest[rows]
        stage = self.stage_of[attempt]
        gained = best_size < (1 - self.AGREE) * known
        fruitless = torch.where(self.hops[attempt] & ~gained, self.fruitless[rows] + 1, 0)
        same = (reached >= (1 - self.AGREE) * known) & (reached <= (1 + self.AGREE) * known)
        agreed = same & known.isfinite() & (stage != self.finder[rows]) & (attempt < self.settling)
        self.finder[rows] = torch.where(best_size < known, stage, self.finder[rows])
        self.smallest[rows], self.fruitless[rows] = best_size, fruitless
        if self.agreement:
            following = torch.where(agreed, self.settling, following)
        return torch.where(fruitless >= self.most_fruitless[attempt], self.first, following)

    def advance(
        self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor, missed: Tensor | None = None
    ) -> None:
        below = torch.searchsorted(self.strengths * (1 + STRENGTH_TOLERANCE), best_size) - 1
        attempt = self.attempt[rows]
        bounding, polishing = attempt < self.first, attempt >= self.last
        self.warm[rows] = fooled | bounding
        attempt = self._after_bounds(rows, best_size, reached, attempt + (bounding | polishing | ~fooled).long())
        bounding = attempt < self.first
        level = torch.where(bounding, len(self.strengths) - 1, torch.minimum(below, self.level[rows]))
        ratio = torch.where(best_size.isfinite(), self.strengths[level.clamp_min(0)] / best_size, 1.0)
        over = ~bounding & ~polishing & (attempt >= self.allowed(ratio))
        resumed = over & self._resumes(attempt, fooled, missed)
        settled = (over & ~resumed) | (~bounding & ~polishing & (level < 0))
        attempt = torch.where(resumed, attempt.clamp_min(self.resuming), attempt)
        attempt = torch.where(settled, self.last, attempt)
        self.done[rows] = (settled & best_size.isinf()) | (attempt >= len(self.attempts))
        self.attempt[rows] = attempt.clamp_max(len(self.attempts) - 1)
        self.level[rows] = level.clamp_min(0)


class Minimum(Descent):
    """The smallest size of each sample, whatever the strengths.

    As the descent, but the strong attack works a little below the smallest example itself: first far below and briefly,
    then, where that fails, nearer and with more runs, at last by ``STEPS[-1]`` with all of them. Minimum-size attacks
    of two kinds that agree do not keep it from hopping.
    """

    on_grid = False
    HOPS_AFTER = math.inf
    STEPS = ((0.9, 1), (0.97, 2), (0.99, None))

    @classmethod
    def settings(cls) -> dict[str, float | list[list[float]]]:
        return {"steps": [[ratio, runs or 0] for ratio, runs in cls.STEPS], **cls._bounding()}

    def plan(self, attack: Attack, classes: int) -> list[Attempt]:
        return super().plan(replace(attack, bound=attack.minimum_stages), classes)

    def __init__(self, attack: Attack, strengths: Tensor, classes: int, todo: Tensor) -> None:
        super().__init__(attack, strengths, classes, todo)
        self.level, self.levels = torch.zeros_like(self.level), len(self.STEPS)
        self.ratios = torch.tensor([ratio for ratio, _ in self.STEPS], dtype=strengths.dtype, device=todo.device)
        runs = [self.resuming if n is None else self.first + min(n, self.strong) for _, n in self.STEPS]
        self.ends = torch.tensor(runs, device=todo.device)

    def epsilon(self, rows: Tensor, best_size: Tensor) -> Tensor:
        below = best_size * self.ratios[self.level[rows]]
        return torch.where(self.bounds[self.attempt[rows]] | best_size.isinf(), self.strengths[-1], below)

    def advance(
        self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor, missed: Tensor | None = None
    ) -> None:
        attempt, level = self.attempt[rows], self.level[rows]
        bounding, polishing = attempt < self.first, attempt >= self.last
        attempt = self._after_bounds(rows, best_size, reached, attempt + (bounding | polishing | ~fooled).long())
        strong = (attempt >= self.first) & ~polishing
        unknown = best_size.isinf()
        level = torch.where(strong & unknown, len(self.STEPS) - 1, level)
        over = strong & (attempt >= self.ends[level])
        finest = level == len(self.STEPS) - 1
        resumed = over & finest & self._resumes(attempt, fooled, missed)
        over &= ~resumed
        attempt = torch.where(resumed, attempt.clamp_min(self.resuming), attempt)
        finer = over & ~finest
        self.warm[rows] = fooled | bounding | finer
        attempt = torch.where(finer, self.first, torch.where(over & finest, self.last, attempt))
        self.done[rows] = (over & finest & unknown) | (attempt >= len(self.attempts))
        self.attempt[rows] = attempt.clamp_max(len(self.attempts) - 1)
        self.level[rows] = level + finer.long()


class Frontier(Schedule):
    """The lowest margin at every strength, for the adversarial hypervolume.

    Minimum-size attacks say up to which strength a sample holds out. Then its strengths are gone through several
    times: first each from a random start towards a target of its own, so that several targets are tried for the price
    of one; then down, each from what was found at the strength above, and up, from the one below, so that the best
    example of any strength reaches all.

    Minimum-size attacks that lag far are given up; ascents never, whose margins count wherever they end.
    """

    shares = True
    patience = LONG_PATIENCE

    @classmethod
    def settings(cls) -> dict[str, float | list[list[float]]]:
        return {"behind": _looks(LONG_PATIENCE)}

    def plan(self, attack: Attack, classes: int) -> list[Attempt]:
        bounds = tuple(stage for stage in attack.frontier_stages if stage.optimizer.minimum_size)
        rounds = tuple(stage for stage in attack.frontier_stages if not stage.optimizer.minimum_size)
        bounding, targets = attempts_of(bounds, classes, bound=True), attempts_of(rounds[:1], classes)
        self.first, self.targets, self.rounds = len(bounding), len(targets), len(rounds)
        return [*bounding, *targets, *(Attempt(stage, 0, bound=False) for stage in rounds[1:])]

    def __init__(self, attack: Attack, strengths: Tensor, classes: int, todo: Tensor) -> None:
        super().__init__(attack, strengths, classes, todo)
        self.level += len(strengths) - 1
        self.round = torch.full_like(self.level, -1 if self.first else 0)
        self.attempt = self._attempt(self.attempt, self.round, self.level)

    def _attempt(self, bounding: Tensor, round_: Tensor, level: Tensor) -> Tensor:
        """Index of the run of a round at a strength; ``bounding``: that of the rounds before the first."""
        spread = self.first + level % max(self.targets, 1)
        after = torch.where(round_ == 0, spread, self.first + self.targets + round_ - 1)
        return torch.where(round_ < 0, bounding, after).clamp_max(len(self.attempts) - 1)

    def _rises(self, round_: Tensor) -> Tensor:
        return (round_ > 0) & (round_ % 2 == 0)

    def source(self, rows: Tensor) -> Tensor:
        level = self.level[rows]
        return torch.where(self._rises(self.round[rows]), (level - 1).clamp_min(0), level + 1)

    def advance(
        self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor, missed: Tensor | None = None
    ) -> None:
        top = torch.searchsorted(self.strengths * (1 + STRENGTH_TOLERANCE), best_size) - 1
        round_, bounding = self.round[rows], self.attempt[rows] + 1
        following = self.level[rows] + torch.where(self._rises(round_), 1, -1)
        over = torch.where(round_ < 0, bounding >= self.first, (following < 0) | (following > top))
        round_ = round_ + over.long()
        first = torch.where(self._rises(round_), 0, top.clamp_min(0))
        level = torch.where(over, first, torch.where(round_ < 0, self.level[rows], following))
        self.done[rows] = (round_ >= 0) & ((top < 0) | (round_ >= self.rounds))
        self.round[rows], self.level[rows] = round_, level
        self.attempt[rows] = self._attempt(bounding, round_, level)


SEARCHES: dict[Search, type[Schedule]] = {
    "every": Every,
    "bisection": Bisection,
    "descent": Descent,
    "frontier": Frontier,
    "minimum": Minimum,
}


def search_named(name: Search) -> type[Schedule]:
    """The schedule of a search."""
    return SEARCHES[name]


def settings_of(name: Search) -> dict[str, float | list[list[float]]]:
    """The constants of a search, on which its numbers depend."""
    return {"tolerance": STRENGTH_TOLERANCE} | SEARCHES[name].settings()
