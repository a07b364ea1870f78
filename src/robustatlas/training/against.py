"""What a recipe trains against, from names and strengths: ``{"linf": 0.1, "l2": 1.5}``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import fraction
from robustatlas.common.wording import axis, falls_from, instead
from robustatlas.common.wording import strength as written
from robustatlas.metrics.references import load_reference
from robustatlas.optimizers.apgd_l1 import APGDL1, INSIDE
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import Opponent, Start
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes.strengths import check_strengths, read_strength
from robustatlas.threats.base import ThreatModel, beyond_images
from robustatlas.threats.lp import L1, Linf, Lp
from robustatlas.threats.perceptual import Perceptual, distance_by

Against = Mapping[str, float] | Sequence[Opponent]

_FAR = 100
"""Strengths so many times above the catalogue's largest are in another unit."""

_ROUNDING = 1e-9
"""Tolerance of rounding in the sum of all steps, in units of the strength."""

MakeOptimizer = Callable[[ThreatModel, int, float], Optimizer[Any]]
"""From threat model, steps and rate."""


def default_rate(steps: int) -> float:
    """Length of a step as a share of the strength: 2.5 radii in all, and 1.25 (Wong et al. 2020) at most in one.

    >>> default_rate(10), default_rate(1)
    (0.25, 1.25)
    """
    return min(1.25, 2.5 / steps)


def ascent(threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
    """Projected gradient ascent with steps of ``rate`` x strength; in l1 Auto-PGD, which finds its own lengths.

    Steepest ascent in l1 moves coordinates that the box stops. Auto-PGD begins at the image with a twentieth of them,
    in one stage (Croce and Hein 2022). Of five inner attacks it found most on MNIST and Fashion-MNIST.
    """
    if isinstance(threat, L1):
        return APGDL1(steps, schedule=INSIDE, density=0.05)
    return PGD(steps, rate, scaled=isinstance(threat, Perceptual))


def start_of(optimizer: Optimizer[Any]) -> Start:
    """Where it begins: Auto-PGD in l1, whose few steps are lost on noise, at the image; others anywhere in the set."""
    return "neutral" if isinstance(optimizer, APGDL1) else "random"


def training_set(threat: ThreatModel, l2_start: str = "volume") -> ThreatModel:
    """The threat model with random starts from inside of the set: uniform in the ball, for l2 as ``l2_start`` says.

    (Evaluation begins on the surface, as AutoAttack does.)
    """
    if isinstance(threat, Lp):
        return replace(threat, starts=l2_start if threat.p == 2 else "volume")  # type: ignore[arg-type]
    return threat


def opponents_of(
    given: Against | None,
    steps: int = 10,
    rate: float | None = None,
    *,
    optimizer: MakeOptimizer = ascent,
    l2_start: str = "volume",
    features: str | None = None,
) -> tuple[Opponent, ...]:
    """The opponents behind names of the catalogue and strengths; :class:`Opponent` objects pass unchanged.

    Args:
        given: attack -> strength in the unit of the catalogue, or opponents.
        steps: of crafting.
        rate: length of a step as a share of the strength; default: :func:`default_rate`. Auto-PGD (l1) has its own.
        optimizer: what searches.
        l2_start: how random starts in l2 balls are drawn.
        features: what ``lpips`` compares images by, ``ARCHITECTURE=FILE``; default: the network that is trained.

    Returns:
        an opponent for each attack, in the order given.

    Raises:
        UserError: unknown attacks (the nearest name is suggested), no steps, strengths <= 0 or in another unit.

    Example:
        >>> [(o.name, o.epsilon, o.optimizer.steps) for o in opponents_of({"linf": 0.1, "l2": 1.5})]
        [('linf', 0.1, 10), ('l2', 1.5, 10)]
    """
    if steps < 1:
        raise UserError(f"Crafting with {steps} steps makes no adversarial examples; expected at least 1.")
    if rate is not None and not rate > 0:
        raise UserError(f"The rate of crafting is {rate}; expected a positive share of the strength, such as 0.25.")
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        return tuple(given)
    distance = None if features is None else distance_by(features)
    found = []
    for name, strength in given.items():
        attack = _known(name)
        epsilon = _checked_strength(name, strength, attack.threat, attack.strengths[-1], attack.about.unit)
        threat = training_set(attack.threat, l2_start)
        if distance is not None and isinstance(threat, Perceptual):
            threat = replace(threat, distance=distance)
        search = optimizer(threat, steps, default_rate(steps) if rate is None else rate)
        found.append(Opponent(name, threat, epsilon, search, start_of(search)))
    return tuple(found)


def _known(name: str) -> Any:
    try:
        return attack_named(name)
    except UserError as error:
        there = instead(name, catalogue(), "'robustatlas attacks' lists them")
        raise UserError(f"There is no threat model {name!r} to train against{there}") from error


def _checked_strength(name: str, given: object, threat: ThreatModel, largest: float, unit: str) -> float:
    strength, top = read_strength(given, name), falls_from(name)
    if not 0 < strength < inf:
        expected = "a positive number" if top is None else f"a number below {top:g}"
        raise UserError(f"The strength of {name} is {brief(repr(given))}; expected {expected} ({axis(unit, of=name)}).")
    if isinstance(threat, Linf) and strength > 1:
        raise UserError(beyond_images(name, strength, threat, torch.zeros(1, 1)))
    if strength > _FAR * largest and strength > _calibrated(name):
        raise UserError(
            f"{name}={written(strength, of=name)} is more than {_FAR} times the catalogue's largest strength "
            f"{written(largest, of=name)}; its unit is: {axis(unit, of=name)}."
        )
    return strength


def _calibrated(name: str) -> float:
    """The largest strength that UAR's authors trained against on images of 224 pixels."""
    entries = load_reference("uar-imagenet100").accuracies.distance_entries
    return max(entries.get(name, [0.0]))


def unreached_strengths(opponents: Sequence[Opponent]) -> list[str]:
    """Return a sentence for each opponent whose strength all steps of crafting together, straight on, do not reach.

    Optimizers that choose the lengths of their steps themselves have none.

    Example:
        >>> len(unreached_strengths(opponents_of({"linf": 0.1, "l2": 1.5}, steps=7, rate=1 / 20)))
        2
    """
    found = []
    for opponent in opponents:
        search = opponent.optimizer
        if not isinstance(search, PGD) or search.length is not None:
            continue
        far = search.steps * search.rate
        if far < 1 - _ROUNDING:
            found.append(
                f"{search.steps} steps of {search.rate:.3g} of the strength go {far:.2g} of it: crafting never reaches "
                f"{opponent.name}={written(opponent.epsilon, of=opponent.name)}; take more or longer steps."
            )
    return found


def check_opponents(opponents: Sequence[Opponent], x: Tensor) -> None:
    """Raise :class:`UserError` where images ``x`` [N, ...] do not fit a threat model, or its set contains them all."""
    for opponent in opponents:
        threat = opponent.threat
        threat.check(x[:1])
        check_strengths([opponent.epsilon], opponent.name, threat.levels)
        if opponent.epsilon >= threat.most(x):
            raise UserError(beyond_images(opponent.name, opponent.epsilon, threat, x))


def parse_against(text: str) -> dict[str, float]:
    """``linf=0.1,l2=1.5`` (also ``linf=8/255``) as attack -> strength."""
    found: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        strength = fraction(value)
        if isnan(strength):
            raise UserError(
                f"--against {item!r} is not understood; expected NAME=STRENGTH, such as linf=0.1 or linf=8/255."
            )
        if name in found:
            raise UserError(f"--against names {name!r} twice; name each threat model once.")
        found[name] = strength
    return found
