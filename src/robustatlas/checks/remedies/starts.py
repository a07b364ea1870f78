"""Other starts: an attack whose runs begin elsewhere in the threat model, where the clean sample has no gradient."""

from __future__ import annotations

from dataclasses import replace

from robustatlas.attacks.definition import Attack

RUNS = 4
"""Ascents of a sample, each from a start of its own."""


def from_random_starts(attack: Attack) -> Attack:
    """The attack with all runs that begin at the clean sample begun at random points of the set, and more ascents.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> plan = from_random_starts(attack_named("linf")).plans["descent"]
        >>> {leg.stage.start for leg in plan.legs if leg.role == "bound"}
        {'random'}
    """
    plans = {}
    for search, plan in attack.plans.items():
        legs = []
        for leg in plan.legs:
            stage = replace(leg.stage, start="random") if leg.stage.start == "neutral" else leg.stage
            untargeted = leg.role == "ascend" and stage.targets is None
            legs.append(replace(leg, stage=stage, runs=max(leg.runs, RUNS) if untargeted else leg.runs))
        plans[search] = replace(plan, legs=tuple(legs))
    return replace(attack, plans=plans)
