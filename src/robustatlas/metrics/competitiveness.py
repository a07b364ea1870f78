"""Competitiveness ratio: how near a defense comes to models trained against each attack (MultiRobustBench)."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.metrics.references.matching import (
    MatchedEntries,
    match_entries,
    point_weights,
    reference_accuracies,
    training_mask,
)
from robustatlas.metrics.references.reference import Points, Reference, attacks_that_count, read_points
from robustatlas.outcomes.accuracies import AccuracyTable

RatioKind = Literal["ind-avg", "ind-worst", "exp", "max"]


@dataclass(frozen=True)
class InOut:
    """Competitiveness ratio over what a defense was trained on, and over everything else, in percent.

    Attributes:
        inside: over the clean point and the attacks of the training up to their strengths; NaN where none has a weight.
        outside: over all other points; NaN where the training covered every point that has one.

    Example:
        >>> InOut(inside=82.5, outside=50.0).outside
        50.0
    """

    inside: float
    outside: float


def competitiveness_ratio(
    accuracies: AccuracyTable,
    reference: Reference | AccuracyTable,
    kind: RatioKind = "ind-avg",
    attacks: Iterable[str] | None = None,
    weights: Points | None = None,
) -> float:
    """Return competitiveness ratio (CR) of a model, in percent of the reference; may exceed 100.

    K is the set of evaluated points P: every (attack, strength), and the clean input once. Ratios are not clipped.

    - `ind-avg`: expectation over K of acc(P) / acc*(P), the average-case leaderboard.
    - `ind-worst`: smallest acc(P) / acc*(P), the worst-case leaderboard.
    - `exp`: expectation of acc over expectation of acc*.
    - `max`: smallest acc over smallest acc*, wherever each is.

    The attacker chooses P with a probability in proportion to its weight; the paper's leaderboard takes all alike. A
    point without a weight is not in K, so that a choice of attacks is a choice of weights 0 and 1. With a single attack
    in `attacks` this is the single-attack CR of that attack.

    Args:
        accuracies: of the model, in percent.
        reference: acc*, the accuracies of models trained against the very attack.
        kind: see above.
        attacks: the attacks to go over; when None those that have a weight, or else those that the reference ranks.
        weights: attack -> the weight of each of its points, or strength -> weight; `"clean"` is that of the clean
            input, and what is not named has weight 0. None: those of the reference, or all alike.

    Returns:
        percent of the reference, at least 0.

    Raises:
        UserError: where a point is missing or extra, where a ratio would be taken to a reference of 0, or for weights
            that are negative, of no known point, or all 0.

    Source: Dai et al. 2023, "MultiRobustBench: Benchmarking Robustness Against Multiple Attacks", definitions 3.4 and
    3.5, and appendix E for `exp` and `max`.

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})
        >>> round(competitiveness_ratio(model, reference), 6)
        67.588608
        >>> competitiveness_ratio(model, reference, weights={"clean": 1, "p": {1: 3}})
        78.75
    """
    entries, weight = _match_weighted(accuracies, reference, attacks, weights)
    return _ratio(entries, kind, weight)


def competitiveness_in_out(
    accuracies: AccuracyTable,
    reference: Reference | AccuracyTable,
    trained_on: Mapping[str, float],
    kind: RatioKind = "ind-avg",
    attacks: Iterable[str] | None = None,
    weights: Points | None = None,
) -> InOut:
    """Return competitiveness ratio over the points seen in training and over the others.

    Args:
        accuracies: of the model, in percent.
        reference: acc*.
        trained_on: attack -> largest strength that the model was trained against, as people type it; {} for none.
        kind, attacks, weights: as for `competitiveness_ratio`.

    Returns:
        both ratios, in percent.

    Raises:
        UserError: where a point is missing or extra, or where a ratio would be taken to a reference of 0.

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
        >>> model = AccuracyTable(81, {"p": {1: 60, 2: 30}, "q": {1: 77, 2: 28}})
        >>> competitiveness_in_out(model, reference, trained_on={"p": 1.5}).inside
        82.5
    """
    entries, weight = _match_weighted(accuracies, reference, attacks, weights)
    seen = training_mask(entries, trained_on, reference)
    inside, outside = (
        _ratio(entries.select(part), kind, weight[part]) if part.any() else math.nan for part in (seen, ~seen)
    )
    return InOut(inside, outside)


def percent_seen(
    accuracies: AccuracyTable,
    reference: Reference | AccuracyTable,
    trained_on: Mapping[str, float],
    attacks: Iterable[str] | None = None,
) -> float:
    """Return share of the evaluated points that a model saw in training, in percent; the clean point counts as seen.

    Args:
        accuracies: of the model; their points count.
        reference: whose ranked attacks are gone over.
        trained_on: attack -> largest strength that the model was trained against, as people type it; {} for none.
        attacks: the attacks to go over; when None those that the reference ranks.

    Returns:
        percent, in [0, 100].

    Example:
        >>> reference = AccuracyTable(90, {"p": {1: 80, 2: 60}, "q": {1: 88, 2: 79}})
        >>> percent_seen(reference, reference, trained_on={"p": 1.5})
        40.0
    """
    entries = match_entries(accuracies, reference, attacks)
    return 100.0 * float(np.mean(training_mask(entries, trained_on, reference)))


def check_ratio(entries: MatchedEntries, kind: RatioKind) -> None:
    """Raise where a ratio of that kind does not exist, or would be taken to a reference of 0."""
    if kind not in get_args(RatioKind):
        raise UserError(f"There is no competitiveness ratio {kind!r}; the kinds are {', '.join(get_args(RatioKind))}.")
    zeros = np.flatnonzero(entries.reference == 0)
    if kind == "exp" and zeros.size < entries.reference.size:
        return
    if zeros.size:
        raise UserError(
            f"The reference accuracy at {entries.name(int(zeros[0]))} is 0, so there is no ratio to it; restrict both "
            "tables to smaller strengths with AccuracyTable.restrict."
        )


def weighted_ratios(
    accuracy: NDArray[np.float64],
    reference: NDArray[np.float64],
    kind: RatioKind,
    weight: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return competitiveness ratios [...] in percent of accuracies [..., K] to reference accuracies [K], whose
    points have positive weights [K]; None: all alike.
    """
    return 100.0 * _FORMULAS[kind](accuracy, reference, np.ones_like(reference) if weight is None else weight)


def _match_weighted(
    accuracies: AccuracyTable,
    reference: Reference | AccuracyTable,
    attacks: Iterable[str] | None,
    weights: Points | None,
) -> tuple[MatchedEntries, NDArray[np.float64]]:
    known = reference_accuracies(reference)
    if weights is not None:
        weights = read_points(weights, "weights", known)
        attacks = attacks_that_count(weights, known) if attacks is None else attacks
    elif isinstance(reference, Reference):
        weights = reference.weights
    entries = match_entries(accuracies, reference, attacks)
    weight = point_weights(entries, weights)
    return entries.select(weight > 0), weight[weight > 0]


def _ratio(entries: MatchedEntries, kind: RatioKind, weight: NDArray[np.float64]) -> float:
    check_ratio(entries, kind)
    return float(weighted_ratios(entries.accuracy, entries.reference, kind, weight))


Floats = NDArray[np.float64]
Formula = Callable[[Floats, Floats, Floats], Floats]

_FORMULAS: dict[str, Formula] = {
    "ind-avg": lambda accuracy, reference, weight: np.average(accuracy / reference, axis=-1, weights=weight),
    "ind-worst": lambda accuracy, reference, weight: (accuracy / reference).min(axis=-1),
    "exp": lambda accuracy, reference, weight: (accuracy * weight).sum(axis=-1) / (reference * weight).sum(),
    "max": lambda accuracy, reference, weight: accuracy.min(axis=-1) / reference.min(),
}
