"""The definitions that numbers share: the worst case over attacks, the median size, and when a difference is one.

docs/reading_numbers.md says the same in words, and the other pages link to it.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers.points import points_of_headline, searched_points

CONFIDENCE = 0.95
"""Confidence of every interval."""

REPLICATES = 1000
"""Resamples of every bootstrap interval."""

SIGNIFICANCE = 1 - CONFIDENCE
"""A model is ahead of another one only if the corrected p-value of their difference is below this."""

NOTICEABLE = 1.0
"""An attack decides a worst case noticeably if it alone breaks this share of the samples, in percent."""

FLOOR, CEILING = 5.0, 95.0
"""A robust accuracy below the first or above the second, in percent, says little of how models differ."""


def worst_case_points(table: OutcomeTable, asked: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return the searched strength of each attack at which the worst case over attacks is taken.

    Args:
        table: with only attacks that are known at every strength.
        asked: attack -> strength; None: the strength that papers give or the next searched one, else the middle one.
    """
    if asked is None:
        return points_of_headline(table)
    return searched_points(asked, {attack: table.distances(attack).tolist() for attack in table.attacks}, "--union")


def deciding_shares(table: OutcomeTable, at: Mapping[str, float]) -> dict[str, float]:
    """Return the percent of the samples that each attack of a worst case alone breaks, the largest first.

    Example:
        >>> sizes = {"linf": [0.1, 0.1, 0.9, 0.9], "l2": [0.1, 0.9, 0.1, 0.9]}
        >>> table = OutcomeTable.from_sizes("net", [0] * 4, sizes, {"linf": [0.2], "l2": [0.2]})
        >>> deciding_shares(table, {"linf": 0.2, "l2": 0.2})
        {'linf': 25.0, 'l2': 25.0}
    """
    broken = np.stack(
        [~table.survivors_at_distances({attack: strength}) & table.clean for attack, strength in at.items()]
    )
    alone = broken & (broken.sum(axis=0) == 1)
    shares = dict(zip(at, (100 * alone.mean(axis=1)).tolist(), strict=True))
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def share_wrong_at_half(clean: float) -> float:
    """Return the share of all samples that are wrong where half of the clean accuracy, in percent, is left.

    >>> share_wrong_at_half(80.0)
    0.6
    """
    return 1 - clean / 200


def median_size(outcome: Outcome) -> Interval:
    """Return the size at which half of the samples that are right without a change are wrong, with its interval.

    An attack that was not searched at every strength has no interval, and the ends are NaN.
    """
    if not outcome.is_judged:
        return Interval(outcome.median_size, np.nan, np.nan, CONFIDENCE)
    clean = 100 * float((outcome.minimal_size > 0).mean())
    found = median_of_curve(RobustnessCurve.from_outcome(outcome).distance_curve, clean)
    return replace(found, value=outcome.median_size)


def median_of_curve(curve: RobustnessCurve, clean: float) -> Interval:
    """Return the size at which a curve reaches half of the clean accuracy, in percent, with its interval.

    The interval has the sizes at which the pointwise band of the curve reaches that share of wrong samples.
    """
    half = share_wrong_at_half(clean)
    band = curve.band(CONFIDENCE, kind="pointwise")
    low, high = (
        float(sizes[0]) if len(sizes) else np.inf
        for sizes in (band.sizes[band.high >= 100 * half], band.sizes[band.low >= 100 * half])
    )
    return Interval(float(curve.quantile(half)), low, high, CONFIDENCE)
