"""The searches from above: minimum-size runs bound the size of a sample, then ascents work below it until they fail."""

from abc import abstractmethod
from itertools import accumulate
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.search.base import Attempt, Schedule, attempts_of
from robustatlas.attacks.search.plan import Plan
from robustatlas.attacks.search.rules import Approach, MostPasses, Rule, StopFruitless, StopLaggingRuns, StopSlowAscents
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE


class Downward(Schedule):
    """Base of both searches from above. Bounds come first, then restarts from the smallest example until some in a row
    have found nothing, then ascents until each kind has failed. Where the bounds found no example, restarts wait until
    an ascent has.

    Indices of ``attempts``: ``again``, the first restart; ``first``, the first ascent; ``unbroken``, the first that
    only samples without an example take; ``last``, the first that refines.

    Of each sample, [N]: ``smallest``, its smallest size when its last run ended; ``in_vain``, how many runs in a row
    after the bounds found nothing smaller; ``stubborn``: one of them did; ``spent``, passes.

    Of each attempt, [A]: ``each``, the passes of one evaluation; ``dear``, those of a whole run and of all that refine.
    """

    order = (
        frozenset({"bound"}),
        frozenset({"restart"}),
        frozenset({"ascend"}),
        frozenset({"unbroken"}),
        frozenset({"refine"}),
    )
    reads: ClassVar[tuple[type[Rule], ...]] = (StopLaggingRuns, StopSlowAscents, StopFruitless, MostPasses)

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        runs = [len(attempts_of(plan.having(*group), classes)) for group in self.order]
        self.again, self.first, self.unbroken, self.last, _ = accumulate(runs)
        self.fruitless = plan.rule(StopFruitless)
        self.smallest = torch.full_like(self.level, torch.inf, dtype=strengths.dtype)
        self.in_vain, self.stubborn = torch.zeros_like(self.level), torch.zeros_like(todo)
        self.spent = torch.full_like(self.level, plan.passes_before(classes))
        refined = sum(attempt.leg.most_passes() for attempt in self.attempts[self.last :])
        self.each, self.dear = torch.tensor(
            [[a.leg.passes(1) - 1, a.leg.most_passes() + refined] for a in self.attempts], device=todo.device
        ).T

    @classmethod
    def runs(cls, plan: Plan, classes: int) -> list[Attempt]:
        """Restarts of several legs take turns."""
        made = attempts_of(plan.legs, classes)
        turns = sorted((a for a in made if a.leg.role == "restart"), key=lambda attempt: attempt.number)
        first = sum(a.leg.role == "bound" for a in made)
        return [*made[:first], *turns, *made[first + len(turns) :]]

    def charge(self, rows: Tensor, evaluations: Tensor) -> None:
        self.spent[rows] += self.each[self.attempt[rows]] * evaluations + 1

    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        before = self.attempt[rows]
        bounding, refining = before < self.first, before >= self.last
        attempt = before + (bounding | refining | ~fooled).long()
        first_example = self.smallest[rows].isinf() & best_size.isfinite()
        enough = self._enough(rows, best_size)
        if self.again < self.first < self.last:
            enough |= (attempt >= self.again) & best_size.isinf()
            attempt = torch.where(~bounding & first_example, self.again, attempt)
        attempt = torch.where(bounding & enough, attempt.clamp_min(self.first), attempt)
        attempt = self._taken(attempt, best_size)
        self.warm[rows] = fooled | bounding
        attempt, settled = self._below_bounds(rows, attempt, best_size, (attempt >= self.first) & ~refining)
        settled |= self._all_found(best_size) & (attempt >= self.again) & ~refining
        settled |= self._too_dear(rows, attempt) & (attempt < self.last)
        attempt = torch.where(settled, self.last, attempt)
        self.done[rows] = (settled & best_size.isinf()) | (attempt >= len(self.attempts))
        self.attempt[rows] = attempt.clamp_max(len(self.attempts) - 1)

    def _taken(self, attempt: Tensor, best_size: Tensor) -> Tensor:
        """``[B]``: ``attempt`` [B], or the first after it that such a sample takes."""
        meant = best_size.isinf() | (attempt < self.unbroken)
        return torch.where(meant, attempt, attempt.clamp_min(self.last))

    def _enough(self, rows: Tensor, best_size: Tensor) -> Tensor:
        """``[B]``: so many runs in a row have found nothing that no more for the smallest size follow."""
        gained, rule = self._gained(best_size, self.smallest[rows]), self.fruitless
        after_bounds = self.attempt[rows] >= self.again
        self.smallest[rows] = best_size
        self.in_vain[rows] = in_vain = torch.where(gained, 0, self.in_vain[rows] + after_bounds)
        self.stubborn[rows] |= gained & after_bounds
        if rule is None:
            return torch.zeros_like(gained)
        return in_vain >= torch.where(self.stubborn[rows], rule.stubborn, rule.patience)

    def _too_dear(self, rows: Tensor, attempt: Tensor) -> Tensor:
        """``[B]``: the ``attempt`` [B] that comes next could, with what refines at the end, take more passes than
        allowed."""
        if self.budget is None:
            return torch.zeros_like(attempt, dtype=torch.bool)
        coming = attempt.clamp_max(len(self.attempts) - 1)
        return self.budget.over(self.spent[rows], self.dear[coming] + self.chooses * self.each[coming])

    @abstractmethod
    def _gained(self, best_size: Tensor, before: Tensor) -> Tensor:
        """``[B]``: ``best_size`` [B] is smaller than the one ``before`` [B] by so much that it counts."""

    def _all_found(self, best_size: Tensor) -> Tensor:
        """``[B]``: nothing smaller than ``best_size`` [B] is asked for."""
        return torch.zeros_like(best_size, dtype=torch.bool)

    @abstractmethod
    def _below_bounds(
        self, rows: Tensor, attempt: Tensor, best_size: Tensor, ascending: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``[B]``: the attempt that comes next, and ``[B]``: those of the ``ascending`` [B] samples that are through;
        the level of each is set. ``attempt`` [B]: what would come next, at the same strength."""


class Descent(Downward):
    """From above: minimum-size attacks bound the size, then ascents of several kinds work just below it until all fail.

    A success at any strength is the next bound, and the run goes on from that example drawn into the set of the next
    strength below. What is within the smallest strength is settled. At the end the legs that refine go on from the
    smallest example.
    """

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        self.level += len(strengths) - 1

    def _below(self, size: Tensor) -> Tensor:
        """``[B]``: index of the largest strength below ``size`` [B]; -1: there is none."""
        return torch.searchsorted(self.strengths * (1 + STRENGTH_TOLERANCE), size) - 1

    def _gained(self, best_size: Tensor, before: Tensor) -> Tensor:
        """Within a smaller strength, or the first at all."""
        return (self._below(best_size) < self._below(before)) | (best_size.isfinite() & before.isinf())

    def _all_found(self, best_size: Tensor) -> Tensor:
        return self._below(best_size) < 0

    def _below_bounds(
        self, rows: Tensor, attempt: Tensor, best_size: Tensor, ascending: Tensor
    ) -> tuple[Tensor, Tensor]:
        below = torch.minimum(self._below(best_size), self.level[rows])
        self.level[rows] = torch.where(ascending, below, len(self.strengths) - 1).clamp_min(0)
        return attempt, ascending & (attempt >= self.last)


class Minimum(Downward):
    """The smallest size of each sample, whatever the strengths.

    As the descent, but the ascents work a little below the smallest example itself: first far below by the first kind,
    then, where that fails, nearer by all (:class:`~robustatlas.attacks.search.rules.Approach`).
    """

    on_grid = False
    reads = (*Downward.reads, Approach)

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        shares = (plan.rule(Approach) or Approach()).shares
        self.levels = len(shares)
        self.below = torch.tensor(shares, dtype=strengths.dtype, device=todo.device)

    @classmethod
    def most_runs(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        runs, roles = super().most_runs(plan, strengths, classes), [leg.role for leg in plan.legs]
        if "ascend" in roles:
            runs[roles.index("ascend")] += len((plan.rule(Approach) or Approach()).shares) - 1
        return runs

    def epsilon(self, rows: Tensor, best_size: Tensor) -> Tensor:
        below = best_size * self.below[self.level[rows]]
        return torch.where(self.bounds[self.attempt[rows]] | best_size.isinf(), self.strengths[-1], below)

    def _gained(self, best_size: Tensor, before: Tensor) -> Tensor:
        threshold = 0.0 if self.fruitless is None else self.fruitless.threshold
        return best_size < (1 - threshold) * before

    def _below_bounds(
        self, rows: Tensor, attempt: Tensor, best_size: Tensor, ascending: Tensor
    ) -> tuple[Tensor, Tensor]:
        finest = self.levels - 1
        level = torch.where(ascending, torch.where(best_size.isinf(), finest, self.level[rows]), 0)
        nearer = ascending & (level < finest) & (attempt > self.first)
        self.warm[rows] |= nearer
        self.level[rows] = level + nearer.long()
        return torch.where(nearer, self.first, attempt), ascending & (level == finest) & (attempt >= self.last)
