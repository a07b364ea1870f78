"""Passes that a plan may cost."""

from robustatlas.attacks.search import Search, search_named
from robustatlas.attacks.search.plan import Plan
from robustatlas.attacks.search.rules import MostPasses, StopFruitless


def maximal_passes(plan: Plan, search: Search, strengths: int, classes: int, chooses: bool = False) -> int:
    """Return the passes of a sample on which every run of ``plan`` comes to nothing and no rule ends one.

    They are forward and backward passes at all strengths that the search visits then. ``chooses``: the threat model
    chooses among draws.

    >>> from robustatlas.attacks.catalogue import attack_named
    >>> attack = attack_named("fmn-l2")
    >>> [maximal_passes(attack.plan(search), search, 20, classes=10) for search in attack.searches]
    [204, 1016, 4061, 204]
    """
    runs = search_named(search).runs_at_most(plan, strengths, classes)
    made = sum(count * run.maximal_passes(chooses) for count, run in zip(runs, plan.runs, strict=True))
    return plan.passes_before(classes) + made


def limited_passes(plan: Plan, search: Search, strengths: int, classes: int, chooses: bool = False) -> int:
    """Return :func:`maximal_passes`, or as many as the rules of ``plan`` allow."""
    most, rule = maximal_passes(plan, search, strengths, classes, chooses), plan.rule(MostPasses)
    return most if rule is None else min(most, rule.passes)


def expected_passes(plan: Plan, search: Search, strengths: int, classes: int, chooses: bool = False) -> int:
    """Return the passes to count with for a sample of which nothing is known.

    Restarts end after as many as the plan is patient, runs for unbroken samples are not made, and all others are.

    >>> from robustatlas.attacks.catalogue import attack_named
    >>> [expected_passes(attack_named("linf").plan(by), by, 20, classes=10) for by in ("descent", "minimum")]
    [343, 755]
    """
    runs, rule = search_named(search).runs_at_most(plan, strengths, classes), plan.rule(StopFruitless)
    left, made = sum(runs) if rule is None else rule.patience, plan.passes_before(classes)
    for count, run in zip(runs, plan.runs, strict=True):
        if run.role == "unbroken":
            continue
        taken = min(count, left) if run.role == "restart" else count
        left -= taken if run.role == "restart" else 0
        made += taken * run.maximal_passes(chooses)
    return min(made, limited_passes(plan, search, strengths, classes, chooses))
