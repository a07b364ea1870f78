"""The search for the lowest margin at every strength, for the adversarial hypervolume."""

from collections.abc import Sequence

import torch
from torch import Tensor

from robustatlas.attacks.search.base import Attempt, Schedule, SharedExamples, attempts_of
from robustatlas.attacks.search.plan import AttackRun, Plan
from robustatlas.attacks.search.rules import LENIENT, StopLaggingRuns
from robustatlas.common.bundle import Tree
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE


class FrontierSearch(Schedule):
    """The lowest margin at every strength, for the adversarial hypervolume.

    Minimum-size attacks say up to which strength a sample holds out, and runs that press on try just below it until
    each has failed, as the ascents of a descent do. Then its strengths are gone through several times: first each from
    a random start towards a target of its own; then down, each from what was found at the strength above, and up, from
    the one below. So the best example of any strength reaches all. Minimum-size attacks that lag far are stopped;
    ascents never, whose margins count wherever they end.

    ``bounding_ends``, ``first``: index of the first attempt that presses on, and of the first that visits all
    strengths.
    """

    shares = True
    order = (frozenset({"bound", "restart"}), frozenset({"press"}), frozenset({"ascend"}), frozenset({"sweep"}))
    reads = (StopLaggingRuns,)
    rules = (LENIENT,)

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        super().__init__(plan, strengths, classes, todo, monotone=monotone)
        bounds, pressing, spread, sweeps = (plan.runs_in(*group) for group in self.order)
        self.bounding_ends, self.targets = len(attempts_of(bounds, classes)), len(attempts_of(spread, classes))
        self.first = self.bounding_ends + len(attempts_of(pressing, classes))
        self.rounds = bool(spread) + len(sweeps)
        self.level += len(strengths) - 1
        self.round = torch.full_like(self.level, -1 if self.first else 0)
        self.attempt = self._attempt(self.attempt, self.round, self.level)
        # Runs begin at the best example of a strength beside theirs; only those that press on begin at random at first.
        self.warm |= self.first == 0 or self.bounding_ends > 0

    def begin(self, theta: Tree) -> None:
        self.shared = SharedExamples.begin(theta, len(self.done), len(self.strengths) + 1, self.done.device)

    @classmethod
    def ordered_attempts(cls, plan: Plan, classes: int) -> list[Attempt]:
        shared_out = attempts_of([run for run in plan.runs if run.role != "sweep"], classes)
        return [*shared_out, *(Attempt(run, 0) for run in plan.runs_in("sweep"))]

    @classmethod
    def runs_at_most(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        return [strengths if run.role in ("ascend", "sweep") else run.runs_among(classes) for run in plan.runs]

    @classmethod
    def intensified(cls, runs: Sequence[AttackRun], longer: Sequence[AttackRun]) -> tuple[AttackRun, ...]:
        """Return the longer runs and one more sweep down and up: rounds have an order."""
        return (*longer, *(run for run in longer if run.role == "sweep"))

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

    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        top = torch.searchsorted(self.strengths * (1 + STRENGTH_TOLERANCE), best_size) - 1
        round_, attempt = self.round[rows], self.attempt[rows]
        # A run that pressed on with success is made again, below its example.
        again = (round_ < 0) & (attempt >= self.bounding_ends) & fooled
        bounding = attempt + (~again).long()
        following = self.level[rows] + torch.where(self._rises(round_), 1, -1)
        presses = (round_ < 0) & (bounding >= self.bounding_ends) & (bounding < self.first) & (top >= 0)
        stays_bounding = (bounding < self.bounding_ends) | presses
        over = torch.where(round_ < 0, ~stays_bounding, (following < 0) | (following > top))
        round_ = round_ + over.long()
        first = torch.where(self._rises(round_), 0, top.clamp_min(0))
        before = torch.where(presses, top, self.level[rows])
        level = torch.where(over, first, torch.where(round_ < 0, before, following))
        self.warm[rows] = ~presses | again
        self.done[rows] = (round_ >= 0) & ((top < 0) | (round_ >= self.rounds))
        self.round[rows], self.level[rows] = round_, level
        self.attempt[rows] = self._attempt(bounding, round_, level)
