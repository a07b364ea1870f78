"""Runs of an attack, and the plan that a search derives from them: runs in their order, and rules that end some."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeVar, get_args

from robustatlas.attacks.search.rules import MINIMUM_SIZE, Role, Rule
from robustatlas.common.errors import UserError
from robustatlas.models.classifier.backward import Backward, check_backward
from robustatlas.models.objectives import MARGINS, Objective, check_objective, objective_code
from robustatlas.optimizers.base import Optimizer

Search = Literal["descent", "bisection", "every", "frontier", "minimum"]
"""Names of the searches, by what each finds:

- ``"descent"``: whole curves for about the price of one point.
- ``"bisection"``: smallest strengths, by MultiRobustBench's protocol.
- ``"every"``: examples at each strength by itself.
- ``"frontier"``: the lowest margin at every strength.
- ``"minimum"``: the smallest size, without a grid of strengths.
"""

Targets = Literal["logits", "distance", "random"]
Start = Literal["random", "neutral", "best"]
Judge = Literal["best", "last"]
NEAREST = 9
"""Number of classes that are ordered by their distance; AutoAttack targets as many (Croce and Hein 2020)."""


@dataclass(frozen=True)
class AttackRun:
    """One kind of run: an optimizer with its objective, its role, and how often it runs.

    Attributes:
        optimizer: moves theta.
        objective: is raised by the optimizer.
        role: the purpose of the run: ``"bound"``, ``"restart"``, ``"ascend"``, ``"unbroken"``, ``"refine"`` or
            ``"sweep"``.
        count: number of runs: towards as many classes if the run is targeted, otherwise from as many starts.
        targets: None: untargeted; or the wrong class that each run goes towards: the next in the order of their
            ``"logits"`` or of the linearised ``"distance"`` to their boundary, or one drawn at ``"random"``.
        start: ``"random"``, ``"neutral"`` (the clean point), or ``"best"``: right after a success at that example,
            drawn into the set, otherwise at random (a minimum-size run: at the smallest example).
        judge: the ``"best"`` iterate counts, or only the ``"last"`` (historical protocols).
        kick: a restart begins at the smallest example, moved at random by ``kick`` times its size.
        backward: the gradient taken of input transformations (None: what the model says; see
            :mod:`robustatlas.models.defenses`).
        searches: the searches that take the run. A search takes the runs that name it; if none does, those that name
            no search.

    Raises:
        UserError: a setting that cannot be, such as an optimizer without steps or a role that it cannot have.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> AttackRun(PGD(20), "margin", targets="logits", count=3).runs_among(classes=3)
        2
    """

    optimizer: Optimizer[Any]
    objective: Objective
    role: Role = "ascend"
    count: int = 1
    targets: Targets | None = None
    start: Start = "random"
    judge: Judge = "best"
    kick: float = 0.0
    backward: Backward | None = None
    searches: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_objective(self.objective)
        check_backward(self.backward)
        self._check_optimizer()
        known = {
            "role": get_args(Role), "targets": (None, *get_args(Targets)), "start": get_args(Start),
            "judge": get_args(Judge),
        }  # fmt: skip
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise UserError(
                    f"A run got {name}={getattr(self, name)!r}; expected one of {', '.join(map(repr, values))}."
                )
        if not isinstance(self.count, int) or self.count < 1 or (self.targets == "random" and self.count > 1):
            raise UserError(
                f"A run got count={self.count!r}; expected a whole number from 1 on, and 1 towards a random class."
            )
        if self.kick and not (self.kick > 0 and self.start == "best" and self.optimizer.minimum_size):
            raise UserError(
                f"A run got kick={self.kick}; expected a positive number, and only for a minimum-size attack with "
                "start='best'."
            )
        if (self.role == "restart") != bool(self.kick):
            raise UserError(f"A run got role={self.role!r} with kick={self.kick}; restarts have a kick, others none.")

    def _check_optimizer(self) -> None:
        optimizer = type(self.optimizer).__name__
        if self.optimizer.needs_margin and self.objective not in MARGINS:
            raise UserError(
                f"{optimizer} needs an objective that is zero at the decision boundary, and got {self.objective!r}; "
                "use 'margin'."
            )
        if self.optimizer.steps < self.optimizer.fewest_steps:
            raise UserError(
                f"{optimizer} got steps={self.optimizer.steps}; expected at least {self.optimizer.fewest_steps}."
            )
        if self.role in MINIMUM_SIZE and not self.optimizer.minimum_size:
            raise UserError(
                f"{optimizer} cannot {self.role}: it looks for an example at a strength; use role='ascend', or an "
                "optimizer that looks for the smallest size, such as FMN."
            )

    def to_record(self) -> dict[str, Any]:
        """Return the settings that determine numbers, for the record of an evaluation."""
        settings = {name: value for name, value in vars(self).items() if name != "searches"}
        return {"kind": "AttackRun"} | settings | {"objective": objective_code(self.objective)}

    @property
    def settings(self) -> AttackRun:
        """The run without its role and its count; runs of equal settings share a batch."""
        return replace(self, role="restart" if self.kick else "ascend", count=1, searches=())

    def passes(self, evaluations: int) -> int:
        """Return forward and backward passes of ``evaluations`` evaluations and of the one that verifies.

        Passes inside of perceptual projections and of attacks of other libraries come on top.
        """
        return (1 + self.optimizer.needs_gradient) * evaluations + 1

    def maximal_passes(self, chooses: bool = False) -> int:
        """Return :meth:`passes` of a run that goes on to its end; ``chooses``: the threat model chooses among draws."""
        return self.passes(self.optimizer.evaluations + chooses)

    def runs_among(self, classes: int) -> int:
        """Return the number of runs on a model of ``classes`` classes."""
        return self.count if self.targets in (None, "random") else min(self.count, classes - 1)

    def include_strengths(self, strengths: tuple[float, ...]) -> Self:
        """Return the run of an attack that is reported at ``strengths``."""
        optimizer = self.optimizer.include_strengths(strengths)
        return self if optimizer is self.optimizer else replace(self, optimizer=optimizer)

    def lengthened(self, factor: float) -> Self:
        """Return the run with ``factor`` times the steps."""
        return replace(self, optimizer=self.optimizer.lengthened(factor))


R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Plan:
    """Runs of one search on a sample, in order, and the rules that end or leave out some of them.

    :meth:`robustatlas.Attack.plan` derives it; nothing stores one.

    Attributes:
        runs: in the order in which they are tried.
        rules: at most one of a kind.

    Raises:
        UserError: no runs, or two rules of one kind.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> Plan((AttackRun(PGD(20), "margin"),)).first("ascend").optimizer.steps
        20
    """

    runs: tuple[AttackRun, ...]
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        kinds = [type(rule) for rule in self.rules]
        if not self.runs or len(set(kinds)) < len(kinds):
            raise UserError("A plan needs at least one run, and at most one rule of a kind.")

    def runs_in(self, *roles: Role) -> tuple[AttackRun, ...]:
        """Return the runs of these roles."""
        return tuple(run for run in self.runs if run.role in roles)

    def first(self, role: Role) -> AttackRun:
        """Return the first run of a role."""
        return self.runs_in(role)[0]

    def rule(self, kind: type[R]) -> R | None:
        """Return the rule of that kind, if the plan has one."""
        return next((rule for rule in self.rules if isinstance(rule, kind)), None)

    @property
    def has_smoothed_runs(self) -> bool:
        """True if some runs go back through smoothed ReLUs."""
        return any(run.backward == "smoothed" for run in self.runs)

    def passes_before(self, classes: int) -> int:
        """Return the passes before the first run: the clean one, and those that order classes by distance."""
        ordered = any(run.targets == "distance" for run in self.runs)
        return 1 + ordered * (1 + min(NEAREST, classes - 1))


def relevant_rules(runs: Iterable[AttackRun], rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return those of ``rules`` that concern the role of any of ``runs``."""
    roles = {run.role for run in runs}
    return tuple(rule for rule in rules if rule.concerns(roles))
