"""How hard an attack tries: the one rule by which its stages become fewer or more."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, get_args

from robustatlas.attacks.definition import Attack, Effort, Stage
from robustatlas.errors import UserError

_LESS = 0.6
"""Of the steps, and of the targets or hops, of a stage at low effort."""

_MORE = 2
"""Times the steps, and times the targets or restarts, of what high effort adds to a stage."""

_PATIENT = 3
"""Times the hops that may find nothing before high effort ends them."""


def at_effort(attack: Attack, effort: Effort) -> Attack:
    """``attack`` with fewer passes (``"low"``), as it is, or with several times as many (``"high"``).

    Low effort shortens each stage and leaves targets or hops out. High effort keeps each stage, and runs it once more
    with twice the steps towards twice the targets, or, without targets, from two more random points (or by as many
    hops, which end after three times as many fruitless ones). What has no steps to scale (a single look, attacks of
    other libraries) stays as it is.

    Raises:
        UserError: no such effort.

    Example:
        >>> from robustatlas.attacks.catalogue import attack_named
        >>> for effort in ("low", "default", "high"):
        ...     stages = at_effort(attack_named("l1"), effort).descent
        ...     print([(stage.optimizer.steps, stage.targets) for stage in stages])
        [(18, 1)]
        [(30, 2)]
        [(30, 2), (60, 4)]
    """
    if effort not in get_args(Effort):
        raise UserError(f"effort={effort!r} is not known; expected one of {', '.join(map(repr, get_args(Effort)))}.")
    if effort == "default":
        return attack

    def scaled(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        if effort == "low":
            return tuple(_shorter(stage) for stage in stages)
        patient = (replace(stage, fruitless=_PATIENT * stage.fruitless) if stage.kick else stage for stage in stages)
        return tuple(each for stage in patient for each in dict.fromkeys((stage, _longer(stage))))

    return replace(
        attack,
        effort=effort,
        stages=scaled(attack.stages),
        bound=scaled(attack.bound),
        descent=None if attack.descent is None else scaled(attack.descent),
        closing=scaled(attack.closing),
        polish=scaled(attack.polish),
        minimum=None if attack.minimum is None else scaled(attack.minimum),
        frontier=_frontier(attack.frontier_stages, effort),
    )


def _frontier(stages: tuple[Stage, ...], effort: Effort) -> tuple[Stage, ...]:
    """Those of the frontier search, whose rounds have an order: high effort lengthens each, and goes down and up once
    more."""
    if effort == "low":
        return tuple(_shorter(stage) for stage in stages)
    longer = tuple(_longer(stage) for stage in stages)
    return (*longer, *(stage for stage in longer if stage.start == "best" and not stage.kick))


def _shorter(stage: Stage) -> Stage:
    fewer = max(1, round(_LESS * stage.targets)) if isinstance(stage.targets, int) and stage.targets else stage.targets
    hops = max(1, round(_LESS * stage.restarts)) if stage.kick else stage.restarts
    return replace(_stepping(stage, _LESS), targets=fewer, restarts=hops)


def _longer(stage: Stage) -> Stage:
    longer = _stepping(stage, _MORE)
    if longer == stage or not stage.optimizer.needs_gradient or stage.targets == "random":
        return longer
    if stage.kick:
        return longer
    if stage.targets or stage.optimizer.minimum_size:  # the latter begin at the clean point, so targets tell them apart
        return replace(longer, targets=_MORE * max(stage.targets, 1))
    return longer if stage.start in ("neutral", "missed") else replace(longer, restarts=_MORE * stage.restarts)


def _stepping(stage: Stage, factor: float) -> Stage:
    """``stage`` with ``factor`` times the steps, if its optimizer has any."""
    optimizer: Any = stage.optimizer
    name = next((each.name for each in fields(optimizer) if each.name in ("steps", "inner_steps")), None)
    if name is None or not getattr(optimizer, name):
        return stage
    steps = max(optimizer.fewest_steps, round(factor * getattr(optimizer, name)))
    return replace(stage, optimizer=replace(optimizer, **{name: steps}))
