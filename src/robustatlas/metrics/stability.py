"""Stability constant: how fast accuracy may change between points of similar difficulty (MultiRobustBench)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_or_nan
from robustatlas.common.wording import list_names
from robustatlas.metrics.references.matching import (
    MatchedEntries,
    match_entries,
    point_values,
    reference_accuracies,
    training_mask,
)
from robustatlas.metrics.references.reference import CLEAN, Points, Reference, read_points
from robustatlas.outcomes.accuracies import AccuracyTable

TIE_TOLERANCE = 1e-6
"""Two points whose difficulties differ by no more than this are equally difficult."""

Difficulty = Literal["reference", "epsilon"] | Points


@dataclass(frozen=True)
class StabilityConstant:
    """The stability constant and the pair of points that attains it.

    Attributes:
        value: largest change of accuracy per change of difficulty; 0 where no pair is admissible.
        pair: names of the seen point and the other, such as `("linf@0.01", "jpeg-linf@0.15")`; None: there is no pair.
        accuracy_change: |acc(P1) - acc(P2)| of the pair in percentage points.
        difficulty_change: |s(P1) - s(P2)| of the pair; in percentage points where s is 100 - acc*.

    Example:
        >>> StabilityConstant(32.0, ("p@1", "q@2"), accuracy_change=32.0, difficulty_change=1.0).pair
        ('p@1', 'q@2')
    """

    value: float
    pair: tuple[str, str] | None
    accuracy_change: float
    difficulty_change: float


def stability_constant(
    accuracies: AccuracyTable,
    reference: Reference | AccuracyTable,
    trained_on: Mapping[str, float],
    alpha: float = 3.0,
    floor: float = 0.0,
    attacks: Iterable[str] | None = None,
    difficulty: Difficulty = "reference",
) -> StabilityConstant:
    """Return stability constant (SC) of a model: the smaller, the less its accuracy jumps off what it was trained on.

    SC = max |acc(P1) - acc(P2)| / |s(P1) - s(P2)|. P1 are the points seen in training, P2 all points, and s is the
    difficulty of a point. Only pairs with 0 < |s(P1) - s(P2)| <= alpha count; equally difficult ones (up to
    `TIE_TOLERANCE`) are skipped.

    The difficulty is the paper's attack strength function (definition 3.6). `reference` is that of its leaderboard,
    100 - acc*. `epsilon` is the strength itself, of a single attack. A mapping gives a number for each point.

    The plain constant divides by differences of acc* that may be a few images, and is then mostly noise. `floor` (0.5
    or 1 say) skips the pairs whose difficulties differ by less.

    Args:
        accuracies: of the model, in percent.
        reference: acc*.
        trained_on: attack -> largest strength that the model was trained against, as people type it; {} for none.
        alpha: largest difference of difficulty, in its unit; that of `reference` is a percentage point.
        floor: smallest difference of difficulty, in its unit.
        attacks: the attacks to go over; when None those that the reference ranks.
        difficulty: see above; a mapping is attack -> the difficulty of each of its points, or strength -> difficulty,
            and `"clean"` that of the clean input.

    Returns:
        the constant (in points of accuracy per unit of difficulty, at least 0) and its pair of points.

    Raises:
        UserError: points missing, extra or without difficulty, not 0 <= floor < alpha, `epsilon` of several attacks.

    Source: Dai et al. 2023, "MultiRobustBench: Benchmarking Robustness Against Multiple Attacks", definitions 3.6 and
    3.7; section 4.1 for `reference` and alpha.

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})
        >>> constant = stability_constant(model, reference, trained_on={"p": 1.5})
        >>> constant.value, constant.pair
        (32.0, ('p@1', 'q@2'))
        >>> stability_constant(model, reference, {"p": 1.5}, alpha=1, attacks=["p"], difficulty="epsilon").value
        30.0
    """
    if not 0 <= real_or_nan(floor) < real_or_nan(alpha):
        raise UserError(
            f"alpha is {shorten(alpha)} and floor is {shorten(floor)}; expected in units of difficulty: 0 <= floor < "
            "alpha."
        )
    entries = match_entries(accuracies, reference, attacks)
    hard = point_difficulties(entries, difficulty, reference_accuracies(reference))
    pairs = Pairs.select(hard, training_mask(entries, trained_on, reference), alpha, floor)
    if not len(pairs.apart):
        return StabilityConstant(0.0, None, 0.0, 0.0)
    slopes = pairs.slopes(entries.accuracy)
    steepest = int(np.argmax(slopes))
    first, second = int(pairs.first[steepest]), int(pairs.second[steepest])
    return StabilityConstant(
        value=float(slopes[steepest]),
        pair=(entries.name(first), entries.name(second)),
        accuracy_change=float(np.abs(entries.accuracy[first] - entries.accuracy[second])),
        difficulty_change=float(pairs.apart[steepest]),
    )


def point_difficulties(entries: MatchedEntries, given: Difficulty, known: AccuracyTable) -> NDArray[np.float64]:
    """Return the difficulty [K] of ``entries``, see :func:`stability_constant`.

    Raises:
        UserError: a point has no difficulty, or the strengths of several attacks were requested.
    """
    if isinstance(given, str):
        if given == "reference":
            return -entries.reference  # 100 - acc*, of which only differences count
        if given != "epsilon":
            raise UserError(f"There is no difficulty {given!r}; give reference, epsilon, or a number for each point.")
        if len(several := set(entries.attacks) - {CLEAN}) > 1:
            raise UserError(
                f"Strengths of {list_names(sorted(several))} have different units, so they are not one difficulty; "
                "take one "
                "attack, or give a number for each point."
            )
        return entries.strengths
    found = point_values(entries, read_points(given, "difficulties", known))
    if lacking := [entries.name(int(k)) for k in np.flatnonzero(np.isnan(found))]:
        raise UserError(f"No difficulty is given of {list_names(lacking)}; give one for each point.")
    return found


@dataclass(frozen=True, eq=False)
class Pairs:
    """The P pairs of points whose steepest slope is the stability constant.

    Attributes:
        first: [P] positions of the points seen in training.
        second: [P] positions of the other points.
        apart: [P] differences of difficulty.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    apart: NDArray[np.float64]

    @classmethod
    def select(cls, difficulty: NDArray[np.float64], seen: NDArray[np.bool_], alpha: float, floor: float) -> Pairs:
        """Return the pairs of a ``seen`` point [K] with any other, whose difficulties [K] are ``floor`` to
        ``alpha`` apart.
        """
        apart = np.abs(difficulty[:, None] - difficulty[None, :])
        admissible = (apart > TIE_TOLERANCE) & (apart >= floor) & (apart <= alpha) & seen[:, None]
        first, second = np.nonzero(admissible)
        return cls(first, second, apart[first, second])

    def slopes(self, accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the slopes [..., P] for accuracies [..., K]."""
        return np.abs(accuracy[..., self.first] - accuracy[..., self.second]) / self.apart

    def slope_bounds(self, low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[float, float]:
        """Return bounds of the steepest slope for accuracies [K] between ``low`` and ``high``.

        >>> pairs = Pairs(np.array([0]), np.array([1]), np.array([2.0]))
        >>> pairs.slope_bounds(np.array([50.0, 30.0]), np.array([60.0, 40.0]))
        (5.0, 15.0)
        """
        above, below = low[self.first] - high[self.second], low[self.second] - high[self.first]
        least, most = np.maximum(np.maximum(above, below), 0) / self.apart, np.maximum(-above, -below) / self.apart
        return float(least.max()), float(most.max())
