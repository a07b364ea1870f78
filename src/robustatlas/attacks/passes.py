"""What a plan costs at most."""

from __future__ import annotations

from robustatlas.attacks.search import Search, search_named
from robustatlas.attacks.search.plan import Plan
from robustatlas.attacks.search.rules import MostPasses


def most_passes(plan: Plan, search: Search, strengths: int, classes: int, chooses: bool = False) -> int:
    """Forward and backward passes of a sample on which every run of ``plan`` comes to nothing, at all the strengths
    that its search visits then, and no rule ends them; ``chooses``: for a threat model that chooses among draws.

    Example:
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
