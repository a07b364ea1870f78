"""Numbers of points, such as how often an attacker chooses each, or how difficult it is: a mapping or a JSON file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from robustatlas.common.documents import read_json
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_or_nan
from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.common.wording import list_names
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.strengths import listed_strengths, read_strength, strength_position

CLEAN = "clean"
"""Name of the unperturbed input among the attacks; its strength is 0."""

Points = Mapping[str, float | Mapping[float, float]]
"""Attack -> a number for each of its points, or strength (as people type it) -> number; ``"clean"`` is the unperturbed
input."""


def read_points(given: Points | str | Path, what: str, known: AccuracyTable) -> dict[str, float | dict[float, float]]:
    """Return numbers of points, checked.

    ``given``: attack -> number, or strength -> number; or a JSON file of that. ``what``: what they are called in
    messages, such as "weights". ``known``: whose points they may be of. Raises :class:`UserError`: a point that is not
    known, or a number that is negative or not finite.

    >>> read_points({"clean": 1, "p": {"2": 3}}, "weights", AccuracyTable(90, {"p": {1: 80, 2: 60}}))
    {'clean': 1.0, 'p': {2.0: 3.0}}
    """
    read: Any = read_json(given) if isinstance(given, str | Path) else given
    if not isinstance(read, Mapping) or not read:
        expected = "{attack: number} or {attack: {strength: number}}"
        raise UserError(f"{what} are expected as {expected}; given {shorten(repr(read))}.")
    if strange := [attack for attack in read if attack != CLEAN and attack not in known.entries]:
        raise UserError(
            f"{what} name {list_names(map(str, strange))}, which is not there; there are {list_names(known.attacks)}."
        )
    return {str(attack): _row(attack, value, what, known) for attack, value in read.items()}


def _row(attack: str, given: Any, what: str, known: AccuracyTable) -> float | dict[float, float]:
    if attack == CLEAN or not isinstance(given, Mapping):
        return _number(given, f"{what} of {attack}")
    strengths: list[float] = known.distances(attack).tolist()
    row: dict[float, float] = {}
    for strength, value in given.items():
        place = strength_position(read_strength(strength, attack), strengths)
        if place is None:
            raise UserError(
                f"{what} name {attack}@{strength}, which is not there; {attack} is at "
                f"{list_names([listed_strengths([each], attack) for each in strengths])}."
            )
        row[value_as_typed(attack, strengths[place])] = _number(value, f"{what} of {attack}@{strength}")
    return row


def _number(given: Any, what: str) -> float:
    number = real_or_nan(given)
    if not 0 <= number < math.inf:
        raise UserError(f"The {what} are {shorten(repr(given))}; a finite number from 0 on is expected.")
    return float(number)


def point_value(points: Points, attack: str, strength: float) -> float:
    """Return the number of one point; NaN where there is none.

    >>> point_value({"p": 2, "q": {0.5: 3}}, "q", 0.5), point_value({"p": 2}, "p", 0.1)
    (3, 2)
    """
    row = points.get(attack, math.nan)
    if not isinstance(row, Mapping):
        return row
    place = strength_position(strength, [read_strength(known, attack) for known in row])
    return math.nan if place is None else list(row.values())[place]


def attacks_that_count(weights: Points, known: AccuracyTable) -> tuple[str, ...]:
    """Return attacks of which some point has a positive weight, in the order of ``known``."""
    rows = {attack: weights.get(attack, 0.0) for attack in known.attacks}
    most = {a: max(row.values(), default=0.0) if isinstance(row, Mapping) else row for a, row in rows.items()}
    return tuple(attack for attack in known.attacks if most[attack] > 0)


def select_shared_points(points: Points, known: AccuracyTable) -> dict[str, float | dict[float, float]]:
    """Return the points that ``known`` has as well, and the clean one.

    >>> select_shared_points({"clean": 1, "p": {1: 2, 2: 3}, "q": 4}, AccuracyTable(90, {"p": {1: 80}}))
    {'clean': 1, 'p': {1: 2}}
    """
    kept: dict[str, float | dict[float, float]] = {}
    for attack, row in points.items():
        if isinstance(row, Mapping):
            grid = list(known.distance_entries.get(attack, ()))
            kept[attack] = {
                strength: value
                for strength, value in row.items()
                if strength_position(read_strength(strength, attack), grid) is not None
            }
        elif attack == CLEAN or attack in known.entries:
            kept[attack] = row
    return {attack: row for attack, row in kept.items() if row != {}}
