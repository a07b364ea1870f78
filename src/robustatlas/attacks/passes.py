"""What a plan costs at most."""

from __future__ import annotations

from robustatlas.search import Search, search_named
from robustatlas.search.plan import NEAREST, Leg, Plan


def passes_of_a_run(leg: Leg) -> int:
    """Forward and backward passes of a sample in one run that finds something at its end: those of the network itself,
    without what perceptual projections and attacks of other libraries ask besides."""
    optimizer = leg.stage.optimizer
    return (1 + optimizer.needs_gradient) * optimizer.evaluations + 1


def most_passes(plan: Plan, search: Search, strengths: int, classes: int) -> int:
    """Forward and backward passes of a sample on which every run of ``plan`` comes to nothing, at all the strengths
    that its search visits then.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> [most_passes(plan, search, 20, classes=10) for search, plan in attack_named("fmn-l2").plans.items()]
        [203, 1015, 4060, 203]
    """
    runs = search_named(search).most_runs(plan, strengths, classes)
    ordering = 1 + min(NEAREST, classes - 1) if any(leg.stage.targets == "distance" for leg in plan.legs) else 0
    return ordering + sum(count * passes_of_a_run(leg) for count, leg in zip(runs, plan.legs, strict=True))
