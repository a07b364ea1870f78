"""Several attacks of the catalogue as one: their parts are applied in order and optimised together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from robustatlas.attacks.definition import Attack, AttackInfo, grid
from robustatlas.attacks.image import ascending
from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import real
from robustatlas.outcomes.strengths import LARGEST_STRENGTH
from robustatlas.threats.compose import Compose, carben
from robustatlas.threats.perceptual import Perceptual

JOINT = "+"
"""Between the names of the parts: ``recolor+stadv+linf``."""

_CARBEN = "carben"


def composed(name: str, threat: Compose, source: str, note: str = "") -> Attack:
    """An attack on a composition, at twenty shares of its full strength."""
    about = AttackInfo("share of the full strength of every part", source, note)
    return Attack(name, threat, ascending(), grid(1.0), about)


def carben_attack() -> Attack:
    """The composite attack of Hsiung et al. 2023."""
    return composed(
        _CARBEN,
        carben(),
        "Hsiung et al. 2023 (CARBEN): hue, saturation, rotation, brightness, contrast, linf",
        "The published attack also searches the order of its parts; here it is fixed. Other orders: hue+linf+contrast.",
    )


def compose(parts: Sequence[Attack], strengths: Sequence[float] | None = None) -> Attack:
    """The ``parts`` one after the other, with their full ``strengths`` (default: half of each part's largest). They are
    searched as the first of them that chooses among draws is, if any does."""
    name = JOINT.join(part.name for part in parts)
    for part in parts:
        if not (part.nested and part.contains_clean) or isinstance(part.threat, Perceptual):
            raise UserError(
                f"{part.name!r} cannot be a part of {name!r}; expected attacks with nested threat models that contain "
                "the clean input and do not depend on the model, such as recolor+stadv+linf."
            )
    full = (
        [part.strengths[-1] / 2 for part in parts] if strengths is None else [real(strength) for strength in strengths]
    )
    if not all(0 < value <= LARGEST_STRENGTH for value in full):
        raise UserError(
            f"The strengths of {name!r} are {brief(repr(strengths))}; expected a positive number for each part."
        )
    threat = Compose(tuple(part.threat for part in parts), tuple(full))
    each = ", ".join(f"{part.name} {value:.4g}" for part, value in zip(parts, full, strict=True))
    attack = composed(name, threat, "a composition, as in Laidlaw and Feizi 2019")
    plans = next((part.plans for part in parts if part.threat.chooses), attack.plans)
    scaled = strengths is None and any(part.small for part in parts)
    small = compose([part.small or part for part in parts]) if scaled else None
    return replace(attack, plans=plans, about=replace(attack.about, unit=f"share of {each}"), small=small)
