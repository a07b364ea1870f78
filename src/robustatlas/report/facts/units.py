"""What the strengths of an attack measure: as its run recorded it, or as the catalogue has it."""

from __future__ import annotations

from functools import cache


def unit_of(attack: str, recorded: str = "") -> str:
    """The unit of an attack's strengths; empty where neither the run nor the catalogue knows it.

    Example:
        >>> unit_of("mine", "metres"), unit_of("mine")
        ('metres', '')
    """
    return recorded or _catalogue().get(attack, "")


@cache
def _catalogue() -> dict[str, str]:
    from robustatlas.attacks.catalogue import catalogue  # here, as torch comes with it

    return {attack.name: attack.about.unit for attack in catalogue().values()}
