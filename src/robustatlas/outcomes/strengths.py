"""Strengths: how they are read, when two are the same, when a size counts as one, and what a grid of them must be.

People type a strength in the unit of its attack. For most attacks the typed number rises with the harm that the attack
does. For some, such as the quality of a JPEG file, it falls: 100 changes nothing, 10 changes much. A typed strength
becomes another number only here and at the printers:

- **Doors**: :func:`read_strength` reads whatever people type or pass: options, requirements, studies, files of
  references, weights and models, SQL, and arguments of Python that choose strengths (``strengths`` of `evaluate`,
  `certify` and `Result.from_arrays`, ``against`` of `train`, `Result.survivors`, `AccuracyTable`). It needs the name
  of the attack.
- **Printers**: ``strength``, ``size``, ``interval`` and ``value_as_typed`` of :mod:`robustatlas.common.wording` give
  back what people type. All need the name of the attack. Text, JSON, CSV, data frames, SQL and figures hold typed
  strengths.
- **Public Python** (results, tables of accuracies, curves, metrics, audits, calibrations, figures) takes and returns
  typed strengths and sizes, strengths in the order of harm. Where typed strengths fall, a sample that is misclassified
  without a change has the size 100, and one that never is has the size -inf.
- **Inside** (:class:`~robustatlas.outcomes.Outcome`, the files of a run, definitions of attacks), a strength or size is
  the distance from the unchanged image: it rises with the harm, it is 0 without a change, and inf is never. For an
  attack whose strengths fall it is 100 less the typed number, as the unit of the attack says ("100 - quality"). Names
  that count distances say so: ``distances``, ``distance_curve``, ``..._at_distances``.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import parse_fraction, real_array, real_or_nan
from robustatlas.common.typed_strengths import falling_scale_start, format_strength, text_as_typed, value_as_typed

STRENGTH_TOLERANCE = 1e-5
"""Relative difference up to which two strengths are the same one (8/255 in float32 and in float64 are), and up to
which a size above a strength is rounding."""


LARGEST_STRENGTH = 1e12
"""Larger ones are a slip of the fingers: no image can be changed by as much, and float32 cannot compute with them."""


def read_strength(given: Any, attack: str) -> float:
    """Return the strength of `attack` that `given` says: a number or a text as people type it, such as ``"8/255"``.

    The result is NaN where `given` is neither, and not positive where nothing is changed or no image could be.

    >>> read_strength("8/256", "linf"), read_strength(80, "resolution"), read_strength("80", "resolution")
    (0.03125, 20.0, 20.0)
    """
    found = parse_fraction(given) if isinstance(given, str) else real_or_nan(given)
    top = falling_scale_start(attack)
    return found if top is None else round(top - found, 10)


def read_strengths(given: Mapping[str, Any]) -> dict[str, float]:
    """Return the strength of each attack in `given`, which holds them as people type them.

    >>> read_strengths({"linf": 0.1, "resolution": 80})
    {'linf': 0.1, 'resolution': 20.0}
    """
    return {attack: read_strength(value, attack) for attack, value in given.items()}


def strengths_as_typed(strengths: Mapping[str, float]) -> dict[str, float]:
    """Return the strength of each attack as people type it.

    >>> strengths_as_typed({"linf": 0.1, "resolution": 20.0})
    {'linf': 0.1, 'resolution': 80.0}
    """
    return {attack: value_as_typed(attack, value) for attack, value in strengths.items()}


def read_sizes(given: ArrayLike, attack: str) -> ArrayLike:
    """Return the sizes [N] of `attack` that `given` [N] holds as people type them; 0 (misclassified without a change)
    and inf (never) stay.

    >>> read_sizes([80.0, 0.0, np.inf], "resolution")
    array([20.,  0., inf])
    """
    top = falling_scale_start(attack)
    if top is None:
        return given
    sizes = real_array(given, f"The sizes of {attack}")
    return np.where((sizes == 0) | (sizes == np.inf), sizes, np.round(top - sizes, 10))


def read_places(given: ArrayLike, attack: str) -> NDArray[np.float64]:
    """Return the distances [...] of the sizes or strengths [...] of `attack` that people type, such as the places at
    which a curve is read.

    >>> read_places([100, 80], "resolution"), read_places(0.1, "linf")
    (array([ 0., 20.]), array(0.1))
    """
    places, top = real_array(given, f"The sizes of {attack or 'a curve'}"), falling_scale_start(attack)
    return places if top is None else np.round(top - places, 10)


def sizes_as_typed(sizes: NDArray[np.float64], attack: str) -> NDArray[np.float64]:
    """Return sizes or strengths [N] of `attack` as people type them; where typed strengths fall, never is -inf.

    >>> sizes_as_typed(np.array([20.0, 0.0, np.inf]), "resolution").tolist()
    [80.0, 100.0, -inf]
    """
    top = falling_scale_start(attack)
    return sizes if top is None else np.round(top - sizes, 10)


def is_same_strength(a: float, b: float) -> bool:
    """Return if two strengths are equal up to `STRENGTH_TOLERANCE`."""
    return math.isclose(a, b, rel_tol=STRENGTH_TOLERANCE)


def strength_positions(strengths: ArrayLike, grid: ArrayLike) -> NDArray[np.int64]:
    """Return the positions [K] of strengths in an increasing grid; -1 where the grid does not have it.

    >>> strength_positions([0.2, 0.15], [0.1, 0.2]).tolist()
    [1, -1]
    """
    wanted, known = np.asarray(strengths, np.float64), np.asarray(grid, np.float64)
    at = np.searchsorted(known * (1 + STRENGTH_TOLERANCE), wanted).clip(max=len(known) - 1)
    return np.where(np.isclose(known[at], wanted, rtol=STRENGTH_TOLERANCE, atol=0), at, -1)


def strength_position(strength: float, grid: Iterable[float]) -> int | None:
    """Return the position of a strength in a grid; None where the grid does not have it."""
    return next((k for k, known in enumerate(grid) if is_same_strength(known, strength)), None)


def snap_sizes(sizes: ArrayLike, grid: ArrayLike) -> NDArray[np.float64]:
    """Return sizes [N] as they are recorded: one above a strength of the grid [S] by rounding is that strength.

    From then on a sample is broken at a strength where its size is at most the strength, without any tolerance.

    >>> snap_sizes([0.1, 0.2 * (1 + 1e-7), 0.3, np.inf], [0.1, 0.2]).tolist()
    [0.1, 0.2, 0.3, inf]
    """
    found, strengths = np.asarray(sizes, np.float64), np.asarray(grid, np.float64)
    above = np.searchsorted(strengths * (1 + STRENGTH_TOLERANCE), found)
    return np.asarray(np.minimum(found, np.append(strengths, np.inf)[above]))


def check_strengths(strengths: Sequence[float], attack: str, levels: Sequence[float] = ()) -> None:
    """Raise where strengths of an attack are not positive, finite, increasing and distinct, or not among its
    ``levels`` where it has no others."""
    if not strengths:
        raise UserError(f"{attack} has no strengths; at least one is expected.")
    top = falling_scale_start(attack)
    if not all(0 < strength <= LARGEST_STRENGTH for strength in strengths):
        limit = f"positive numbers of at most {LARGEST_STRENGTH:g}" if top is None else f"numbers below {top:g}"
        raise UserError(f"The strengths of {attack} must be {limit}; given: {listed_strengths(strengths, attack)}.")
    if levels and (strange := [strength for strength in strengths if strength not in levels]):
        raise UserError(
            f"{attack} has only {_listed_levels(levels, attack)}; given: {listed_strengths(strange, attack)}."
        )
    for smaller, larger in pairwise(strengths):
        if is_same_strength(smaller, larger):
            raise UserError(
                f"The strength {format_strength(larger, attack=attack)} of {attack} is given twice; give each "
                "strength once."
            )
        if smaller > larger:
            raise UserError(
                f"The strengths of {attack} are not in {'increasing' if top is None else 'falling'} order "
                f"({listed_strengths(strengths, attack)}); sort them."
            )


_FEW_LEVELS = 10
"""More levels than this are not listed one by one."""


def _listed_levels(levels: Sequence[float], attack: str) -> str:
    """Return the only strengths of an attack, for a sentence."""
    if len(levels) > _FEW_LEVELS:
        ends = sorted(value_as_typed(attack, level) for level in (levels[0], levels[-1]))
        return f"whole numbers from {ends[0]:g} to {ends[1]:g} as strengths"
    return f"the strengths {listed_strengths(levels, attack)}"


def levels_hint(strength: float, largest: float) -> str:
    """Return a hint for a strength given in levels of 255 where ``largest`` lies in [0, 1]; empty for others.

    >>> levels_hint(8, 0.1), levels_hint(0.2, 0.1), levels_hint(60, 50)
    ('for 8 of 255 give 8/255', '', '')
    """
    return f"for {strength:g} of 255 give {strength:g}/255" if strength >= 1 > largest >= strength / 255 else ""


def listed_strengths(strengths: Iterable[float], of: str) -> str:
    """Return strengths of the attack ``of``, as people type them, in a row, for a sentence."""
    return ", ".join(format_strength(strength, 6, attack=of) for strength in strengths)


def merged_strengths(grids: Sequence[NDArray[np.float64]]) -> list[float]:
    """Return all strengths of several grids, increasing, each once.

    >>> merged_strengths([np.array([0.1, 0.2]), np.array([0.15, 0.2])])
    [0.1, 0.15, 0.2]
    """
    merged: list[float] = []
    for strength in sorted(strength for grid in grids for strength in grid.tolist()):
        if strength_position(strength, merged[-1:]) is None:
            merged.append(strength)
    return merged


def grid(last: float, count: int = 20) -> tuple[float, ...]:
    """Return ``count`` equal steps up to ``last``, the form of all of MultiRobustBench's grids.

    Example:
        >>> grid(0.1, 4)
        (0.025, 0.05, 0.075, 0.1)
    """
    return tuple(round(last * k / count, 10) for k in range(1, count + 1))


MOST_STRENGTHS = 10_000
"""More strengths of one attack than this are a slip of the fingers."""


def parse_grid(text: str, attack: str, said: str = "") -> tuple[float, ...]:
    """Return the strengths of `attack`, as people type them, that `text` lists, ``"2/255,4/255"``, or asks for as equal
    steps to a last one, ``"0.1:20"``; `said` is what a sentence about a mistake calls the text.

    Raises :class:`UserError` where the text is neither, or asks for too many.

    >>> parse_grid("0.1:4", "linf"), parse_grid("1/2,1", "l2"), parse_grid("10:3", "resolution")
    ((0.025, 0.05, 0.075, 0.1), (0.5, 1.0), (70.0, 40.0, 10.0))
    """
    said = said or repr(text)
    last, colon, count = text.partition(":")
    found = () if colon else tuple(read_strength(each, attack) for each in text.split(","))
    if colon and count.strip().isdecimal():
        if not 1 <= int(count) <= MOST_STRENGTHS:
            raise UserError(f"{said} asks for {count} strengths; expected 1 to {MOST_STRENGTHS:,}.")
        most = read_strength(last, attack)
        found = grid(most, int(count)) if math.isfinite(most) else ()
    if not found or not all(0 < strength < math.inf for strength in found):
        top = falling_scale_start(attack)
        below = "" if top is None else f", below {text_as_typed(top)}"
        example = "0.01,0.02,0.05 or LAST:COUNT, such as 8/255:20" if top is None else "80,50,20 or LAST:COUNT"
        raise UserError(f"{said} is not understood; expected {example}{below}.")
    return tuple(value_as_typed(attack, strength) for strength in found)
