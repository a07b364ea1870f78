"""Attacks as people write them: names, suites, and ``file.py:ATTACK`` for one's own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from robustatlas.attacks.definition import Attack, ProtocolName
from robustatlas.attacks.suites import resolve_attacks
from robustatlas.common.errors import UserError
from robustatlas.models.sources.functions import object_named
from robustatlas.threats.perceptual import load_distance

PERCEPTUAL = "lpips"
"""The attack that compares images by the features of a network."""


def requested_attacks(names: Sequence[str], protocol: ProtocolName, features: str | None) -> list[str | Attack]:
    """Attacks for ``evaluate(attacks=...)``. ``names``: of the catalogue, of suites, or ``file.py:ATTACK``.
    ``protocol``: in which to look for ``lpips``. ``features``: what ``lpips`` compares images by, as
    ``ARCHITECTURE=FILE``; None for the model's own activations."""
    found: list[str | Attack] = [load_attack(name) if ".py:" in name else name for name in names]
    if features is None:
        return found
    every = {attack.name: attack for attack in resolve_attacks(found, protocol)}
    if PERCEPTUAL not in every:
        raise UserError(
            f"--features is for the attack {PERCEPTUAL}, which is not among the attacks {', '.join(every)}; name it "
            "in --attacks, or leave --features out."
        )
    with_features = _with_features(every[PERCEPTUAL], features)
    return [*(item for item in found if item != PERCEPTUAL), with_features]


def load_attack(name: str) -> Attack:
    """The attack that ``file.py:NAME`` names: an :class:`Attack`, or a function without arguments that returns one."""
    found = object_named(name)
    if callable(found) and not isinstance(found, Attack):
        try:
            found = found()
        except UserError:
            raise
        except Exception as error:
            raise UserError(
                f"{name!r} failed ({type(error).__name__}: {error}); it was called without arguments."
            ) from (error)
    if not isinstance(found, Attack):
        raise UserError(
            f"{name!r} is a {type(found).__name__}; expected a robustatlas.Attack, or a function that returns one."
        )
    return found


def _with_features(attack: Attack, features: str) -> Attack:
    threat: Any = attack.threat
    return replace(attack, threat=replace(threat, distance=load_distance(features)))
