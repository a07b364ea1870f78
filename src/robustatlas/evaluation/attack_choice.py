"""The attacks of an evaluation: those that a request names, at its strengths, bound to the model and the data."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.effort import scale_effort
from robustatlas.attacks.everyday import with_edges
from robustatlas.attacks.suites import SUITES, resolve_attacks
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.typed_strengths import falling_scale_start
from robustatlas.common.wording import suggestion
from robustatlas.data.arrays import to_array
from robustatlas.evaluation.request import EIGHT_BIT, Attacks, Request, Strengths
from robustatlas.models.classifier import Classifier
from robustatlas.outcomes.strengths import check_strengths, read_strength
from robustatlas.threats.base import UnsupportedInputError, oversize_message


def choose_attacks(request: Request, model: Classifier, first: Tensor) -> list[Attack]:
    """Return the attacks that a request names, with its strengths, effort, pixels and border.

    They are bound to the model and to data that begin with ``first`` [M, ...].

    Raises:
        UserError: an unknown name, an attack named twice, strengths that do not increase or of no attack, an effort of
            published protocols, a strength beyond what images can differ by.
    """
    protocol, effort, exclude = request.protocol, request.effort, request.exclude
    if protocol != "default" and effort != "default":
        raise UserError(f"effort={effort!r} is not for protocol={protocol!r}, whose steps are those of its source.")
    sides = first.shape[2:] if first.dim() == 4 else ()
    attacks = [
        scale_effort(attack, effort) for attack in resolve_attacks(request.attacks_or_default(model), protocol, sides)
    ]
    names = [attack.name for attack in attacks]
    if unknown := [str(name) for name in exclude if name not in names]:
        there = suggestion(unknown[0], names, f"there are {', '.join(names)}")
        raise UserError(f"{unknown[0]!r} is to be left out, but is not among the attacks{there}")
    attacks = [attack for attack in attacks if attack.name not in exclude]
    if request.border is not None:
        attacks = with_edges(attacks, request.border)
    if not attacks:
        raise UserError(f"Every attack of {', '.join(names)} is left out; keep at least one.")
    if len(set(names)) < len(names):
        raise UserError(f"Some attack is named twice in {', '.join(names)}; name each once.")
    wanted = read_grids(request.strengths, names)
    for attack in attacks:
        largest = wanted.get(attack.name, attack.strengths)[-1]
        if largest > max(attack.threat.max_size(first), attack.strengths[-1]):
            raise UserError(oversize_message(attack.name, largest, attack.threat, first, attack.about.unit))
    return [
        replace(
            attack,
            threat=attack.threat.for_data(first),
            eight_bit=attack.eight_bit or request.pixels == EIGHT_BIT,
            strengths=wanted.get(attack.name, attack.strengths),
            about=replace(attack.about, calibrated="") if attack.name in wanted else attack.about,
        ).for_model(model)
        for attack in attacks
    ]


def read_grids(given: Strengths | None, names: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Read the strengths that are `given` for some of the attacks `names`, as people type them.

    Raises:
        UserError: they are of another attack, no strengths, or not in the order of harm.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UserError(
            f"strengths is {shorten(repr(given))}; expected strengths for each attack by name, such as "
            '{"linf": [0.01, 0.02]}.'
        )
    if unknown := [str(name) for name in given if name not in names]:
        there = suggestion(unknown[0], names, f"there are {', '.join(names)}")
        raise UserError(f"Strengths are given for {', '.join(unknown)}, which is not among the attacks{there}")
    wanted = {}
    for name, values in given.items():
        try:
            grid = tuple(read_strength(value, name) for value in np.atleast_1d(to_array(values)).tolist())
        except UserError:
            grid = ()
        if not grid or not all(0 < value < np.inf for value in grid) or any(a >= b for a, b in pairwise(grid)):
            top = falling_scale_start(name)
            expected = "positive, increasing numbers" if top is None else f"falling numbers below {top:g}"
            raise UserError(f"The strengths of {name!r} are {shorten(repr(values))}; expected {expected}.")
        check_strengths(grid, name)
        wanted[name] = grid
    return wanted


def fitting_attacks(attacks: Sequence[Attack], given: Attacks, x: Tensor) -> tuple[list[Attack], list[str]]:
    """Return the attacks that fit inputs like ``x`` [1, ...], and a sentence for each attack of a suite that does not.

    Raises:
        UnsupportedInputError: an attack that was named itself does not fit, or none of a suite does.
    """
    items = [given] if isinstance(given, (str, Attack)) else list(given)
    own = {item.name if isinstance(item, Attack) else item for item in items if item not in SUITES}
    fitting, left_out = [], []
    for attack in attacks:
        try:
            attack.threat.check(x)
        except UnsupportedInputError as error:
            if attack.name in own:
                raise
            left_out.append(f"{attack.name} is left out: {error}")
        else:
            fitting.append(attack)
    if not fitting:
        raise UnsupportedInputError(left_out[0])
    return fitting, left_out
