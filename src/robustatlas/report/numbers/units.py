"""Units of the strengths of an attack (as its run or the catalogue has it), and whose strengths they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

from robustatlas.common.wording import join_words
from robustatlas.outcomes.records import AttackRecord

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
    return tuple(f"Strengths of {join_words([*names])}: {whose}." for whose, names in attacks.items())


@cache
def _catalogue() -> Mapping[str, Attack]:
    from robustatlas.attacks.catalogue import catalogue  # here, as torch comes with it

    return catalogue()
