"""The attack of this package that an attack of one's own is held against: the default one on the same threat model."""

from __future__ import annotations

from typing import Any

from robustatlas.attacks.catalogue import ATTACKS, attack_named, catalogue
from robustatlas.attacks.definition import Attack
from robustatlas.attacks.description import to_plain_data
from robustatlas.common.errors import UserError
from robustatlas.outcomes.records import set_parameters
from robustatlas.threats.base import ThreatModel

_EXTERNAL = "robustatlas.optimizers.external"
_NOT_COMPARED = ("border", "distance")
"""Parameters that an evaluation sets itself: counterparts take those of the run."""


def counterpart_name(attack: Attack) -> str:
    """Return the name of this package's attack on the threat model of an attack of one's own.

    Empty for an attack of this package itself, and where the package has none on that threat model.

    Example:
        >>> from dataclasses import replace
        >>> ours = attack_named("linf")
        >>> counterpart_name(replace(ours, name="mine")), counterpart_name(ours)
        ('linf', '')
    """
    if _is_of_this_package(attack):
        return ""
    ours = (each for each in _package_attacks().values() if _parameters(each.threat) == _parameters(attack.threat))
    return next((each.name for each in ours), "")


def _package_attacks() -> dict[str, Attack]:
    """Return the attacks of the catalogue that no other package and no caller entered."""
    entered = [made for name, made in ATTACKS.load_usable().items() if name not in ATTACKS.builtin_names]
    others = {made.name for made in entered if isinstance(made, Attack)}
    return {name: attack for name, attack in catalogue().items() if name not in others and _has_own_parts(attack)}


def _has_own_parts(attack: Attack) -> bool:
    parts = [type(attack.threat), *(type(run.optimizer) for run in attack.runs)]
    return all(part.__module__.startswith("robustatlas.") and part.__module__ != _EXTERNAL for part in parts)


def _is_of_this_package(attack: Attack) -> bool:
    """Return if the name is one of this package's, those that it makes of several included, and so are all parts."""
    if not _has_own_parts(attack):
        return False
    if attack.name in _package_attacks():
        return True
    try:
        made = attack_named(attack.name)
    except UserError:
        return False
    return attack.name not in catalogue() and _has_own_parts(made)


def _parameters(threat: ThreatModel) -> dict[str, Any]:
    held = set_parameters(to_plain_data(threat))
    return {name: value for name, value in held.items() if name not in _NOT_COMPARED} if isinstance(held, dict) else {}
