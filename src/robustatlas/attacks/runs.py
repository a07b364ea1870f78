"""Runs as attacks usually take them. Each function makes the runs of one purpose; an attack gives their constants."""

from dataclasses import replace
from typing import Any

from robustatlas.attacks.search.plan import NEAREST, AttackRun, Search
from robustatlas.models.classifier.backward import Backward
from robustatlas.models.objectives import Objective
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.fmn import FMN
from robustatlas.optimizers.pgd import PGD

AnyOptimizer = Optimizer[Any]

ON_GRID: tuple[Search, ...] = ("bisection", "every")
"""Searches that look for an example at each strength of a grid."""
FRONTIER: tuple[Search, ...] = ("frontier",)

RESTARTS = 12
"""Most restarts of each kind; rules end them earlier.

Three kinds in turn in place of one: `l1` 2.4 to .5, `elastic` 1.6 to .7 points from the best known.
"""
FAR_KICK = 4.0
"""Distance by which a restart towards the nearest classes moves the smallest example, as a multiple of its size."""


def bound(optimizer: AnyOptimizer, classes: int = 1, objective: Objective = "margin") -> AttackRun:
    """Return minimum-size runs from the clean point towards the ``classes`` nearest classes."""
    return AttackRun(optimizer, objective, "bound", classes, targets="distance")


def restarts(optimizer: AnyOptimizer, kick: float, *, smoothed: bool = False) -> tuple[AttackRun, ...]:
    """Return restarts of three kinds from the smallest example moved by ``kick`` times its size.

    The first and the third kind go away from the true class by two objectives. Between them the second kind goes
    towards the nearest classes, is always moved far, and goes back through ``smoothed`` ReLUs if asked.
    """
    backward: Backward | None = "smoothed" if smoothed else None
    return (
        AttackRun(optimizer, "dlr", "restart", RESTARTS, start="best", kick=kick),
        AttackRun(
            optimizer, "margin", "restart", RESTARTS, targets="distance", start="best", kick=FAR_KICK,
            backward=backward,
        ),
        AttackRun(optimizer, "margin", "restart", RESTARTS, start="best", kick=kick),
    )  # fmt: skip


def targeted_ascents(optimizer: AnyOptimizer, classes: int = 1) -> AttackRun:
    """Return ascents of the margin towards the ``classes`` nearest classes."""
    return AttackRun(optimizer, "margin", count=classes, targets="distance", start="best")


def untargeted_ascents(
    optimizer: AnyOptimizer, starts: int = 1, objective: Objective = "cross-entropy", *, smoothed: bool = False
) -> AttackRun:
    """Return untargeted ascents from ``starts`` starts."""
    return AttackRun(optimizer, objective, count=starts, start="best", backward="smoothed" if smoothed else None)


def unbroken(optimizer: AnyOptimizer) -> AttackRun:
    """Return ascents for samples without any example, towards as many classes as AutoAttack targets."""
    return AttackRun(optimizer, "margin", "unbroken", NEAREST, targets="distance", start="best")


def refine(optimizer: AnyOptimizer) -> AttackRun:
    """Return a minimum-size run from the smallest example at the end."""
    return AttackRun(optimizer, "margin", "refine", start="best")


def grid_runs(*runs: AttackRun) -> tuple[AttackRun, ...]:
    """Return the runs for the searches on a grid of strengths alone."""
    return limit_to_searches(ON_GRID, *runs)


def limit_to_searches(searches: tuple[Search, ...], *runs: AttackRun) -> tuple[AttackRun, ...]:
    """Return the runs for ``searches`` alone."""
    return tuple(replace(run, searches=searches) for run in runs)


SWEEP = PGD(8, rate=1.0, schedule="cosine", momentum=0.5)
"""Steps of a sweep: the next strength begins at what this one found, so few are needed."""
BOUND_OF_SWEEPS = AttackRun(FMN(30), "margin", "bound", 4, targets="logits")
"""Bound of the strengths that a frontier search visits."""
SPREAD_TARGETS = 5
"""Targets that are shared out among the strengths before the sweeps."""


def sweeps(optimizer: AnyOptimizer = SWEEP, *bounds: AttackRun) -> tuple[AttackRun, ...]:
    """Return the runs of a frontier search.

    ``bounds`` (default: :data:`BOUND_OF_SWEEPS`) say which strengths are visited. An ascent towards five targets visits
    each strength once, then a sweep goes down and another one up.
    """
    spread = AttackRun(optimizer, "log-margin", "ascend", SPREAD_TARGETS, targets="logits")
    sweep = AttackRun(optimizer, "log-margin", "sweep", start="best")
    return limit_to_searches(FRONTIER, *(bounds or (BOUND_OF_SWEEPS,)), spread, sweep, sweep)
