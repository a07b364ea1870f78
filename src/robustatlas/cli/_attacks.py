"""The attacks that a command is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from robustatlas.cli._options import names_in

if TYPE_CHECKING:
    from robustatlas.attacks.definition import Attack, ProtocolName
    from robustatlas.models.classifier import Classifier


def named(given: str | None, model: Classifier) -> list[str]:
    """The names that are given, with commas between them, or those of the attacks that suit the model."""
    from robustatlas.attacks.suites import default_attacks

    return list(default_attacks(model)) if given is None else names_in(given)


def chosen(names: list[str], protocol: ProtocolName, features: str | None) -> list[str | Attack]:
    """:func:`robustatlas.attacks.wanted.wanted_attacks`; torch comes with it, and help need not wait for that."""
    from robustatlas.attacks.wanted import wanted_attacks

    return wanted_attacks(names, protocol, features)
