"""Rules of a plan: which runs end early, which are left out, and where a search goes on.

A rule reads the sample alone, its own run and what was known when that began, so results do not depend on the rest of
the batch. The tables of docs/attacks.md have the runs and rules with their constants.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle
from robustatlas.common.errors import UserError
from robustatlas.common.host import cached
from robustatlas.models.objectives import margin_of
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem

Role = Literal["bound", "restart", "ascend", "unbroken", "refine", "press", "sweep"]
"""Purposes of runs, with the point where each begins:

- ``"bound"``: the smallest size, from the clean point.
- ``"restart"``: the same, from the smallest example, moved at random (basin hopping, Wales and Doye 1997).
- ``"ascend"``: an example at a strength.
- ``"unbroken"``: one at the largest strength, for samples of which no run before found any.
- ``"refine"``: the smallest size at the end, from the smallest example.
- ``"press"``: in a frontier search, an example at the largest strength that is not broken yet, before the sweeps.
- ``"sweep"``: an example at each strength in turn, from what was found at the strength beside it.
"""

MINIMUM_SIZE: frozenset[Role] = frozenset({"bound", "restart", "refine"})
"""Roles of runs for the smallest size, whatever the strength."""

Effort = Literal["low", "default", "high"]
"""Fewer passes, the usual ones, several times as many; what each costs is measured in the documentation (*Effort*)."""


@dataclass(frozen=True)
class Trace(Bundle):
    """Results of runs so far, each [B]. ``smallest``: the smallest size that was misclassified (inf: none). ``lowest``:
    the lowest margin of the logits. ``earlier``: that margin at the end of the run's last part, and ``fall`` how far it
    fell within that part. ``evaluations`` (int64): how many it took."""

    smallest: Tensor
    lowest: Tensor
    earlier: Tensor
    fall: Tensor
    evaluations: Tensor

    @classmethod
    def begin(cls, like: Tensor) -> Trace:
        """Return the traces of runs that begin, one for each number of ``like`` [B]."""
        never = torch.full_like(like, torch.inf)
        return cls(never, never, never, never, torch.zeros_like(like, dtype=torch.int64))

    def updated(self, evaluation: Evaluation, problem: Problem, step: Tensor, part: int) -> Trace:
        """Return the traces after evaluation number ``step`` [B] (from 0) of runs whose parts have ``part`` steps."""
        fooling = torch.where(evaluation.fooled, evaluation.size, torch.inf)
        lowest = torch.minimum(self.lowest, margin_of(evaluation.logits, problem.labels))
        ends = step % part == 0
        return Trace(
            smallest=torch.minimum(self.smallest, fooling),
            lowest=lowest,
            earlier=torch.where(ends, lowest, self.earlier),
            fall=torch.where(ends & (step > 0), self.earlier - lowest, self.fall),
            evaluations=step + 1,
        )


@dataclass(frozen=True)
class Rule(ABC):
    """Base of all rules: their constants are their fields.

    ``reason``: why it is there; ``source``: whose it is; ``version``: rises when the same constants mean something
    else.
    """

    version: ClassVar[int] = 1
    reason: ClassVar[str]
    source: ClassVar[str] = "chosen here"
    roles: ClassVar[Set[Role]]
    """Roles of the runs that it is about; a plan without any of them does without the rule."""

    def concerns(self, roles: Set[Role]) -> bool:
        """Return if it is about any run of a plan whose runs have these roles."""
        return bool(self.roles & roles)

    def scaled_to(self, effort: Effort) -> Rule | None:
        """Return the rule at an effort; None: it is left out."""
        return self


class EarlyStop(Rule):
    """Base of the rules that end a run before its last step."""

    def can_end(self, optimizer: Optimizer[Any]) -> bool:
        """Return if the rule may end runs by ``optimizer``; only then :meth:`ends` is asked.

        Runs without gradients always go on. Runs of several roles share a batch, so what counts is not the role of a
        run but its purpose: whether its optimizer looks for the smallest size, and whether any of ``roles`` does.
        """
        roles = self.roles & MINIMUM_SIZE if optimizer.minimum_size else self.roles - MINIMUM_SIZE
        return optimizer.needs_gradient and bool(roles)

    @abstractmethod
    def ends(self, trace: Trace, step: Tensor, optimizer: Optimizer[Any], known: Tensor) -> Tensor:
        """Return the runs [B] that end after evaluation number ``step`` [B] (from 0).

        Args:
            trace: results of the runs so far, this evaluation included.
            step: int64 [B].
            optimizer: one that the rule :meth:`can_end`.
            known: [B], the smallest size of each sample when its run began (inf: none).
        """

    @abstractmethod
    def earliest_end(self, optimizer: Optimizer[Any]) -> int:
        """Return the number of evaluations after which a run by ``optimizer`` may first end by this rule."""


@dataclass(frozen=True)
class StopLaggingRuns(EarlyStop):
    """A minimum-size run ends where it lags: with a share r of its steps left, no more than ``left``, it must have
    found something below 1 + ``times`` r^2 times the sample's smallest size.

    Example:
        >>> from robustatlas.optimizers.fmn import FMN
        >>> trace = replace(Trace.begin(torch.zeros(2)), smallest=torch.tensor([1.6, 1.4]))
        >>> StopLaggingRuns().ends(trace, torch.tensor([10, 10]), FMN(20), torch.ones(2)).tolist()
        [True, False]
    """

    reason: ClassVar[str] = "a run that far behind hardly ever ends below what is known"
    roles: ClassVar[Set[Role]] = frozenset({"bound", "restart", "refine"})

    times: float = 2.0
    left: float = 2 / 3

    def ends(self, trace: Trace, step: Tensor, optimizer: Optimizer[Any], known: Tensor) -> Tensor:
        ratio = cached(_ratios, self.times, self.left, optimizer.steps, like=known)[step.clamp_max(optimizer.steps)]
        return trace.smallest > ratio * known

    def earliest_end(self, optimizer: Optimizer[Any]) -> int:
        return optimizer.steps + 1 - int(self.left * optimizer.steps)

    def scaled_to(self, effort: Effort) -> Rule | None:
        return LENIENT if effort == "high" else self


LENIENT = StopLaggingRuns(times=4.0)
"""The rule that ends only runs that lag so far that hardly any would still gain."""


def _ratios(times: float, left: float, steps: int) -> Tensor:
    """``[steps + 1]``: the ratio that a minimum-size run of so many steps must keep to at each of its evaluations."""
    share = 1 - torch.arange(steps + 1, dtype=torch.float64) / max(steps, 1)
    return torch.where(share <= left, 1 + times * share**2, torch.inf)


@dataclass(frozen=True)
class StopSlowAscents(EarlyStop):
    """An ascent at a strength ends after one of its ``parts`` parts if its margin, falling in each that are left
    ``times`` as much as in this one, would not be zero at the end.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> lowest, fall = torch.tensor([0.5, 0.5]), torch.tensor([0.1, 0.4])
        >>> trace = replace(Trace.begin(lowest), lowest=lowest, fall=fall)
        >>> StopSlowAscents().ends(trace, torch.tensor([10, 10]), PGD(20), torch.ones(2)).tolist()
        [True, False]
    """

    reason: ClassVar[str] = "an ascent that slows down does not arrive"
    roles: ClassVar[Set[Role]] = frozenset({"ascend", "unbroken"})

    parts: int = 4
    times: float = 1.0

    def part_length(self, steps: int) -> int:
        """Return the number of steps in one part of a run of ``steps`` steps."""
        return max(1, steps // self.parts)

    def ends(self, trace: Trace, step: Tensor, optimizer: Optimizer[Any], known: Tensor) -> Tensor:
        part = self.part_length(optimizer.steps)
        left = (optimizer.steps - step) / part
        looked = (step % part == 0) & (step > 0) & (step < optimizer.steps)
        return looked & (trace.lowest > self.times * left * trace.fall)

    def earliest_end(self, optimizer: Optimizer[Any]) -> int:
        return self.part_length(optimizer.steps) + 1

    def scaled_to(self, effort: Effort) -> Rule | None:
        return None if effort == "high" else self


_HIGH = 3
"""Times as patient as usual at high effort."""


@dataclass(frozen=True)
class StopFruitless(Rule):
    """Restarts end when ``patience`` in a row (by default one of each kind) have found nothing smaller; a sample is
    stubborn once a run after the bounds did, and takes ``stubborn`` in a row. Smaller is, for a descent, within a
    smaller strength, and for the search for the smallest size by a share of ``threshold``. High effort is three times
    as patient."""

    reason: ClassVar[str] = "a sample that several kinds of runs in a row found nothing for is in its deepest valley"
    source: ClassVar[str] = "basin hopping (Wales and Doye 1997), as scipy.optimize.basinhopping's niter_success"
    roles: ClassVar[Set[Role]] = frozenset({"restart"})

    patience: int = 3
    stubborn: int = 8
    threshold: float = 0.01

    def __post_init__(self) -> None:
        if not 1 <= self.patience <= self.stubborn:
            raise UserError(
                f"StopFruitless got patience={self.patience} and stubborn={self.stubborn}; expected numbers of runs, "
                "at least one, and no fewer for stubborn samples."
            )

    def scaled_to(self, effort: Effort) -> Rule | None:
        return self.with_patience(_HIGH) if effort == "high" else self

    def with_patience(self, factor: int) -> StopFruitless:
        """Return the rule with ``factor`` times the patience."""
        return replace(self, patience=factor * self.patience, stubborn=factor * self.stubborn)


@dataclass(frozen=True)
class Approach(Rule):
    """The search for the smallest size ascends below the smallest example, at ``shares`` of its size, each until it
    fails: all kinds at the last share, the first alone at those before."""

    reason: ClassVar[str] = "large steps down are cheap, small ones at the end decide"
    roles: ClassVar[Set[Role]] = frozenset({"bound", "ascend"})

    shares: tuple[float, ...] = (0.9, 0.99)


@dataclass(frozen=True)
class MostPasses(Rule):
    """No run begins that could take a sample beyond so many forward and backward ``passes`` (of a randomised model: so
    many for each draw). High effort has no such limit.

    Example:
        >>> MostPasses(800).is_exceeded(torch.tensor([700, 780]), torch.tensor([41, 41])).tolist()
        [False, True]
    """

    reason: ClassVar[str] = "what is left of a stubborn sample by then is for high effort"
    roles: ClassVar[Set[Role]] = frozenset(get_args(Role))

    passes: int = 800

    def is_exceeded(self, made: Tensor, ahead: Tensor) -> Tensor:
        """``[B]``: ``made`` [B] passes and those of the whole run ``ahead`` [B] are too many."""
        return made + ahead > self.passes

    def scaled_to(self, effort: Effort) -> Rule | None:
        return None if effort == "high" else self


@dataclass(frozen=True)
class MostQueries(Rule):
    """A sample is left when the model was asked about it ``queries`` times, whatever runs are left of a plan; the last
    of them verifies what was found. Of models that can only be asked; every search goes by it.

    Example:
        >>> MostQueries(500).is_spent(torch.tensor([497, 498, 499, 500])).tolist()
        [False, False, True, True]
    """

    reason: ClassVar[str] = "what a model behind an API is asked takes time and costs money"
    roles: ClassVar[Set[Role]] = frozenset(get_args(Role))

    queries: int

    def is_spent(self, asked: Tensor) -> Tensor:
        """``[B]``: of so many queries ``asked`` [B], no more than the one that verifies is left."""
        return asked >= self.queries - 1

    def is_exceeded(self, asked: Tensor) -> Tensor:
        """``[B]``: no further run is worth its beginning: what it asks could not be verified."""
        return asked > self.queries - 2
