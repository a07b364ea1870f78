"""Plans as they are usually made: legs in the order of their search, with the rules that concern them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from robustatlas.attacks.search import Search
from robustatlas.attacks.search.plan import NEAREST, Leg, Plan, Stage, ruled
from robustatlas.attacks.search.rules import (
    PATIENT,
    Approach,
    MostPasses,
    Role,
    Rule,
    StopFruitless,
    StopLaggingRuns,
    StopSlowAscents,
)
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.brendel_bethge import BrendelBethge
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD

Legs = Iterable[Leg]

DESCENT: tuple[Rule, ...] = (StopLaggingRuns(), StopSlowAscents(), StopFruitless())
"""The rules of the descent."""
MINIMUM: tuple[Rule, ...] = (*DESCENT, Approach())
"""The rules of the search for the smallest size."""

RESTARTS = 12
"""At most, by each objective; rules end them earlier."""
AGAIN = FMN(20, gamma=0.3)
"""What comes down again from a moved example: its size may fall fast."""
KICK = 4.0
"""How far restarts move the smallest example, as a multiple of its size."""
SEVERAL = 3
"""Nearest classes that runs go towards where one is not enough."""
AUTO_PGD_STEPS = 40
"""Of ascents by Auto-PGD, which looks back at its progress ever so often and needs some length for that; in the
coefficients of JPEG it takes more."""
_PATIENCE = StopFruitless()


def patient(rules: Iterable[Rule], patience: StopFruitless) -> tuple[Rule, ...]:
    """``rules`` with that one of its kind."""
    return tuple(patience if isinstance(rule, StopFruitless) else rule for rule in rules)


def legs(role: Role, *stages: Stage, runs: int = 1) -> tuple[Leg, ...]:
    """A leg of that role for each stage."""
    return tuple(Leg(stage, role, runs) for stage in stages)


def plans_of(*stages: Stage, runs: int = 1) -> dict[Search, Plan]:
    """The plans of an attack that is one stage, or a few one after the other, each run so often (at most).

    Descent and minimum bound by those that look for the smallest size, and ascend by the others.

    Args:
        stages: how a run goes, in order.
        runs: how often each runs: towards so many classes where it is targeted, otherwise from so many starts.

    Returns:
        a plan for each search that can be made of them, descent first.

    Example:
        >>> from robustatlas.optimizers.pgd import PGD
        >>> [leg.runs for leg in plans_of(Stage(PGD(20), "margin"), runs=3)["every"].legs]
        [3]
    """
    ascents = legs("ascend", *stages, runs=runs)
    bounds = [replace(leg, role="bound") for leg in ascents if leg.stage.optimizer.minimum_size]
    return plans(ascents, bounds, [leg for leg in ascents if not leg.stage.optimizer.minimum_size])


_LONGER = 2
"""Times as many restarts, of times as many steps, and times as patient, where the size itself is looked for."""


def _longer(leg: Leg) -> Leg:
    if leg.role != "restart":
        return leg
    stage = replace(leg.stage, optimizer=leg.stage.optimizer.lengthened(_LONGER))
    return replace(leg, stage=stage, runs=_LONGER * leg.runs)


def _longer_patience(rule: StopFruitless) -> StopFruitless:
    return replace(rule, patience=_LONGER * rule.patience, stubborn=_LONGER * rule.stubborn)


def plans(
    at_strength: Legs,
    bounds: Legs,
    below: Legs,
    *,
    patience: StopFruitless = _PATIENCE,
    most: MostPasses | None = None,
    frontier: Plan | None = None,
) -> dict[Search, Plan]:
    """The plans of an attack with a nested threat model, its descent first.

    Args:
        at_strength: what bisection and every try at a strength.
        bounds: legs that bound the size, by the descent and the search for the smallest size.
        below: what these do below the bound.
        patience: when runs for the smallest size end; the search for the smallest size waits longer.
        most: what a descent may cost (None: what it takes).
        frontier: the plan of that search; None: the attack does not have it.
    """
    downward, grid = (*bounds, *below), Plan(tuple(at_strength))
    descent = ruled(downward, (*patient(DESCENT, patience), *([most] if most else [])))
    made: dict[Search, Plan] = {"descent": descent, "bisection": grid, "every": grid}
    if frontier is not None:
        made["frontier"] = frontier
    made["minimum"] = ruled(map(_longer, downward), patient(MINIMUM, _longer_patience(patience)))
    return made


def ascents_of(below: Legs) -> tuple[Leg, ...]:
    """Those legs that every sample takes."""
    return tuple(leg for leg in below if leg.role == "ascend")


def bound(optimizer: Optimizer[Any], classes: int = 1) -> Leg:
    """Bounds towards so many of the nearest classes."""
    return Leg(Stage(optimizer, "margin", targets="distance"), "bound", classes)


def restarts(down: Optimizer[Any], kick: float = KICK) -> tuple[Leg, ...]:
    """Restarts of three kinds in turn, from the smallest example moved by ``kick`` times its size: by two objectives,
    and between these towards the nearest classes, always moved far."""
    stages = (
        Stage(down, "dlr", start="best", kick=kick),
        Stage(down, "margin", targets="distance", start="best", kick=KICK),
        Stage(down, "margin", start="best", kick=kick),
    )
    return legs("restart", *stages, runs=RESTARTS)


def two_kinds(towards: Optimizer[Any], away: Optimizer[Any], classes: int = 1, starts: int = 1) -> tuple[Leg, ...]:
    """Ascents of two kinds: by the margin towards the nearest classes, and away from the true one."""
    return (
        Leg(Stage(towards, "margin", targets="distance", start="best"), runs=classes),
        Leg(Stage(away, "cross-entropy", start="best"), runs=starts),
    )


def smoothed(leg: Leg) -> Leg:
    """The leg through smoothed ReLUs."""
    return replace(leg, stage=replace(leg.stage, backward="smoothed"))


def partly_smoothed(legs: Legs) -> tuple[Leg, ...]:
    """The legs, of which restarts towards the nearest classes, walks along the boundary and ascents on cross-entropy go
    back through smoothed ReLUs. All others keep the network's own gradient: one or two of each kind."""

    def smooths(leg: Leg) -> bool:
        towards = leg.role == "restart" and leg.stage.targets is not None
        return towards or isinstance(leg.stage.optimizer, BrendelBethge) or leg.stage.objective == "cross-entropy"

    return tuple(smoothed(leg) if smooths(leg) else leg for leg in legs)


def unbroken(towards: Optimizer[Any]) -> tuple[Leg, ...]:
    """For samples without any example: ascents by the margin towards as many nearest classes as AutoAttack targets."""
    return legs("unbroken", Stage(towards, "margin", targets="distance", start="best"), runs=NEAREST)


def as_published(*stages: Stage, bisected: bool = True) -> dict[Search, Plan]:
    """Plans of a published protocol: each strength by itself, and by bisection unless its authors never do."""
    plan = Plan(legs("ascend", *stages))
    return {"bisection": plan, "every": plan} if bisected else {"every": plan}


SWEEP = PGD(8, rate=1.0, schedule="cosine", momentum=0.5)
BOUND_OF_SWEEPS = Leg(Stage(FMN(), "margin", targets="logits"), "bound", 4)


def swept(bounds: Legs = (BOUND_OF_SWEEPS,), sweep: Optimizer[Any] = SWEEP) -> Plan:
    """The plan of a frontier search: bounds, an ascent towards five targets that are shared out among the strengths,
    and one sweep down and one up."""
    spread = Leg(Stage(sweep, "log-margin", targets="logits"), "ascend", 5)
    beside = Stage(sweep, "log-margin", start="best")
    return ruled((*bounds, spread, *legs("sweep", beside, beside)), (PATIENT,))
