"""What the strengths of an attack measure (as its run or the catalogue has it), and which one is the usual one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from robustatlas.common.standard import STANDARD
from robustatlas.common.wording import listed
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.strengths import position_of

if TYPE_CHECKING:
    from robustatlas.attacks.definition import Attack


def unit_of(attack: str, recorded: str = "") -> str:
    """The unit of an attack's strengths; empty where neither the run nor the catalogue knows it."""
    known = None if recorded else _catalogue().get(attack)
    return known.about.unit if known else recorded


def calibrations_of(records: Iterable[AttackRecord]) -> tuple[str, ...]:
    """A sentence on the attacks whose strengths are not those of a source.

    >>> calibrations_of([AttackRecord(name="fog", strengths=(1.0,), calibrated="calibrated here")])
    ('Strengths of fog: calibrated here.',)
    """
    attacks: dict[str, dict[str, None]] = {}
    for record in records:
        if record.calibrated:
            attacks.setdefault(record.calibrated, {})[record.name] = None
    return tuple(f"Strengths of {listed([*names])}: {whose}." for whose, names in attacks.items())


def usual_strength(outcome: Outcome) -> float | None:
    """The strength at which an attack is usually measured: the one that papers give, else the middle one of the
    catalogue, on large images or on small ones; None where the outcome says nothing of it.

    >>> from robustatlas.results.result import Result
    >>> run = Result.from_arrays([0], [0], {"l2": [1.0], "mine": [0.2]}, {"l2": [0.1, 1.0], "mine": [0.3]})
    >>> usual_strength(run.outcome("l2")), usual_strength(run.outcome("mine"))
    (0.5, None)
    """
    if outcome.attack in STANDARD:
        known = [STANDARD[outcome.attack][0]]
    else:
        attack = _catalogue().get(outcome.attack)
        grids = [] if attack is None else [attack.strengths, (attack.small or attack).strengths]
        known = [grid[(len(grid) - 1) // 2] for grid in grids]
    grid = outcome.strengths.tolist()
    reached = (each for each in known if outcome.monotone and each <= grid[-1] * (1 + 1e-6))
    return next((each for each in known if position_of(each, grid) is not None), next(reached, None))


@cache
def _catalogue() -> Mapping[str, Attack]:
    from robustatlas.attacks.catalogue import catalogue  # here, as torch comes with it

    return catalogue()
