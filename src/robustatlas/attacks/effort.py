"""How hard an attack tries: the one rule by which its plans become cheaper or stronger."""

from dataclasses import replace
from typing import get_args

from robustatlas.attacks.definition import Attack, Effort, Search
from robustatlas.attacks.search import search_named
from robustatlas.attacks.search.plan import Leg, Plan
from robustatlas.common.errors import check_among

_LESS = 0.6
"""Of the steps, and of the targets or restarts, of a leg at low effort."""

_MORE = 2
"""Times the steps, and times the targets or starts, of what high effort adds to a leg."""


def at_effort(attack: Attack, effort: Effort) -> Attack:
    """``attack`` with fewer passes (``"low"``), as it is, or with several times as many (``"high"``).

    Low effort shortens each leg and leaves targets or restarts out. High effort runs each leg once more with twice the
    steps, towards twice the targets, or from two more random points; each rule says what becomes of it. What has no
    steps to scale stays as it is.
    """
    check_among("effort", effort, get_args(Effort))
    if effort == "default":
        return attack

    def scaled(search: Search, plan: Plan) -> Plan:
        ruled = plan.map(_shorter if effort == "low" else _longer, lambda rule: rule.at_effort(effort))
        return ruled if effort == "low" else replace(ruled, legs=search_named(search).intensified(plan, ruled.legs))

    return replace(attack, plans={search: scaled(search, plan) for search, plan in attack.plans.items()})


def _stepping(leg: Leg, factor: float) -> Leg:
    return replace(leg, stage=replace(leg.stage, optimizer=leg.stage.optimizer.lengthened(factor)))


def _shorter(leg: Leg) -> Leg:
    fewer = leg.stage.targets in ("logits", "distance") or leg.role == "restart"
    return replace(_stepping(leg, _LESS), runs=max(1, round(_LESS * leg.runs)) if fewer else leg.runs)


def _longer(leg: Leg) -> Leg:
    """With more steps; and more runs, where these begin at another point or go towards another class."""
    longer, stage = _stepping(leg, _MORE), leg.stage
    if longer == leg or not stage.optimizer.needs_gradient or stage.targets == "random":
        return longer
    if leg.role in ("restart", "sweep") or (stage.start == "neutral" and not stage.optimizer.minimum_size):
        return longer
    if stage.optimizer.minimum_size and stage.targets is None:  # begins at the clean point: classes tell runs apart
        longer = replace(longer, stage=replace(longer.stage, targets="logits"))
    return replace(longer, runs=_MORE * leg.runs)
