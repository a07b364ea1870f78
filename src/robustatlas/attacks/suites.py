"""Suites: named sets of attacks, each with the strengths and procedure of its source."""

from __future__ import annotations

from collections.abc import Sequence

from robustatlas.attacks.catalogue import CATALOGUE, Procedure, attack_named
from robustatlas.attacks.definition import Attack
from robustatlas.errors import UserError

SUITES: dict[str, tuple[str, ...]] = {
    "lp": ("linf", "l2", "l1", "l0"),
}


def attacks_of(given: str | Attack | Sequence[str | Attack], procedure: Procedure = "default") -> list[Attack]:
    """The attacks behind names of the catalogue, names of suites and :class:`Attack` objects."""
    if procedure not in ("default", "paper"):
        raise UserError(f"procedure={procedure!r} is not known; expected 'default' or 'paper'.")
    items = [given] if isinstance(given, (str, Attack)) else list(given)
    if not items:
        raise UserError("No attacks are given; expected at least one, such as 'linf'.")
    found: list[Attack] = []
    for item in items:
        if isinstance(item, Attack):
            found.append(item)
        elif item in SUITES:
            found += [attack_named(name, procedure) for name in SUITES[item]]
        elif item in CATALOGUE:
            found.append(attack_named(item, procedure))
        else:
            raise UserError(
                f"Attack {item!r} is not known; expected one of {', '.join(CATALOGUE)}, or a suite: {', "
                f"'.join(SUITES)}. "
                "'robustatlas attacks' describes each."
            )
    return found
