"""What a search does to a sample, as data: legs in their order, and the rules that end or skip some of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from robustatlas.attacks.search.rules import Role, Rule
from robustatlas.common.errors import UserError
from robustatlas.models.classifier.backward import Backward, check_backward
from robustatlas.models.objectives import MARGINS, Objective, check_objective, objective_recorded
from robustatlas.optimizers.base import Optimizer

Search = Literal["descent", "bisection", "every", "frontier", "minimum"]
"""What a search finds:

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
"""How many classes are ordered by their distance; as many as AutoAttack targets."""

MINIMUM_SIZE: frozenset[Role] = frozenset({"bound", "restart", "refine"})
"""Roles of runs for the smallest size, whatever the strength."""


@dataclass(frozen=True)
class Stage:
    """One optimizer with its objective: how a run goes.

    Attributes:
        optimizer: what moves theta.
        objective: what it raises.
        targets: None: untargeted; or the wrong class that each run goes towards: the next in the order of their
            ``"logits"`` or of the linearised ``"distance"`` to their boundary, or one drawn at ``"random"``.
        start: ``"random"``, ``"neutral"`` (the clean point), or ``"best"``: right after a success at that example,
            drawn into the set, otherwise at random (a minimum-size run: at the smallest example).
        judge: ``"best"`` iterate counts, or only the ``"last"`` (historical protocols).
        kick: a run for the smallest size begins at the smallest example, moved at random by so many times its size.
        backward: the gradient taken of input transformations (None: what the model says; see
            :mod:`robustatlas.models.defenses`).

    Raises:
        UserError: what cannot be, such as an optimizer without steps.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> Stage(PGD(20), "margin", targets="logits").start
        'random'
    """

    optimizer: Optimizer[Any]
    objective: Objective
    targets: Targets | None = None
    start: Start = "random"
    judge: Judge = "best"
    kick: float = 0.0
    backward: Backward | None = None

    def __post_init__(self) -> None:
        check_objective(self.objective)
        check_backward(self.backward)
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
        known = {"targets": (None, *get_args(Targets)), "start": get_args(Start), "judge": get_args(Judge)}
        for name, values in known.items():
            if getattr(self, name) not in values:
                raise UserError(
                    f"A stage got {name}={getattr(self, name)!r}; expected one of {', '.join(map(repr, values))}."
                )
        if self.kick and not (self.kick > 0 and self.start == "best" and self.optimizer.minimum_size):
            raise UserError(
                f"A stage got kick={self.kick}; expected a positive number, and only for a minimum-size attack with "
                "start='best'."
            )

    def described(self) -> dict[str, Any]:
        """For the record of a run."""
        return {"kind": "Stage"} | vars(self) | {"objective": objective_recorded(self.objective)}


@dataclass(frozen=True)
class Leg:
    """A stage, what it is for, and how often it runs.

    Attributes:
        stage: how a run goes.
        role: what it is for: ``"bound"``, ``"restart"``, ``"ascend"``, ``"unbroken"``, ``"refine"`` or ``"sweep"``.
        runs: towards so many classes where the stage is targeted, otherwise from so many starts.

    Raises:
        UserError: a role that the stage cannot have, no run, or several towards one random class.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> Leg(Stage(PGD(20), "margin", targets="logits"), "ascend", runs=3).runs_of(classes=3)
        2
    """

    stage: Stage
    role: Role = "ascend"
    runs: int = 1

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise UserError(f"A leg got role={self.role!r}; expected one of {', '.join(map(repr, get_args(Role)))}.")
        if not isinstance(self.runs, int) or self.runs < 1 or (self.stage.targets == "random" and self.runs > 1):
            raise UserError(
                f"A leg got runs={self.runs!r}; expected a whole number from 1 on, and 1 towards a random class."
            )
        optimizer = type(self.stage.optimizer).__name__
        if self.role in MINIMUM_SIZE and not self.stage.optimizer.minimum_size:
            raise UserError(
                f"{optimizer} cannot {self.role}: it looks for an example at a strength; use role='ascend', or an "
                "optimizer that looks for the smallest size, such as FMN."
            )
        if (self.role == "restart") != bool(self.stage.kick):
            raise UserError(f"A leg got role={self.role!r} with kick={self.stage.kick}; a kick is what restarts have.")

    def passes(self, evaluations: int) -> int:
        """Forward and backward passes of so many evaluations and of the one that verifies: those of the network itself,
        without what perceptual projections and attacks of other libraries ask besides."""
        return (1 + self.stage.optimizer.needs_gradient) * evaluations + 1

    def most_passes(self, chooses: bool = False) -> int:
        """:meth:`passes` of a run that goes on to its end; ``chooses``: for a threat model that chooses among draws."""
        return self.passes(self.stage.optimizer.evaluations + chooses)

    def runs_of(self, classes: int) -> int:
        """How often it runs on a model of so many classes."""
        return self.runs if self.stage.targets in (None, "random") else min(self.runs, classes - 1)


R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Plan:
    """What one search does to a sample.

    Everything that is made of a plan (a cheaper or stronger one, one bound to a model, its record, its cost, a table)
    is made by one walk over it, :meth:`map` or a loop over ``legs``.

    Attributes:
        legs: what runs, in order.
        rules: what ends or leaves out some of the runs, at most one of a kind.

    Raises:
        UserError: no legs, or two rules of one kind.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> from dataclasses import replace
        >>> plan = Plan((Leg(Stage(PGD(20), "margin")),))
        >>> [leg.stage.optimizer.steps for leg in plan.map(lambda leg: (leg, replace(leg, runs=2))).legs]
        [20, 20]
    """

    legs: tuple[Leg, ...]
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        kinds = [type(rule) for rule in self.rules]
        if not self.legs or len(set(kinds)) < len(kinds):
            raise UserError("A plan needs at least one leg, and at most one rule of a kind.")

    def map(
        self, legs: Callable[[Leg], Leg | Iterable[Leg]], rules: Callable[[Rule], Rule | None] = lambda rule: rule
    ) -> Plan:
        """The plan with each leg replaced by one or several, and each rule by another or none."""
        made = (legs(leg) for leg in self.legs)
        walked = tuple(each for one in made for each in ((one,) if isinstance(one, Leg) else one))
        return Plan(walked, tuple(rule for old in self.rules if (rule := rules(old)) is not None))

    def having(self, *roles: Role) -> tuple[Leg, ...]:
        """The legs of these roles."""
        return tuple(leg for leg in self.legs if leg.role in roles)

    def rule(self, kind: type[R]) -> R | None:
        """The rule of that kind, if the plan has one."""
        return next((rule for rule in self.rules if isinstance(rule, kind)), None)

    @property
    def smooths(self) -> bool:
        """Whether some of its runs go back through smoothed ReLUs."""
        return any(leg.stage.backward == "smoothed" for leg in self.legs)

    def passes_before(self, classes: int) -> int:
        """Forward and backward passes before the first run: the clean one, and those that order classes."""
        ordered = any(leg.stage.targets == "distance" for leg in self.legs)
        return 1 + ordered * (1 + min(NEAREST, classes - 1))

    @property
    def judges_last(self) -> bool:
        """Whether only the last iterate of a run counts (historical protocols)."""
        return any(leg.stage.judge == "last" for leg in self.legs)


def ruled(legs: Iterable[Leg], rules: Iterable[Rule]) -> Plan:
    """A plan of these legs with those of the ``rules`` that concern any of them."""
    taken = tuple(legs)
    roles = {leg.role for leg in taken}
    return Plan(taken, tuple(rule for rule in rules if rule.concerns(roles)))
