"""What the strengths of an attack measure, whose they are, and which of them papers take."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from robustatlas.common.wording import listed
from robustatlas.outcomes.records import AttackRecord

STANDARD = {"linf": (8 / 255, "8/255"), "l2": (0.5, "0.5"), "l1": (12.0, "12")}
"""Attack -> the strength at which papers give its robust accuracy, and how they write it."""

NEAR = 0.1
"""A strength of a grid stands for a standard one up to this relative difference."""


def unit_of(attack: str, recorded: str = "") -> str:
    """The unit of an attack's strengths; empty where neither the run nor the catalogue knows it."""
    return recorded or _catalogue().get(attack, "")


def calibrations_of(records: Iterable[AttackRecord]) -> tuple[str, ...]:
    """A sentence on the attacks whose strengths are not those of a source.

    Example:
        >>> calibrations_of([AttackRecord(name="fog", strengths=(1.0,), calibrated="calibrated here")])
        ('Strengths of fog: calibrated here.',)
    """
    attacks: dict[str, dict[str, None]] = {}
    for record in records:
        if record.calibrated:
            attacks.setdefault(record.calibrated, {})[record.name] = None
    return tuple(f"Strengths of {listed([*names])}: {whose}." for whose, names in attacks.items())


@cache
def _catalogue() -> dict[str, str]:
    from robustatlas.attacks.catalogue import catalogue  # here, as torch comes with it

    return {attack.name: attack.about.unit for attack in catalogue().values()}
