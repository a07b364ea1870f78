"""What a plan costs at most."""

from robustatlas.attacks.search import Search, search_named
from robustatlas.attacks.search.plan import Plan
from robustatlas.attacks.search.rules import MostPasses, StopFruitless


def most_passes(plan: Plan, search: Search, strengths: int, classes: int, chooses: bool = False) -> int:
    """Forward and backward passes of a sample on which every run of ``plan`` comes to nothing and no rule ends one, at
    all strengths that its search visits then. ``chooses``: the threat model chooses among draws.

    >>> from robustatlas.attacks.catalogue import attack_named
    >>> [most_passes(plan, search, 20, classes=10) for search, plan in attack_named("fmn-l2").plans.items()]
    [204, 1016, 4061, 204]
    """
    runs = search_named(search).most_runs(plan, strengths, classes)
    made = sum(count * leg.most_passes(chooses) for count, leg in zip(runs, plan.legs, strict=True))
    return plan.passes_before(classes) + made


def limited_passes(plan: Plan, search: Search, strengths: int, classes: int, chooses: bool = False) -> int:
    """:func:`most_passes`, or as many as the rules of ``plan`` allow."""
    most, rule = most_passes(plan, search, strengths, classes, chooses), plan.rule(MostPasses)
    return most if rule is None else min(most, rule.passes)


def usual_passes(plan: Plan, search: Search, strengths: int, classes: int, chooses: bool = False) -> int:
    """Passes to count with for a sample of which nothing is known: restarts end after as many as the plan is patient,
    runs for samples that nothing broke are not made, and all others are.

    >>> from robustatlas.attacks.catalogue import attack_named
    >>> [usual_passes(attack_named("linf").plans[by], by, 20, classes=10) for by in ("descent", "minimum")]
    [343, 755]
    """
    runs, rule = search_named(search).most_runs(plan, strengths, classes), plan.rule(StopFruitless)
    left, made = sum(runs) if rule is None else rule.patience, plan.passes_before(classes)
    for count, leg in zip(runs, plan.legs, strict=True):
        if leg.role == "unbroken":
            continue
        taken = min(count, left) if leg.role == "restart" else count
        left -= taken * (leg.role == "restart")
        made += taken * leg.most_passes(chooses)
    return min(made, limited_passes(plan, search, strengths, classes, chooses))
