"""The numbers of several runs on what all of them share, and of each pair of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from robustatlas.metrics.bootstrap import SampleStatistic, mean_statistic, share_statistic
from robustatlas.metrics.hypervolume import AdversarialHypervolume
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers import statistics
from robustatlas.report.numbers.against import Held
from robustatlas.report.numbers.definitions import worst_case_points
from robustatlas.report.numbers.headline import HeadlineChoice, choose_headline, headline_label, mean_instead
from robustatlas.report.numbers.number import Number, Status
from robustatlas.report.numbers.of_run import hypervolume_row, measured_rows, rows_against
from robustatlas.report.numbers.pairs import Pair, pairs_of
from robustatlas.report.numbers.shared import Shared
from robustatlas.report.numbers.statistics import hypervolume_of
from robustatlas.results.result import Result


@dataclass(frozen=True)
class ModelNumbers:
    """One of several models on what all of them share.

    Attributes:
        table: its outcomes there.
        volumes: attack -> hypervolume over the shared strengths, where it has one.
        numbers: label -> row of the table of numbers.
        statistics: label -> the number as a function of means over the samples, for differences.
    """

    table: Result
    volumes: Mapping[str, AdversarialHypervolume]
    numbers: Mapping[str, Number]
    statistics: Mapping[str, SampleStatistic]

    @property
    def barred(self) -> set[str]:
        """Labels of the numbers that may not compete, as they are upper bounds only."""
        return labels_of_upper_bounds(self.numbers, self.table)

    def restrict(self, labels: Collection[str]) -> ModelNumbers:
        """Return the model with some of its numbers."""
        volumes = {attack: one for attack, one in self.volumes.items() if volume_label(attack) in labels}
        numbers = {label: one for label, one in self.numbers.items() if label in labels}
        return replace(
            self, volumes=volumes, numbers=numbers, statistics={label: self.statistics[label] for label in numbers}
        )


def labels_of_upper_bounds(numbers: Mapping[str, Number], table: OutcomeTable) -> set[str]:
    """Return the labels of numbers that are upper bounds only: of a misleading gradient, or not searched for."""
    return {
        label
        for label, number in numbers.items()
        if number.status is Status.UPPER_BOUND or masked_shares(table, number.at)
    }


@dataclass(frozen=True)
class SharedNumbers:
    """Several models on what all of them share, in the order in which they are given.

    Attributes:
        shared: the runs and what they share.
        held: the runs held against a reference; None without one.
        models: the numbers of each model, under the same labels.
        pairs: every pair of models.
        headline: where the headline stands.
        worst_at: attack -> strength of the worst case over attacks.
    """

    shared: Shared
    held: Held | None
    models: Sequence[ModelNumbers]
    pairs: Sequence[Pair]
    headline: HeadlineChoice
    worst_at: Mapping[str, float]

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the numbers."""
        return tuple(self.models[0].numbers)

    @property
    def headline_labels(self) -> tuple[str, ...]:
        """The label of each headline attack: at its strength, or in the mean over its strengths."""
        numbers = self.models[0].numbers
        if self.headline.at:
            return tuple(label for label, number in numbers.items() if number.what == kinds.ROBUST)
        means = tuple(label for label, number in numbers.items() if number.what == kinds.MEAN_OF_ATTACK)
        return means or (kinds.MEAN,)

    @property
    def leading_label(self) -> str:
        """The label of the number for a surface that has room for one."""
        return self.headline_labels[0] if self.headline.at else kinds.MEAN


def numbers_of_several(
    shared: Shared,
    held: Held | None = None,
    worst_at: Mapping[str, float] | None = None,
    headline: Mapping[str, float] | None = None,
) -> SharedNumbers:
    """Return the numbers of several runs on what they share.

    Args:
        shared: the runs and what they share.
        held: the runs held against a reference.
        worst_at: attack -> strength of the worst case over attacks; None: see `worst_case_points`.
        headline: attack -> strength that the user asked for first; None: see `choose_headline`. Where the images tell
            no two models apart at any usual strength, it is the mean.

    Raises:
        UserError: an attack or a strength is asked for that is not there.
    """
    tables = [shared.table(run) for run in range(len(shared.names))]
    worst = worst_case_points(tables[0], worst_at)
    choice = choose_headline(tables, headline)
    found = [numbers_on_shared(shared, run, held, worst, choice.at) for run in range(len(tables))]
    labels = [label for label in found[0].numbers if all(label in one.numbers for one in found)]
    models = [one.restrict(labels) for one in found]
    pairs = pairs_of([one.statistics for one in models], [one.barred for one in models])
    several = SharedNumbers(shared, held, models, pairs, choice, worst)
    apart = any(pair.leader(label) is not None for pair in pairs for label in several.headline_labels)
    if choice.at and not choice.asked and not apart:
        points = set(several.headline_labels)
        models = [one.restrict([label for label in labels if label not in points]) for one in models]
        return replace(several, models=models, headline=mean_instead(choice))
    return several


def numbers_on_shared(
    shared: Shared, run: int, held: Held | None, worst_at: Mapping[str, float], first: Mapping[str, float]
) -> ModelNumbers:
    """Return the numbers of one run beside others.

    Args:
        shared: the runs and what they share.
        run: position of the run.
        held: the runs held against a reference.
        worst_at: attack -> strength of the worst case over attacks.
        first: attack -> strength of robust accuracies at one point.
    """
    table, whole = shared.table(run), shared.run_on_samples(run)
    found = {a: hypervolume_of(whole, a, strengths) for a, strengths in shared.grid.items() if len(strengths) > 1}
    volumes = {attack: volume for attack, volume in found.items() if volume is not None}
    measures = partial(_measures, worst_at=worst_at, first=first)
    numbers = measured_rows(table, table, measures)
    numbers |= {volume_label(attack): hypervolume_row(table, attack, one, 100.0) for attack, one in volumes.items()}
    functions = statistics.statistics_of(measures(table))
    functions |= {volume_label(a): mean_statistic(100 * one.per_sample, 100.0) for a, one in volumes.items()}
    if held is not None:
        numbers |= rows_against(table, held)
        functions |= statistics.reference_statistics(table, held)
    return ModelNumbers(table, volumes, numbers, functions)


def volume_label(attack: str) -> str:
    """Return the label of the hypervolume under an attack."""
    return f"hypervolume {attack}, x 100"


def point_label(attack: str, strength: float) -> str:
    """Return the label of robust accuracy at one strength."""
    return headline_label(Number(0, 0, 0, 0, kinds.ROBUST, "", {attack: (strength,)}, 0))


def _measures(
    table: OutcomeTable, worst_at: Mapping[str, float], first: Mapping[str, float]
) -> dict[str, statistics.Measure]:
    """Return the accuracies of a model; of one attack its mean stands once."""
    found = {}
    for attack, strength in first.items():
        standing = share_statistic(table.survivors_at_distances({attack: strength}))
        found[point_label(attack, strength)] = statistics.Measure(kinds.ROBUST, {attack: (strength,)}, standing)
    found |= statistics.measures_of(table, worst_at)
    if len(table.attacks) == 1:
        del found[statistics.mean_label(table.attacks[0])]
    return found
