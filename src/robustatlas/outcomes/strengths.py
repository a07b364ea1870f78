"""Strengths: when two are the same, when a size counts as one, and what a grid of them must be."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import fraction
from robustatlas.common.wording import FALLING, typed
from robustatlas.common.wording import strength as written

STRENGTH_TOLERANCE = 1e-5
"""Relative difference up to which two strengths are the same one (8/255 in float32 and in float64 are), and up to
which a size above a strength is rounding."""


LARGEST_STRENGTH = 1e12
"""Larger ones are a slip of the fingers: no image can be changed by as much, and float32 cannot compute with them."""


def same_strength(a: float, b: float) -> bool:
    """Whether two strengths are equal up to `STRENGTH_TOLERANCE`."""
    return math.isclose(a, b, rel_tol=STRENGTH_TOLERANCE)


def positions_of(strengths: ArrayLike, grid: ArrayLike) -> NDArray[np.int64]:
    """Positions [K] of strengths in an increasing grid; -1 where the grid does not have it.

    >>> positions_of([0.2, 0.15], [0.1, 0.2]).tolist()
    [1, -1]
    """
    wanted, known = np.asarray(strengths, np.float64), np.asarray(grid, np.float64)
    at = np.searchsorted(known * (1 + STRENGTH_TOLERANCE), wanted).clip(max=len(known) - 1)
    return np.where(np.isclose(known[at], wanted, rtol=STRENGTH_TOLERANCE, atol=0), at, -1)


def position_of(strength: float, grid: Iterable[float]) -> int | None:
    """Position of a strength in a grid; None where the grid does not have it."""
    return next((k for k, known in enumerate(grid) if same_strength(known, strength)), None)


def snapped(sizes: ArrayLike, grid: ArrayLike) -> NDArray[np.float64]:
    """Sizes [N] as they are recorded: one that lies above a strength of the grid [S] by rounding is that strength.

    From then on a sample is broken at a strength where its size is at most the strength, without any tolerance.

    >>> snapped([0.1, 0.2 * (1 + 1e-7), 0.3, np.inf], [0.1, 0.2]).tolist()
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
    if not all(0 < strength <= LARGEST_STRENGTH for strength in strengths):
        raise UserError(
            f"The strengths of {attack} must be positive numbers of at most {LARGEST_STRENGTH:g}; given: "
            f"{listed_strengths(strengths, attack)}."
        )
    if levels and (strange := [strength for strength in strengths if strength not in levels]):
        raise UserError(
            f"{attack} has only the strengths {listed_strengths(levels)}; given: {listed_strengths(strange, attack)}."
        )
    for smaller, larger in pairwise(strengths):
        if same_strength(smaller, larger):
            raise UserError(
                f"The strength {written(larger, of=attack)} of {attack} is given twice; give each strength once."
            )
        if smaller > larger:
            raise UserError(
                f"The strengths of {attack} are not in {'falling' if attack in FALLING else 'increasing'} order "
                f"({listed_strengths(strengths, attack)}); sort them."
            )


def in_levels(strength: float, largest: float) -> str:
    """What a strength in levels of 255 means, where ``largest`` is that of strengths in [0, 1]; empty for others.

    >>> in_levels(8, 0.1), in_levels(0.2, 0.1), in_levels(60, 50)
    ('for 8 of 255 give 8/255', '', '')
    """
    return f"for {strength:g} of 255 give {strength:g}/255" if strength >= 1 > largest >= strength / 255 else ""


def listed_strengths(strengths: Iterable[float], of: str = "") -> str:
    """Strengths, of the attack ``of``, in a row, for a sentence."""
    return ", ".join(written(strength, 6, of) for strength in strengths)


def merged_strengths(grids: Sequence[NDArray[np.float64]]) -> list[float]:
    """All strengths of several grids, increasing, each once.

    >>> merged_strengths([np.array([0.1, 0.2]), np.array([0.15, 0.2])])
    [0.1, 0.15, 0.2]
    """
    merged: list[float] = []
    for strength in sorted(strength for grid in grids for strength in grid.tolist()):
        if position_of(strength, merged[-1:]) is None:
            merged.append(strength)
    return merged


def grid(last: float, count: int = 20) -> tuple[float, ...]:
    """``count`` equal steps up to ``last``, the form of all of MultiRobustBench's grids.

    Example:
        >>> grid(0.1, 4)
        (0.025, 0.05, 0.075, 0.1)
    """
    return tuple(round(last * k / count, 10) for k in range(1, count + 1))


MOST_STRENGTHS = 10_000
"""More strengths of one attack than this are a slip of the fingers."""


def strengths_in(text: str, said: str = "", attack: str = "") -> tuple[float, ...]:
    """Strengths as people type them: ``"2/255,4/255"`` (a list) or ``"0.1:20"`` (equal steps of ``attack`` up to a last
    one); ``said``: what a sentence about a mistake calls it. Raises :class:`UserError`: it is neither, or too many.

    >>> strengths_in("0.1:4"), strengths_in("1/2,1")
    ((0.025, 0.05, 0.075, 0.1), (0.5, 1.0))
    """
    said, found = said or repr(text), tuple(map(fraction, text.split(",")))
    last, colon, count = text.partition(":")
    if colon:
        if count.strip().isdecimal() and not 1 <= int(count) <= MOST_STRENGTHS:
            raise UserError(f"{said} asks for {count} strengths; expected 1 to {MOST_STRENGTHS:,}.")
        equal = count.strip().isdecimal() and math.isfinite(fraction(last))
        steps = grid(typed(attack, fraction(last)), int(count)) if equal else ()
        found = tuple(typed(attack, step) for step in steps)
    if not found or not all(0 < strength < math.inf for strength in found):
        raise UserError(f"{said} is not understood; expected 0.01,0.02,0.05 or LAST:COUNT, such as 8/255:20.")
    return found
