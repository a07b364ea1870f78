"""Robust accuracy at one strength, as far as a search that looked at some strengths says it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.typed_strengths import text_as_typed
from robustatlas.common.wording import UPPER_BOUND, join_words, list_names

UPPER_BOUND_ONLY = f"{UPPER_BOUND} only"
"""Status of an accuracy at a strength at which sizes alone were searched."""

Point = tuple[str, float]
"""An attack and one of its strengths, as people type it."""


@dataclass(frozen=True, eq=False)
class AccuracyBounds:
    """Bounds on robust accuracy under some attacks, each at a strength of its own, by N samples.

    A search that judges strengths says it at the strengths that it searched. At another strength of a nested threat
    model, a sample that withstands the next larger searched strength certainly withstands this one. A sample with an
    example within the strength does not. Of all others nothing is known.

    Attributes:
        certain: ``[N]``, whether the sample withstands the attacks whatever a search at these strengths finds.
        possible: ``[N]``, whether no example within these strengths has been found.
        unsearched: the attacks and strengths, as people type them, that were not searched.

    Example:
        >>> from robustatlas.outcomes import OutcomeTable
        >>> table = OutcomeTable.from_sizes("a", [1, 1, 1], {"linf": [0.1, 0.3, np.inf]}, {"linf": [0.2, 0.4]})
        >>> known = table.outcome("linf").accuracy_bounds(0.2)
        >>> known.searched, round(known.low, 1), round(known.high, 1)
        (True, 66.7, 66.7)
        >>> known = table.outcome("linf").accuracy_bounds(0.3)
        >>> known.searched, round(known.low, 1), round(known.high, 1)
        (False, 33.3, 33.3)
        >>> known = table.outcome("linf").accuracy_bounds(0.5)
        >>> known.searched, round(known.low, 1), round(known.high, 1)
        (False, 0.0, 33.3)
    """

    certain: NDArray[np.bool_]
    possible: NDArray[np.bool_]
    unsearched: tuple[Point, ...] = ()

    @property
    def searched(self) -> bool:
        """True if every strength was searched, so that both ends are one number."""
        return not self.unsearched

    @property
    def low(self) -> float:
        """Least robust accuracy after a search at these strengths, in percent."""
        return 100 * int(self.certain.sum()) / self.certain.size

    @property
    def high(self) -> float:
        """Largest robust accuracy after a search at these strengths, in percent."""
        return 100 * int(self.possible.sum()) / self.possible.size

    @property
    def status(self) -> str:
        """Words for a number whose higher end is an upper bound only; empty where it was searched."""
        return upper_bound_status(self.unsearched)

    def combine(self, other: AccuracyBounds) -> AccuracyBounds:
        """Return what is known of the same samples under the attacks of both at once."""
        unsearched = dict.fromkeys([*self.unsearched, *other.unsearched])
        return AccuracyBounds(self.certain & other.certain, self.possible & other.possible, tuple(unsearched))


def upper_bound_status(unsearched: tuple[Point, ...]) -> str:
    """Say that a number rests on strengths that were not searched; empty where there are none.

    >>> upper_bound_status((("linf", 8 / 255),))
    'upper bound only, as linf was not searched at 8/255'
    """
    return f"{UPPER_BOUND_ONLY}, as {describe_unsearched(unsearched)}" if unsearched else ""


def describe_unsearched(unsearched: tuple[Point, ...]) -> str:
    """Say which strengths were not searched.

    >>> describe_unsearched((("linf", 0.1), ("linf", 0.2), ("l2", 1.0)))
    'linf was not searched at 0.1, 0.2 and l2 was not searched at 1'
    """
    phrases = [
        f"{attack} was not searched at {list_names(map(text_as_typed, strengths))}"
        for attack, strengths in strengths_by_attack(unsearched).items()
    ]
    return join_words(phrases)


def command_to_search(unsearched: tuple[Point, ...]) -> str:
    """Return the options of ``evaluate`` that search these strengths.

    >>> command_to_search((("linf", 0.1), ("linf", 0.2)))
    'robustatlas evaluate ... --strengths linf=0.1,0.2'
    """
    options = [
        f"--strengths {attack}={','.join(text_as_typed(strength, 6) for strength in strengths)}"
        for attack, strengths in strengths_by_attack(unsearched).items()
    ]
    return " ".join(["robustatlas evaluate ...", *options])


def strengths_by_attack(points: Iterable[Point]) -> dict[str, list[float]]:
    """Return the strengths of the points by their attack."""
    found: dict[str, list[float]] = {}
    for attack, strength in points:
        found.setdefault(attack, []).append(strength)
    return found
