"""Schedules: a search says at which strength a sample is attacked next, and by which run of its plan.

The engine reports how each run ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.search.effort import longer, shorter
from robustatlas.attacks.search.plan import AttackRun, Plan, relevant_rules
from robustatlas.attacks.search.rules import (
    MINIMUM_SIZE,
    EarlyStop,
    Effort,
    MostPasses,
    MostQueries,
    Role,
    Rule,
    StopSlowAscents,
)
from robustatlas.common.bundle import Tree, put, select, take
from robustatlas.common.errors import UserError


@dataclass
class SharedExamples:
    """Examples of N samples at S strengths.

    ``theta`` [N * (S + 1)]: that of the lowest margin within each strength and not within the one below.
    """

    theta: Tree

    @classmethod
    def begin(cls, like: Tree, rows: int, columns: int, device: torch.device) -> SharedExamples:
        """Return the examples before the first run: ``like`` of ``rows`` samples, for each of the ``columns``."""
        return cls(take(like, torch.arange(rows, device=device).repeat_interleave(columns)))

    def add(self, place: Tensor, theta: Tree, lower: Tensor) -> None:
        """``theta`` of samples and strengths at ``place`` [B], each another one; ``lower`` [B]: counts."""
        put(self.theta, place, select(lower, theta, take(self.theta, place)))

    def lowest(self, margins: Tensor, rows: Tensor, source: Tensor) -> Tree:
        """The parameters of the lowest of ``margins`` [B, S + 1] of ``rows`` [B] within strength ``source`` [B]."""
        beyond = torch.arange(margins.shape[1], device=rows.device) > source[:, None]
        column = margins.masked_fill(beyond, torch.inf).argmin(1)
        return take(self.theta, rows * margins.shape[1] + column)


@dataclass(frozen=True)
class Attempt:
    """One execution of a run of the plan: ``number`` says towards which of its targets or from which of its starts."""

    run: AttackRun
    number: int


class Schedule(ABC):
    """Strength and run that come next for each of N samples.

    Of each sample, [N]: ``level`` (int64), index of the strength, of ``levels``; ``attempt`` (int64), index into
    ``attempts``; ``done``; and ``warm``: the last run found something, from which the next may start.

    Of each attempt, [A]: ``kind_of``, index into ``kinds``; ``run_of``, index into the plan's runs, or -1 where it
    only goes on from what another found; ``number_of``; and ``bounds``: it looks for the smallest size.

    Of the whole: ``early_stops`` are the rules that end runs early. ``slow_ascents`` is the rule that says after how
    many steps their margin is noted. ``query_limit`` and ``pass_limit`` limit what a sample may cost. ``shared`` is
    what a search remembers of its runs besides the smallest example. ``chooses``: the threat model chooses among its
    draws, so that a run that begins anew makes one evaluation more.

    Args:
        plan: what it carries out; see :meth:`check`.
        strengths: ``[S]``, increasing.
        classes: of the model.
        todo: bool ``[N]``: the samples that are attacked.
        monotone: what is broken at one strength counts as broken at all larger ones.
    """

    version: ClassVar[int] = 1
    """Rises when the same plan is carried out in another way."""
    order: ClassVar[tuple[Set[Role], ...]] = (frozenset({"ascend"}),)
    """Roles of its runs, those of one group before those of the next."""
    reads: ClassVar[tuple[type[Rule], ...]] = ()
    """Kinds of rules that it obeys."""
    rules: ClassVar[tuple[Rule, ...]] = ()
    """Usual rules, with their constants."""
    on_grid: ClassVar[bool] = True
    """Runs are at the strengths themselves; otherwise ``level`` is something else."""
    shares: ClassVar[bool] = False
    """It keeps an example for each strength."""

    shared: SharedExamples | None = None
    chooses: bool = False

    def __init__(self, plan: Plan, strengths: Tensor, classes: int, todo: Tensor, *, monotone: bool = True) -> None:
        self.strengths, self.levels, self.monotone = strengths, len(strengths), monotone
        self.attempts = self.ordered_attempts(plan, classes)
        settings = [attempt.run.settings for attempt in self.attempts]
        self.kinds = list(dict.fromkeys(settings))
        self.kind_of = torch.tensor([self.kinds.index(each) for each in settings], device=todo.device)
        runs = [-1 if a.run.role == "refine" else plan.runs.index(a.run) for a in self.attempts]
        self.run_of = torch.tensor(runs, device=todo.device)
        self.number_of = torch.tensor([a.number for a in self.attempts], device=todo.device)
        self.bounds = torch.tensor([a.run.role in MINIMUM_SIZE for a in self.attempts], device=todo.device)
        self.slow_ascents = plan.rule(StopSlowAscents) or StopSlowAscents()
        self.query_limit, self.pass_limit = plan.rule(MostQueries), plan.rule(MostPasses)
        self.early_stops = tuple(rule for rule in plan.rules if isinstance(rule, EarlyStop))
        self.level = torch.zeros_like(todo, dtype=torch.int64)
        self.attempt = torch.zeros_like(self.level)
        self.done = ~todo
        self.warm = torch.zeros_like(todo)

    @classmethod
    def check(cls, plan: Plan) -> None:
        """Raise :class:`UserError` unless this search can carry out ``plan``."""
        groups = [next((k for k, group in enumerate(cls.order) if run.role in group), -1) for run in plan.runs]
        if -1 in groups or groups != sorted(groups):
            expected = ", then ".join(" or ".join(repr(role) for role in sorted(group)) for group in cls.order)
            found = ", ".join(repr(run.role) for run in plan.runs)
            raise UserError(f"{cls.__name__} takes runs with the roles {expected}, and got {found}.")
        if unread := [type(rule).__name__ for rule in plan.rules if not cls.can_obey(rule)]:
            known = ", ".join(rule.__name__ for rule in cls.reads) or "none"
            raise UserError(f"{cls.__name__} does not obey {unread[0]}; its rules are: {known}.")

    @classmethod
    def can_obey(cls, rule: Rule) -> bool:
        """Return if it obeys rules of that kind; every search obeys a limit of queries."""
        return isinstance(rule, (*cls.reads, MostQueries))

    @classmethod
    def plan(
        cls, name: str, runs: Sequence[AttackRun], rules: Sequence[Rule], effort: Effort, *, usual_rules: bool = True
    ) -> Plan:
        """Derive the plan of this search from the runs of an attack.

        Args:
            name: the search, as runs name it.
            runs: all runs of the attack.
            rules: rules of the attack; each replaces the usual one of its kind, or joins them if the search reads it.
            effort: shortens or repeats the runs.
            usual_rules: False: only ``rules``.
        """
        chosen = cls.select_runs(name, runs)
        if effort == "low":
            chosen = tuple(shorter(run) for run in chosen)
        elif effort == "high":
            chosen = cls.intensified(chosen, tuple(longer(run) for run in chosen))
        made = [rule.scaled_to(effort) for rule in cls.select_rules(rules, cls.rules if usual_rules else ())]
        return Plan(chosen, relevant_rules(chosen, (rule for rule in made if rule is not None)))

    @classmethod
    def select_runs(cls, name: str, runs: Sequence[AttackRun]) -> tuple[AttackRun, ...]:
        """Return the runs that name this search, or else those that name no search and have a role that it knows."""
        if naming := tuple(run for run in runs if name in run.searches):
            return naming
        roles = frozenset[Role]().union(*cls.order)
        return tuple(run for run in runs if not run.searches and run.role in roles)

    @classmethod
    def select_rules(cls, own: Sequence[Rule], usual: Sequence[Rule]) -> list[Rule]:
        """Return the ``usual`` rules, replaced by the attack's ``own`` of their kind, and its others that are read."""
        replaced = {type(rule): rule for rule in own}
        kinds = {type(rule) for rule in usual}
        joining = [rule for rule in own if type(rule) not in kinds and cls.can_obey(rule)]
        return [*(replaced.get(type(rule), rule) for rule in usual), *joining]

    @classmethod
    def ordered_attempts(cls, plan: Plan, classes: int) -> list[Attempt]:
        """Return all attempts of a plan, in order."""
        return attempts_of(plan.runs, classes)

    @classmethod
    def runs_at_most(cls, plan: Plan, strengths: int, classes: int) -> list[int]:
        """Return how often each run is made on a sample on which all come to nothing."""
        return [run.runs_among(classes) for run in plan.runs]

    @classmethod
    def intensified(cls, runs: Sequence[AttackRun], longer: Sequence[AttackRun]) -> tuple[AttackRun, ...]:
        """Return the runs of high effort; ``longer``: each of ``runs`` with more steps and executions."""
        return tuple(each for pair in zip(runs, longer, strict=True) for each in dict.fromkeys(pair))

    def begin(self, theta: Tree) -> None:  # noqa: B027 - most searches remember nothing
        """Before the first run; ``theta``: the parameters that the N samples begin with."""

    def charge(self, rows: Tensor, evaluations: Tensor) -> None:  # noqa: B027 - most searches are done when they are
        """Samples ``rows`` ended a run, of so many ``evaluations`` [B] (where a rule of the plan asks for them);
        :meth:`advance` follows."""

    def source(self, rows: Tensor) -> Tensor:
        """Index of the strength within which the start of each run lies; the number of strengths: anywhere."""
        return self.level[rows]

    def epsilon(self, rows: Tensor, best_size: Tensor) -> Tensor:
        """The strength of the run that comes next of each of ``rows``; ``best_size``: their smallest so far."""
        return self.strengths[self.level[rows]]

    @abstractmethod
    def advance(self, rows: Tensor, fooled: Tensor, best_size: Tensor, reached: Tensor) -> None:
        """Samples ``rows`` ended a run; ``fooled``: with a verified example at their strength; ``best_size``: their
        smallest so far; ``reached``: the smallest size of that run (inf: none)."""


def attempts_of(runs: Sequence[AttackRun], classes: int) -> list[Attempt]:
    """Return all attempts of ``runs``, in order."""
    return [Attempt(run, number) for run in runs for number in range(run.runs_among(classes))]
