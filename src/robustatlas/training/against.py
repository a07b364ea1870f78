"""Opponents of a training, from names and strengths such as ``{"linf": 0.1, "l2": 1.5}``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf, isnan
from typing import Any

import torch
from torch import Tensor

from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import parse_fraction
from robustatlas.common.typed_strengths import axis_label, falling_scale_start, format_strength
from robustatlas.common.wording import suggestion
from robustatlas.metrics.references import load_reference
from robustatlas.optimizers.apgd_l1 import APGDL1, INSIDE
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import Opponent, Start
from robustatlas.optimizers.pgd import PGD
from robustatlas.outcomes.strengths import check_strengths, read_strength
from robustatlas.threats.base import ThreatModel, oversize_message
from robustatlas.threats.lp import L1, Linf, Lp
from robustatlas.threats.perceptual import Perceptual, load_distance

Against = Mapping[str, float] | Sequence[Opponent]

_PLAUSIBLE_FACTOR = 100
"""Strengths larger than the catalogue's largest by this factor must be in another unit."""

_ROUNDING = 1e-9
"""Tolerance of rounding in the sum of all steps, in units of the strength."""

OptimizerFactory = Callable[[ThreatModel, int, float], Optimizer[Any]]
"""Function from threat model, steps and rate to an optimizer."""


def default_rate(steps: int) -> float:
    """Return the length of a step as a share of the strength: 2.5 / steps, at most 1.25 (Wong et al. 2020).

    >>> default_rate(10), default_rate(1)
    (0.25, 1.25)
    """
    return min(1.25, 2.5 / steps)


def default_ascent(threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
    """Return projected gradient ascent with steps of ``rate`` x strength, or for l1 Auto-PGD, which adapts its steps.

    Steepest ascent in l1 moves coordinates that the box stops. Auto-PGD begins at the image with a twentieth of them,
    in one stage (Croce and Hein 2022). It was the strongest of five inner attacks on MNIST and Fashion-MNIST.
    """
    if isinstance(threat, L1):
        return APGDL1(steps, schedule=INSIDE, density=0.05)
    return PGD(steps, rate, scaled=isinstance(threat, Perceptual))


def default_start(optimizer: Optimizer[Any]) -> Start:
    """Return the start of an optimizer: Auto-PGD in l1 has too few steps to leave a random start; others begin at
    one.
    """
    return "neutral" if isinstance(optimizer, APGDL1) else "random"


def with_training_starts(threat: ThreatModel, l2_start: str = "volume") -> ThreatModel:
    """Return the threat model with random starts from inside of the set: uniform in the ball, for l2 as
    ``l2_start`` says.

    (Evaluation begins on the surface, as AutoAttack does.)
    """
    if isinstance(threat, Lp):
        return replace(threat, starts=l2_start if threat.p == 2 else "volume")  # type: ignore[arg-type]
    return threat


def make_opponents(
    given: Against | None,
    steps: int = 10,
    rate: float | None = None,
    *,
    optimizer: OptimizerFactory = default_ascent,
    l2_start: str = "volume",
    features: str | None = None,
) -> tuple[Opponent, ...]:
    """Return the opponents for names of the catalogue and strengths; :class:`Opponent` objects are unchanged.

    Args:
        given: attack -> strength in the unit of the catalogue, or opponents.
        steps: of crafting.
        rate: length of a step as a share of the strength; default: :func:`default_rate`. Auto-PGD (l1) has its own.
        optimizer: function that makes the optimizer of an opponent.
        l2_start: distribution of random starts in l2 balls.
        features: network by which ``lpips`` compares images, ``ARCHITECTURE=FILE``; default: the trained network.

    Returns:
        an opponent for each attack, in the order given.

    Raises:
        UserError: unknown attacks (the nearest name is suggested), no steps, strengths <= 0 or in another unit.

    Example:
        >>> [(o.name, o.epsilon, o.optimizer.steps) for o in make_opponents({"linf": 0.1, "l2": 1.5})]
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
    distance = None if features is None else load_distance(features)
    found = []
    for name, strength in given.items():
        attack = _find_attack(name)
        epsilon = _check_strength(name, strength, attack.threat, attack.strengths[-1], attack.about.unit)
        threat = with_training_starts(attack.threat, l2_start)
        if distance is not None and isinstance(threat, Perceptual):
            threat = replace(threat, distance=distance)
        search = optimizer(threat, steps, default_rate(steps) if rate is None else rate)
        found.append(Opponent(name, threat, epsilon, search, default_start(search)))
    return tuple(found)


def _find_attack(name: str) -> Any:
    try:
        return attack_named(name)
    except UserError as error:
        there = suggestion(name, catalogue(), "'robustatlas attacks' lists them")
        raise UserError(f"There is no threat model {name!r} to train against{there}") from error


def _check_strength(name: str, given: object, threat: ThreatModel, largest: float, unit: str) -> float:
    strength, scale_start = read_strength(given, name), falling_scale_start(name)
    if not 0 < strength < inf:
        expected = "a positive number" if scale_start is None else f"a number below {scale_start:g}"
        raise UserError(
            f"The strength of {name} is {shorten(repr(given))}; expected {expected} ({axis_label(unit, attack=name)})."
        )
    if isinstance(threat, Linf) and strength > 1:
        raise UserError(oversize_message(name, strength, threat, torch.zeros(1, 1)))
    if strength > _PLAUSIBLE_FACTOR * largest and strength > _largest_uar_strength(name):
        raise UserError(
            f"{name}={format_strength(strength, attack=name)} is more than {_PLAUSIBLE_FACTOR} times the catalogue's "
            "largest strength "
            f"{format_strength(largest, attack=name)}; its unit is: {axis_label(unit, attack=name)}."
        )
    return strength


def _largest_uar_strength(name: str) -> float:
    """Return the largest strength that UAR's authors trained against on images of 224 pixels."""
    entries = load_reference("uar-imagenet100").accuracies.distance_entries
    return max(entries.get(name, [0.0]))


def unreached_strengths(opponents: Sequence[Opponent]) -> list[str]:
    """Return a sentence for each opponent whose strength is larger than the sum of all steps of crafting.

    Optimizers with adaptive step lengths are not checked.

    Example:
        >>> len(unreached_strengths(make_opponents({"linf": 0.1, "l2": 1.5}, steps=7, rate=1 / 20)))
        2
    """
    found = []
    for opponent in opponents:
        search = opponent.optimizer
        if not isinstance(search, PGD) or search.length is not None:
            continue
        reach = search.steps * search.rate
        if reach < 1 - _ROUNDING:
            found.append(
                f"{search.steps} steps of {search.rate:.3g} of the strength go {reach:.2g} of it: crafting never "
                "reaches "
                f"{opponent.name}={format_strength(opponent.epsilon, attack=opponent.name)}; take more or longer steps."
            )
    return found


def check_opponents(opponents: Sequence[Opponent], x: Tensor) -> None:
    """Raise :class:`UserError` if images ``x`` [N, ...] do not fit a threat model, or if its set contains all
    images.
    """
    for opponent in opponents:
        threat = opponent.threat
        threat.check(x[:1])
        check_strengths([opponent.epsilon], opponent.name, threat.levels)
        if opponent.epsilon >= threat.max_size(x):
            raise UserError(oversize_message(opponent.name, opponent.epsilon, threat, x))


def parse_against(text: str) -> dict[str, float]:
    """Parse ``linf=0.1,l2=1.5`` (or ``linf=8/255``) to a mapping from attack to strength."""
    found: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        strength = parse_fraction(value)
        if isnan(strength):
            raise UserError(
                f"--against {item!r} is not understood; expected NAME=STRENGTH, such as linf=0.1 or linf=8/255."
            )
        if name in found:
            raise UserError(f"--against names {name!r} twice; name each threat model once.")
        found[name] = strength
    return found
