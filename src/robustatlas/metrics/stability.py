"""Stability constant: how fast accuracy may change between points of similar difficulty (MultiRobustBench)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import real
from robustatlas.metrics.references.matching import known_attacks, match_cells, seen_mask
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.accuracies import AccuracyTable

TIE_TOLERANCE = 1e-6
"""Two points whose reference accuracies differ by no more percentage points than this are equally difficult."""


@dataclass(frozen=True)
class StabilityConstant:
    """The stability constant and the pair of points that attains it.

    Attributes:
        value: largest change of accuracy per change of difficulty; 0 where no pair is admissible.
        pair: names of the seen point and of the other one, such as `("linf@0.01", "jpeg-linf@0.15")`; None where no
            pair is admissible.
        accuracy_change: |acc(P1) - acc(P2)| of the pair in percentage points.
        difficulty_change: |acc*(P1) - acc*(P2)| of the pair in percentage points.

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
) -> StabilityConstant:
    """Stability constant (SC) of a model: the smaller, the less its accuracy jumps off what it was trained on.

    SC = max |acc(P1) - acc(P2)| / |s(P1) - s(P2)| over P1 seen in training, P2 any point, with s = 100 - acc* the
    difficulty of a point and 0 < |s(P1) - s(P2)| <= alpha. Equally difficult pairs (up to `TIE_TOLERANCE`) are skipped.

    The plain constant divides by differences of acc* of a few images and is then mostly noise; `floor` (0.5 or 1 say)
    skips the pairs whose difficulties differ by less.

    Args:
        accuracies: of the model, in percent.
        reference: acc*.
        trained_on: attack -> largest strength that the model was trained against; {} for a model trained on clean
            inputs only.
        alpha: largest difference of difficulty in percentage points.
        floor: smallest difference of difficulty in percentage points.
        attacks: the attacks to go over; when None those that the reference ranks.

    Returns:
        the constant (in points of accuracy per point of difficulty, at least 0) and its pair of points.

    Raises:
        UserError: where a point is missing or extra, or not 0 <= floor < alpha.

    Source: Dai et al. 2023, "MultiRobustBench: Benchmarking Robustness Against Multiple Attacks", section 4.

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})
        >>> constant = stability_constant(model, reference, trained_on={"p": 1.5})
        >>> constant.value, constant.pair
        (32.0, ('p@1', 'q@2'))
    """
    if not 0 <= real(floor) < real(alpha):
        raise UserError(
            f"alpha is {brief(alpha)} and floor is {brief(floor)}; expected in percentage points: 0 <= floor < alpha."
        )
    cells = match_cells(accuracies, reference, attacks)
    seen = np.flatnonzero(seen_mask(cells, trained_on, known_attacks(reference)))
    change = np.abs(cells.accuracy[seen, None] - cells.accuracy[None, :])
    difficulty = np.abs(cells.reference[seen, None] - cells.reference[None, :])
    admissible = (difficulty > TIE_TOLERANCE) & (difficulty >= floor) & (difficulty <= alpha)
    if not admissible.any():
        return StabilityConstant(0.0, None, 0.0, 0.0)
    slope = np.where(admissible, change / np.where(admissible, difficulty, 1.0), -1.0)
    row, column = np.unravel_index(int(np.argmax(slope)), slope.shape)
    return StabilityConstant(
        value=float(slope[row, column]),
        pair=(cells.name(int(seen[row])), cells.name(int(column))),
        accuracy_change=float(change[row, column]),
        difficulty_change=float(difficulty[row, column]),
    )
