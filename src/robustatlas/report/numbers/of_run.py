"""The numbers of one run, and those of a run against a reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.metrics.averages import typical_accuracies
from robustatlas.metrics.bootstrap import mean_statistic
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.hypervolume import AdversarialHypervolume
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.bounds import Point, describe_unsearched
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.strengths import strength_position
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers import statistics
from robustatlas.report.numbers.against import Held
from robustatlas.report.numbers.definitions import CONFIDENCE, deciding_shares, median_size
from robustatlas.report.numbers.number import Number, Numbers, Status
from robustatlas.report.numbers.statistics import hypervolume_of, intervals
from robustatlas.report.numbers.units import unit_of
from robustatlas.results.result import Result

NOT_SEARCHED = "as the lowest margins were not searched for"
"""Reason for the status of a hypervolume whose margins fell out of another search."""


def numbers_of_run(result: Result, worst_at: Mapping[str, float]) -> Numbers:
    """Return every number of a run that needs no reference.

    Args:
        result: the run.
        worst_at: attack -> searched strength, of the worst case over attacks.
    """
    judged = result.select_judged()
    measured = measured_rows(result, judged, partial(statistics.measures_of, worst_at=worst_at))
    rows = [measured.pop(kinds.CLEAN)]
    if (rejected := result.clean_rejected) is not None:
        rows.append(row_of(result, _share(rejected), kinds.REJECTED))
    rows += measured.values()
    for attack in result.attacks:
        rows += _attack_rows(result, attack)
    return Numbers((*rows, *_rows_of_strengths(judged), *_certified(result)))


def numbers_against(result: Result, held: Held) -> Numbers:
    """Return the numbers of a run that a reference gives, over all its ranked attacks and under each attack."""
    return Numbers(tuple({**rows_against(result, held), **attack_rows_against(result, held)}.values()))


def rows_against(result: Result, held: Held) -> dict[str, Number]:
    """Return label -> row that a reference gives over all its ranked attacks."""
    return _ratio_rows(result, held, statistics.measures_against)


def attack_rows_against(result: Result, held: Held) -> dict[str, Number]:
    """Return label -> row that a reference gives under each attack."""
    return _ratio_rows(result, held, statistics.attack_measures_against)


def _ratio_rows(
    result: Result, held: Held, measures: Callable[[OutcomeTable, Held], statistics.Measures]
) -> dict[str, Number]:
    judged = result.select_judged()
    ends = statistics.intervals_against(judged, held, measures)
    found = measures(judged, held)
    return {label: row_of(result, ends[label], measure.what, measure.at) for label, measure in found.items()}


def measured_rows(
    result: Result, table: Result, measures: Callable[[OutcomeTable], statistics.Measures]
) -> dict[str, Number]:
    """Return label -> row of each number of a run.

    Args:
        result: the run.
        table: the run with only attacks that are known at every strength.
        measures: the numbers of a table.
    """
    ends, found = statistics.measured_intervals(table, measures), measures(table)
    rows = {label: row_of(result, ends[label], measure.what, measure.at) for label, measure in found.items()}
    if (worst := rows.get(kinds.WORST)) is not None:
        rows[kinds.WORST] = replace(worst, decided_by=deciding_shares(table, worst.points))
    return rows


def row_of(result: Result, interval: Interval, what: str, at: Mapping[str, tuple[float, ...]] | None = None) -> Number:
    """Return a row of a run, with the status that the attacks and strengths of the number give it."""
    at = at or {}
    status, why = status_of(result, at)
    return Number(**vars(interval), what=what, model=result.name, at=at, samples=result.samples, status=status, why=why)


def hypervolume_row(result: Result, attack: str, volume: AdversarialHypervolume, scale: float = 1.0) -> Number:
    """Return the row of a mean hypervolume, times a factor; an upper bound unless the lowest margins were searched."""
    mean = intervals({"": mean_statistic(scale * volume.per_sample, scale)})[""]
    row = row_of(result, mean, kinds.HYPERVOLUME, {attack: tuple(result.distances(attack).tolist())})
    is_searched = result.outcome(attack).frontier or row.status is not Status.OK
    return row if is_searched else replace(row, status=Status.UPPER_BOUND, why=NOT_SEARCHED)


def robust_accuracies(outcome: Outcome) -> tuple[Interval, ...]:
    """Return robust accuracy at each strength; none if not every strength was searched."""
    if not outcome.is_judged:
        return ()
    correct = (~outcome.broken()).sum(axis=0).tolist()
    certain = (~outcome.with_possible_examples().broken()).sum(axis=0).tolist()
    return tuple(
        replace(found, low=proportion_interval(sure, outcome.samples, CONFIDENCE).low)
        for count, sure in zip(correct, certain, strict=True)
        for found in [proportion_interval(count, outcome.samples, CONFIDENCE)]
    )


def _rows_of_strengths(result: Result) -> Iterator[Number]:
    """Yield the worst case and the mean over attacks at each strength that several attacks of one unit have."""
    grids = statistics.strengths_of(result)
    alike: dict[tuple[str, tuple[float, ...]], list[str]] = {}
    for attack in result.attacks:
        alike.setdefault((unit_of(attack, result.outcome(attack).unit), grids[attack]), []).append(attack)
    for (_, strengths), attacks in alike.items():
        for strength in strengths if len(attacks) > 1 else ():
            at = dict.fromkeys(attacks, (strength,))
            standing = [result.survivors_at_distances({attack: strength}) for attack in attacks]
            mean = Interval(float(np.mean([_share(each).value for each in standing])), math.nan, math.nan, CONFIDENCE)
            yield row_of(result, _share(np.logical_and.reduce(standing)), kinds.WORST_OF_STRENGTH, at)
            yield row_of(result, mean, kinds.MEAN_OF_STRENGTH, at)


def _share(chosen: NDArray[np.bool_]) -> Interval:
    return proportion_interval(int(chosen.sum()), len(chosen), CONFIDENCE)


def _attack_rows(result: Result, attack: str) -> Iterator[Number]:
    """Yield the rows of one attack that need no resampling, and its hypervolume."""
    outcome = result.outcome(attack)
    grid = tuple(outcome.strengths.tolist())
    for what, found in (
        (kinds.ROBUST, robust_accuracies(outcome)),
        (kinds.TYPICAL, typical_accuracies(outcome, CONFIDENCE) or ()),
    ):
        for strength, interval in zip(grid, found, strict=bool(found)):
            yield row_of(result, interval, what, {attack: (strength,)})
    yield row_of(result, median_size(outcome), kinds.MEDIAN, {attack: grid})
    if outcome.is_judged:
        area = RobustnessCurve.from_outcome(outcome).distance_curve.area(grid[-1])
        yield row_of(result, Interval(area, math.nan, math.nan, CONFIDENCE), kinds.AREA, {attack: grid})
    if (volume := hypervolume_of(result, attack)) is not None:
        yield hypervolume_row(result, attack, volume)


def status_of(result: Result, at: Mapping[str, Collection[float]]) -> tuple[Status, str]:
    """Return the status of a number that rests on some strengths of some attacks, and the reason."""
    if masked_shares(result, at):
        return Status.UPPER_BOUND, "as gradients are missing or mislead"
    if unsearched := unsearched_points(result, at):
        return Status.UPPER_BOUND, f"as {describe_unsearched(unsearched)}"
    missing = [attack for attack in at if result.missing.get(attack)]
    return (Status.INCOMPLETE, "some samples were not evaluated") if missing else (Status.OK, "")


def unsearched_points(result: Result, at: Mapping[str, Collection[float]]) -> tuple[Point, ...]:
    """Return the attacks and strengths of a number, as people type them, that were not searched."""
    found = []
    for attack, strengths in at.items():
        searched = result.outcome(attack).searched_strengths.tolist()
        found += [
            (attack, value_as_typed(attack, each)) for each in strengths if strength_position(each, searched) is None
        ]
    return tuple(found)


def _certified(result: Result) -> Iterator[Number]:
    """Yield the accuracies that certificates prove, at the strengths of the attack or of the certificate."""
    for row, held in result.certified_sizes.items():
        grid = result.distances(row).tolist() if row in result.attacks else held.strengths
        for strength, share in zip(grid, held.accuracies(grid).tolist(), strict=True):
            interval = proportion_interval(round(share * len(held.sizes) / 100), len(held.sizes), CONFIDENCE)
            at = {row: (float(strength),)}
            yield Number(
                **vars(interval),
                what=kinds.CERTIFIED,
                model=held.of or result.name,
                at=at,
                samples=len(held.sizes),
                status=Status.CERTIFIED,
            )
