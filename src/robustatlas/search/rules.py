"""The rules of a plan: which runs end early, which are left out, and where it goes on. One class each.

A rule goes by the sample alone, by its own run and by what was known when that began, so the result of a sample does
not depend on the others of its batch. How each was chosen stands in docs/searches.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from robustatlas.bundle import Bundle
from robustatlas.errors import UserError
from robustatlas.host import cached
from robustatlas.objectives import margin_of
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem

Role = Literal["bound", "restart", "ascend", "close", "resume", "refine", "sweep"]
"""``"bound"``: for the smallest size, from the clean point; ``"restart"``: the same from the smallest example, moved at
random (basin hopping, Wales and Doye 1997); ``"ascend"``: at a strength; ``"close"``: the same by another kind of
attack, only just below a bound; ``"resume"``: at a strength, from where the run that failed by least came nearest;
``"refine"``: for the smallest size, from the smallest example, at the end; ``"sweep"``: at each strength in turn, from
what was found at the one beside it."""

Effort = Literal["low", "default", "high"]
"""Fewer passes, the usual ones, several times as many; what each costs is measured in the documentation (*Effort*)."""


@dataclass(frozen=True)
class Trace(Bundle):
    """What a run has come to.

    ``smallest`` [B]: the smallest size that was misclassified (inf: none); ``lowest`` [B]: the lowest margin of the
    logits; ``earlier`` [B]: that at the end of the last part of the run, ``fall`` [B] what it fell within that part.
    """

    smallest: Tensor
    lowest: Tensor
    earlier: Tensor
    fall: Tensor

    @classmethod
    def none(cls, like: Tensor) -> Trace:
        """Of runs that begin, one for each number of ``like`` [B]."""
        never = torch.full_like(like, torch.inf)
        return cls(never, never, never, never)

    def after(self, evaluation: Evaluation, problem: Problem, step: Tensor, part: int) -> Trace:
        """What it is after evaluation number ``step`` [B] (from 0) of a run whose parts have ``part`` steps."""
        fooling = torch.where(evaluation.fooled, evaluation.size, torch.inf)
        lowest = torch.minimum(self.lowest, margin_of(evaluation.logits, problem.labels))
        ends = step % part == 0
        return Trace(
            smallest=torch.minimum(self.smallest, fooling),
            lowest=lowest,
            earlier=torch.where(ends, lowest, self.earlier),
            fall=torch.where(ends & (step > 0), self.earlier - lowest, self.fall),
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
    """Of the legs that it says something about."""

    def concerns(self, roles: Set[Role]) -> bool:
        """Whether it has anything to say in a plan whose legs have these roles."""
        return bool(self.roles & roles)

    def at_effort(self, effort: Effort) -> Rule | None:
        """What it becomes at an effort; None: it is left out."""
        return self


class EarlyStop(Rule):
    """Base of the rules that end a run before its last step."""

    @abstractmethod
    def ends(self, trace: Trace, step: Tensor, optimizer: Optimizer[Any], known: Tensor) -> Tensor:
        """``[B]``: the runs that end after evaluation number ``step`` [B] (from 0), where the smallest size of their
        samples was ``known`` [B] when they began. Searches without gradients always go on."""


@dataclass(frozen=True)
class StopLaggingRuns(EarlyStop):
    """A minimum-size run ends where it lags: ``behind`` are pairs (share, ratio) of rising shares and falling ratios;
    from that share of its steps on it must have found something below ``ratio`` times the sample's smallest size.

    Example:
        >>> from robustatlas.optimizers.fmn import FMN
        >>> trace = replace(Trace.none(torch.zeros(2)), smallest=torch.tensor([1.3, 1.05]))
        >>> StopLaggingRuns(((0.5, 1.1),)).ends(trace, torch.tensor([10, 10]), FMN(20), torch.ones(2)).tolist()
        [True, False]
    """

    reason: ClassVar[str] = "a run that far behind hardly ever ends below what is known"
    roles: ClassVar[Set[Role]] = frozenset({"bound", "restart", "refine"})

    behind: tuple[tuple[float, float], ...] = ((1 / 3, 1.8), (1 / 2, 1.4), (2 / 3, 1.2), (3 / 4, 1.1), (5 / 6, 1.03))

    def ends(self, trace: Trace, step: Tensor, optimizer: Optimizer[Any], known: Tensor) -> Tensor:
        if not (optimizer.needs_gradient and optimizer.minimum_size):
            return torch.zeros_like(step, dtype=torch.bool)
        ratio = cached(_ratios, self.behind, optimizer.steps, like=known)[step.clamp_max(optimizer.steps)]
        return trace.smallest > ratio * known

    def at_effort(self, effort: Effort) -> Rule | None:
        return PATIENT if effort == "high" else self


PATIENT = StopLaggingRuns(((1 / 3, 2.5), (1 / 2, 1.7), (2 / 3, 1.3), (3 / 4, 1.15), (5 / 6, 1.05)))
"""Ends only runs that lag so far that hardly any would still gain."""


def _ratios(behind: tuple[tuple[float, float], ...], steps: int) -> Tensor:
    """``[steps + 1]``: the ratio that a minimum-size run of so many steps must keep to at each of its evaluations."""
    due = [(round(share * steps), ratio) for share, ratio in behind]
    ratios = [min((ratio for at, ratio in due if step >= at), default=math.inf) for step in range(steps + 1)]
    return torch.tensor(ratios, dtype=torch.float64)


@dataclass(frozen=True)
class StopSlowAscents(EarlyStop):
    """An ascent at a strength ends after one of its ``parts`` parts if its margin, falling in each that are left
    ``times`` as much as in this one, would not be zero at the end.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> lowest, fall = torch.tensor([0.5, 0.5]), torch.tensor([0.1, 0.4])
        >>> trace = replace(Trace.none(lowest), lowest=lowest, fall=fall)
        >>> StopSlowAscents().ends(trace, torch.tensor([10, 10]), PGD(20), torch.ones(2)).tolist()
        [True, False]
    """

    reason: ClassVar[str] = "an ascent that slows down does not arrive"
    roles: ClassVar[Set[Role]] = frozenset({"ascend", "close", "resume"})

    parts: int = 4
    times: float = 1.0

    def part(self, steps: int) -> int:
        """Steps of a part, of a run of so many."""
        return max(1, steps // self.parts)

    def ends(self, trace: Trace, step: Tensor, optimizer: Optimizer[Any], known: Tensor) -> Tensor:
        if optimizer.minimum_size or not optimizer.needs_gradient:
            return torch.zeros_like(step, dtype=torch.bool)
        part = self.part(optimizer.steps)
        left = (optimizer.steps - step) / part
        looked = (step % part == 0) & (step > 0) & (step < optimizer.steps)
        return looked & (trace.lowest > self.times * left * trace.fall)

    def at_effort(self, effort: Effort) -> Rule | None:
        return None if effort == "high" else self


@dataclass(frozen=True)
class SkipAgreeingKinds(Rule):
    """Where minimum-size attacks of two kinds come to the same size, up to a share of ``within``, the remaining ones
    are left out, but for the last ``restarts`` restarts (None: all of them)."""

    reason: ClassVar[str] = "where two kinds of attack end at one size, a third one rarely ends below"
    roles: ClassVar[Set[Role]] = frozenset({"bound"})

    within: float = 0.003
    restarts: int | None = 1

    def at_effort(self, effort: Effort) -> Rule | None:
        return None if effort == "high" else self


@dataclass(frozen=True)
class StopRestarts(Rule):
    """Restarts end when ``patience`` in a row have found nothing that is smaller by a share of ``threshold``; high
    effort is three times as patient."""

    reason: ClassVar[str] = "a sample that several restarts found nothing for is in its deepest valley"
    source: ClassVar[str] = "basin hopping (Wales and Doye 1997), as scipy.optimize.basinhopping's niter_success"
    roles: ClassVar[Set[Role]] = frozenset({"restart"})

    patience: int = 4
    threshold: float = 0.003

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise UserError(f"StopRestarts got patience={self.patience}; expected a number of restarts, at least one.")

    def at_effort(self, effort: Effort) -> Rule | None:
        return replace(self, patience=3 * self.patience) if effort == "high" else self


@dataclass(frozen=True)
class AscentsByRatio(Rule):
    """The descent makes few ascents at a strength far below the bound: ``runs`` are pairs (ratio of strength to bound,
    number of runs below it), and from ``close`` on the legs that close follow."""

    reason: ClassVar[str] = "ascents far below a bound almost never succeed, those just below it in two of three cases"
    roles: ClassVar[Set[Role]] = frozenset({"ascend", "close"})

    runs: tuple[tuple[float, int], ...] = ((0.5, 1), (0.75, 2), (0.85, 3))
    close: float = 0.9


@dataclass(frozen=True)
class Approach(Rule):
    """The search for the smallest size ascends below the smallest example: ``steps`` are pairs (share of its size,
    number of runs; None: all), each tried until it fails."""

    reason: ClassVar[str] = "large steps down are cheap, small ones at the end decide"
    roles: ClassVar[Set[Role]] = frozenset({"bound", "ascend"})

    steps: tuple[tuple[float, int | None], ...] = ((0.9, 1), (0.97, 2), (0.99, None))


@dataclass(frozen=True)
class NearMisses(Rule):
    """Where all ascents at a strength fail, but one left no more than ``within`` of the clean margin, the legs that
    resume go on from there."""

    reason: ClassVar[str] = "what failed by little is the best start there is"
    roles: ClassVar[Set[Role]] = frozenset({"resume"})

    within: float = 0.1


@dataclass(frozen=True)
class MostQueries(Rule):
    """A sample is left when the model was asked about it ``queries`` times, whatever runs are left of a plan; the last
    of them verifies what was found. Of models that can only be asked; every search goes by it.

    Example:
        >>> MostQueries(500).spent(torch.tensor([497, 498, 499, 500])).tolist()
        [False, False, True, True]
    """

    reason: ClassVar[str] = "what a model behind an API is asked takes time and costs money"
    roles: ClassVar[Set[Role]] = frozenset(get_args(Role))

    queries: int

    def spent(self, asked: Tensor) -> Tensor:
        """``[B]``: of so many queries ``asked`` [B], no more than the one that verifies is left."""
        return asked >= self.queries - 1

    def over(self, asked: Tensor) -> Tensor:
        """``[B]``: no further run is worth its beginning: what it asks could not be verified."""
        return asked > self.queries - 2
