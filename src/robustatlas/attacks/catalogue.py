"""The catalogue: every named attack, of this package and of others."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import get_args

from robustatlas.attacks.definition import ALL_SEARCHES, Attack, AttackInfo, AttackRun, ProtocolName, grid
from robustatlas.attacks.families import SMOOTH
from robustatlas.common.errors import UserError, first_line, shorten, unknown_name_error, warn
from robustatlas.common.registry import Registry
from robustatlas.common.typed_strengths import falling_scale_start, format_strength
from robustatlas.models.classifier import Errors
from robustatlas.optimizers import OPTIMIZERS
from robustatlas.outcomes.strengths import LARGEST_STRENGTH, read_strength
from robustatlas.threats.compose import Compose, carben
from robustatlas.threats.perceptual import Perceptual

Attacks = Attack | Callable[..., Attack | Iterable[Attack]]
"""An attack, or a function of nothing or of the protocol that makes one or several."""

_LISTED = (
    "'robustatlas attacks' lists all attacks (such as linf, stadv or recolor+stadv+linf) and suites (such as lp or "
    "multirobustbench)"
)

_JOINT = "+"
"""Between the names of the parts: ``recolor+stadv+linf``."""

ATTACKS: Registry[Attacks] = Registry(
    "attack",
    "robustatlas.attacks",
    {
        "norms": "attacks.lp:lp_attacks",
        "published": "attacks.lp:published_attacks",
        "images": "attacks.image:image_attacks",
        "imagenet-ua": "attacks.imagenet_ua:ua_attacks",
        "everyday": "attacks.everyday:everyday_attacks",
        "carben": "attacks.catalogue:carben_attack",
    },
    "a robustatlas.Attack, or a function that makes one or several",
    lambda thing: isinstance(thing, Attack) or callable(thing),
)
"""Sources of the attacks of the catalogue; each has its name in itself."""


def catalogue(protocol: ProtocolName = "default") -> dict[str, Attack]:
    """All named attacks, by the default protocol or as their papers ran them.

    Example:
        >>> catalogue()["linf"].strengths[:3]
        (0.005, 0.01, 0.015)
    """
    return dict(_catalogue(protocol, tuple(ATTACKS.load_usable().items())))


@cache
def _catalogue(protocol: ProtocolName, lines: tuple[tuple[str, Attacks], ...]) -> dict[str, Attack]:
    found: dict[str, Attack] = {}
    for name, made in lines:
        try:
            attacks = _make_attacks(made, protocol)
        except Exception as error:
            if name in ATTACKS.builtin_names:
                raise
            warn(f"The attack {name!r} of another package cannot be made: {first_line(error)}. It is left out.")
            continue
        for attack in attacks:
            if found.setdefault(attack.name, attack) is not attack:
                warn(f"There are two attacks {attack.name!r}; the one that {name!r} brings is left out.")
    return found


def _make_attacks(made: Attacks, protocol: ProtocolName) -> tuple[Attack, ...]:
    """The attacks that a line of :data:`ATTACKS` stands for."""
    given = (protocol,) if callable(made) and inspect.signature(made).parameters else ()
    named = made(*given) if callable(made) else made
    attacks = (named,) if isinstance(named, Attack) else tuple(named)
    if other := [attack for attack in attacks if not isinstance(attack, Attack)]:
        raise UserError(f"A {type(other[0]).__name__} is among them; expected objects of robustatlas.Attack.")
    return tuple(map(_as_published, attacks)) if protocol == "paper" else attacks


def _as_published(attack: Attack) -> Attack:
    """Return the attack as MultiRobustBench searches it: by bisection, whatever its threat model allows."""
    return replace(attack, search_order=tuple(sorted(attack.searches, key=lambda search: search != "bisection")))


def attack_named(name: str, protocol: ProtocolName = "default", also: Iterable[str] = ()) -> Attack:
    """The attack of that name; ``"recolor+stadv+linf"`` is a composition (see :func:`compose`), ``"adam-stadv"`` the
    threat model and strengths of ``stadv``, searched by one of :data:`~robustatlas.optimizers.OPTIMIZERS` alone.

    ``"linf.wrong"`` and ``"linf.refused"``: of models that reject, where an error is what is wrong, rejected or not, or
    what is wrong or rejected; by themselves errors are what is accepted and wrong.

    ``also``: other names that may have been meant where this one is not known.
    """
    if not isinstance(name, str):
        raise UserError(f"{shorten(repr(name))} does not name an attack; expected one such as 'linf'.")
    plain, _, errors = name.rpartition(".")
    kinds: tuple[Errors, ...] = get_args(Errors)
    if plain and errors in kinds:
        return replace(attack_named(plain, protocol, also), name=name, errors=kinds[kinds.index(errors)])
    if _JOINT in name:
        return compose(*name.split(_JOINT))
    attacks = catalogue(protocol)
    if name not in attacks:
        if (alone := _alone(name, attacks)) is not None:
            return alone
        raise unknown_name_error("attack", name, [*attacks, *also], _LISTED)
    return attacks[name]


def _alone(name: str, attacks: Mapping[str, Attack]) -> Attack | None:
    """``"OPTIMIZER-ATTACK"``: the threat model and strengths of an attack, searched by one optimizer alone."""
    for optimizer in OPTIMIZERS:
        attack = attacks.get(name.removeprefix(f"{optimizer}-"))
        if attack is not None and attack.name != name:
            if falling_scale_start(attack.name) is not None:
                raise UserError(
                    f"{name!r} cannot be searched: {attack.name} has no slope that an optimizer could follow; give "
                    f"{attack.name!r}, which looks at its strengths one by one."
                )
            return single_optimizer_attack(optimizer, attack)
    return None


def single_optimizer_attack(optimizer: str, attack: Attack) -> Attack:
    """Return the threat model and strengths of `attack`, searched by one optimizer alone: ``"OPTIMIZER-ATTACK"``."""
    run = AttackRun(OPTIMIZERS[optimizer](), "margin")
    about = AttackInfo(attack.about.unit)
    return replace(attack, name=f"{optimizer}-{attack.name}", runs=(run,), rules=(), search_order=(), about=about)


def compose(*names: str, strengths: Sequence[float] | None = None) -> Attack:
    """Attacks of the catalogue one after the other, optimised together, at twenty shares of their full strengths.

    Args:
        names: in the order in which they change the image.
        strengths: full strength of each part, as people type it; default: half of the largest of its own grid.

    Returns:
        the attack, named after its parts with ``+`` between them; its strengths are shares from 0 to 1.

    Raises:
        UserError: not one strength for each part, or an attack that there is not.

    Example:
        >>> attack = compose("recolor", "stadv", "linf", strengths=(0.06, 0.05, 8 / 255))
        >>> attack.name, attack.strengths[-1]
        ('recolor+stadv+linf', 1.0)
    """
    if strengths is not None and len(strengths) != len(names):
        raise UserError(f"{len(names)} attacks are composed and {len(strengths)} strengths given; expected one each.")
    return _compose_attacks([attack_named(name) for name in names], strengths)


def _composition(name: str, threat: Compose, source: str, note: str = "") -> Attack:
    """An attack on a composition, at twenty shares of its full strength."""
    about = AttackInfo("share of the full strength of every part", source, note)
    return Attack(name, threat, SMOOTH.runs, grid(1.0), about, rules=SMOOTH.rules, search_order=ALL_SEARCHES)


def carben_attack() -> Attack:
    """The composite attack of Hsiung et al. 2023."""
    return _composition(
        "carben",
        carben(),
        "Hsiung et al. 2023 (CARBEN): hue, saturation, rotation, brightness, contrast, linf",
        "The published attack also searches the order of its parts; here it is fixed. Other orders: hue+linf+contrast.",
    )


def _compose_attacks(parts: Sequence[Attack], strengths: Sequence[float] | None = None) -> Attack:
    """The ``parts`` one after the other, with their full ``strengths`` (default: half of each part's largest). They are
    searched as the first of them that chooses among draws is, if any does."""
    name = _JOINT.join(part.name for part in parts)
    for part in parts:
        if not (part.nested and part.contains_clean) or isinstance(part.threat, Perceptual):
            raise UserError(
                f"{part.name!r} cannot be a part of {name!r}; expected attacks with nested threat models that contain "
                "the clean input and do not depend on the model, such as recolor+stadv+linf."
            )
    full = (
        [part.strengths[-1] / 2 for part in parts]
        if strengths is None
        else [read_strength(strength, part.name) for part, strength in zip(parts, strengths, strict=True)]
    )
    if not all(0 < value <= LARGEST_STRENGTH for value in full):
        raise UserError(
            f"The strengths of {name!r} are {shorten(repr(strengths))}; expected a positive number for each part."
        )
    threat = Compose(tuple(part.threat for part in parts), tuple(full))
    each = ", ".join(
        f"{part.name} {format_strength(value, attack=part.name)}" for part, value in zip(parts, full, strict=True)
    )
    attack = _composition(name, threat, "a composition, as in Laidlaw and Feizi 2019")
    searched_as = next((part for part in parts if part.threat.chooses), attack)
    scaled = strengths is None and any(part.small for part in parts)
    small = _compose_attacks([part.small or part for part in parts]) if scaled else None
    return replace(
        attack,
        runs=searched_as.runs,
        rules=searched_as.rules,
        search_order=searched_as.search_order,
        about=replace(attack.about, unit=f"share of {each}"),
        small=small,
    )
