"""The catalogue: every named attack."""

from __future__ import annotations

from functools import cache

from robustatlas.attacks.definition import Attack, Procedure
from robustatlas.attacks.image import image_attacks
from robustatlas.attacks.lp import lp_attacks
from robustatlas.errors import UserError


@cache
def catalogue(procedure: Procedure = "default") -> dict[str, Attack]:
    """All named attacks, by the default procedure or as their papers ran them.

    Example:
        >>> catalogue()["linf"].strengths[:3]
        (0.005, 0.01, 0.015)
    """
    return {attack.name: attack for attack in [*lp_attacks(procedure), *image_attacks(procedure)]}


def attack_named(name: str, procedure: Procedure = "default") -> Attack:
    """The attack of that name."""
    attacks = catalogue(procedure)
    if name not in attacks:
        raise UserError(
            f"Attack {name!r} is not known; 'robustatlas attacks' lists all, such as {', '.join(list(attacks)[:4])}."
        )
    return attacks[name]
