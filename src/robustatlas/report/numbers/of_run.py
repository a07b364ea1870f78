"""The numbers of one run, and those of a run against a reference."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.metrics.averages import typical_accuracies
from robustatlas.metrics.bootstrap import AccuracyStatistics, mean_statistic
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.registry import attack_metrics
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.bounds import describe_unsearched
from robustatlas.outcomes.outcome import Outcome, percent
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers import statistics
from robustatlas.report.numbers.against import Held
from robustatlas.report.numbers.definitions import CONFIDENCE, deciding_shares, median_size
from robustatlas.report.numbers.number import Number, Numbers, Status
from robustatlas.report.numbers.statistics import hypervolume_of, intervals
from robustatlas.results.result import Result

NOT_SEARCHED = "as the lowest margins were not searched for"
"""Reason for the status of a hypervolume whose margins fell out of another search."""


def numbers_of_run(result: Result, worst_at: Mapping[str, float]) -> Numbers:
    """Return every number of a run that needs no reference.

    Args:
        result: the run.
        worst_at: attack -> searched strength, of the worst case over attacks.
    """
    made, judged = _Maker(result), result.select_judged()
    overall = statistics.with_doubt(judged, lambda table: intervals(statistics.overall(table, worst_at)))
    means = statistics.with_doubt(judged, lambda table: intervals(statistics.averages(table)))
    grids = _strengths(judged)
    rows = [made.number(overall.pop(kinds.CLEAN), kinds.CLEAN)]
    if (rejected := result.clean_rejected) is not None:
        share = proportion_interval(int(rejected.sum()), result.samples, CONFIDENCE)
        rows.append(made.number(share, kinds.REJECTED))
    if (worst := overall.pop(kinds.WORST, None)) is not None:
        at = {attack: (strength,) for attack, strength in worst_at.items()}
        rows.append(made.number(worst, kinds.WORST, at, decided_by=deciding_shares(judged, worst_at)))
    rows += [made.number(interval, name, grids) for name, interval in overall.items()]
    rows += [made.number(mean, kinds.MEAN_OF_ATTACK, {attack: grids[attack]}) for attack, mean in means.items()]
    for attack in result.attacks:
        rows += made.attack_rows(attack)
    return Numbers((*rows, *_certified(result)))


def numbers_against(result: Result, held: Held) -> Numbers:
    """Return the numbers of a run that a reference gives, over all its ranked attacks and of each attack."""
    made, judged = _Maker(result), result.select_judged()
    ranked = {attack: tuple(strengths) for attack, strengths in held.ranked.items()}
    rows = [made.number(found, name, ranked) for name, found in statistics.intervals_against(judged, held).items()]
    for attack, strengths in held.shared.items():
        found = statistics.with_doubt(judged, partial(_ratios_of_attack, attack=attack, held=held))
        rows += [made.number(one, name, {attack: tuple(strengths)}) for name, one in found.items()]
    return Numbers(rows)


def _ratios_of_attack(table: OutcomeTable, attack: str, held: Held) -> dict[str, Interval]:
    """Return the metrics of one attack, on all strengths that the reference has too."""
    points = {attack: held.shared[attack]}
    ours, reference = AccuracyStatistics(table.restrict_distances(points)), held.table(points)
    found = {
        metric.name: metric.of_attack(ours, reference, attack)
        for metric in attack_metrics()
        if metric.of_attack and not (metric.needs_clean and math.isnan(reference.clean))
    }
    return statistics.limit_ratios(intervals(found), held)


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


def numbers_of_strengths(result: Result, attacks: Sequence[str]) -> Numbers:
    """Return the worst case and the mean over attacks at each of the strengths that they all have.

    Args:
        result: the run.
        attacks: attacks at the same strengths of one unit, known at every strength.
    """
    made, rows = _Maker(result), []
    for strength in result.distances(attacks[0]).tolist():
        at = dict.fromkeys(attacks, (strength,))
        standing = result.survivors_at_distances(dict.fromkeys(attacks, strength))
        worst = proportion_interval(int(standing.sum()), result.samples, CONFIDENCE)
        accuracies = [
            percent(int(result.survivors_at_distances({attack: strength}).sum()), result.samples) for attack in attacks
        ]
        mean = Interval(float(np.mean(accuracies)), math.nan, math.nan, CONFIDENCE)
        rows += [made.number(worst, kinds.WORST_OF_STRENGTH, at), made.number(mean, kinds.MEAN_OF_STRENGTH, at)]
    return Numbers(rows)


class _Maker:
    """Makes rows of one run: with its name, its samples, and the status that the attacks of a number give it."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def number(
        self,
        interval: Interval,
        what: str,
        at: Mapping[str, tuple[float, ...]] | None = None,
        decided_by: Mapping[str, float] | None = None,
    ) -> Number:
        """Return one row."""
        at = at or {}
        status, why = status_of(self._result, at)
        return Number(
            **vars(interval),
            what=what,
            model=self._result.name,
            at=at,
            samples=self._result.samples,
            status=status,
            why=why,
            decided_by=decided_by or {},
        )

    def attack_rows(self, attack: str) -> Iterator[Number]:
        """Yield the rows of one attack."""
        outcome = self._result.outcome(attack)
        grid = tuple(outcome.strengths.tolist())
        for what, found in (
            (kinds.ROBUST, robust_accuracies(outcome)),
            (kinds.TYPICAL, typical_accuracies(outcome, CONFIDENCE) or ()),
        ):
            for strength, interval in zip(grid, found, strict=bool(found)):
                yield self.number(interval, what, {attack: (strength,)})
        yield self.number(median_size(outcome), kinds.MEDIAN, {attack: grid})
        if outcome.is_judged:
            area = RobustnessCurve.from_outcome(outcome).distance_curve.area(grid[-1])
            yield self.number(Interval(area, math.nan, math.nan, CONFIDENCE), kinds.AREA, {attack: grid})
        if (volume := hypervolume_of(self._result, attack)) is not None:
            mean = intervals({"": mean_statistic(volume.per_sample, 1.0)})[""]
            row = self.number(mean, kinds.HYPERVOLUME, {attack: grid})
            searched = outcome.frontier or row.status is not Status.OK
            yield row if searched else replace(row, status=Status.UPPER_BOUND, why=NOT_SEARCHED)


def status_of(result: Result, at: Mapping[str, Collection[float]]) -> tuple[Status, str]:
    """Return the status of a number that rests on some strengths of some attacks, and the reason."""
    if masked_shares(result, at):
        return Status.UPPER_BOUND, "as gradients are missing or mislead"
    typed = {(attack, value_as_typed(attack, strength)) for attack, grid in at.items() for strength in grid}
    unsearched = tuple(point for point in result.unsearched if point in typed)
    if unsearched:
        return Status.UPPER_BOUND, f"as {describe_unsearched(unsearched)}"
    missing = [attack for attack in at if result.missing.get(attack)]
    return (Status.INCOMPLETE, "some samples were not evaluated") if missing else (Status.OK, "")


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


def _strengths(table: OutcomeTable) -> dict[str, tuple[float, ...]]:
    return {attack: tuple(table.distances(attack).tolist()) for attack in table.attacks}
