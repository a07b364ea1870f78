"""Rows for the least and the most that a number can be, whatever a search of its unsearched strengths would find."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.outcomes.bounds import AccuracyBounds
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers.definitions import CONFIDENCE, median_of_curve
from robustatlas.report.numbers.number import Number
from robustatlas.report.numbers.of_run import NOT_SEARCHED, row_of, unsearched_points
from robustatlas.results.result import Result

LeastAndMost = tuple[Number, Number]
"""Two rows of one number that differ in their values; both have the interval that covers either of them."""


def bounded_accuracy(result: Result, points: Mapping[str, float]) -> LeastAndMost:
    """Return robust accuracy under one attack at any strength, or under several and without any; certificates count."""
    known, certain = (_accuracy_bounds(table, points) for table in (result, result.with_possible_examples() or result))
    low = proportion_interval(int(certain.certain.sum()), result.samples, CONFIDENCE).low
    high = proportion_interval(int(known.possible.sum()), result.samples, CONFIDENCE).high
    what, at = kinds.ROBUST if len(points) == 1 else kinds.WORST, {a: (strength,) for a, strength in points.items()}
    least, most = (
        row_of(result, Interval(value, low, high, CONFIDENCE), what, at) for value in (known.low, known.high)
    )
    return least, most


def _accuracy_bounds(table: OutcomeTable, points: Mapping[str, float]) -> AccuracyBounds:
    if len(points) > 1:
        return table.bounds_at_distances(points)
    ((attack, strength),) = points.items()
    return table.attack_bounds_at_distance(attack, strength)


def bounded_median(result: Result, attack: str) -> LeastAndMost:
    """Return the median size as people type it: by the sizes up to which samples certainly withstand, and by examples.

    Where strengths are judged each by itself, nothing is certain. Where typed strengths fall, less is farther.
    """
    ends = [median_of_curve(result.curve(attack).distance_curve, result.clean_accuracy)]
    outcome, proved = result.outcome(attack), result.certified_sizes.get(attack)
    if outcome.monotone:
        sizes = outcome.with_possible_examples().certain_sizes()
        certain = RobustnessCurve(sizes if proved is None else np.maximum(sizes, proved.sizes))
        ends.append(median_of_curve(certain, result.clean_accuracy))
    else:
        ends.append(Interval(0.0, 0.0, 0.0, CONFIDENCE))
    values = [value_as_typed(attack, end.value) for end in ends]
    reach = [value_as_typed(attack, size) for size in (ends[0].high, ends[1].low)]
    at = {attack: tuple(result.distances(attack).tolist())}
    least, most = (
        row_of(result, Interval(value, min(reach), max(reach), CONFIDENCE), kinds.MEDIAN, at)
        for value in (min(values), max(values))
    )
    return least, most


def bounded_row(result: Result, row: Number) -> LeastAndMost:
    """Return a row of the table twice, with 0 as the least if not all that it rests on was searched."""
    is_searched = row.why != NOT_SEARCHED and not unsearched_points(result, row.at)
    return (row if is_searched else replace(row, value=0.0, low=0.0)), row
