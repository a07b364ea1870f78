"""The numbers of a model, each with its one interval: exact for a single proportion, bootstrap for all else."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic, confidence_intervals, share_statistic
from robustatlas.metrics.hypervolume import AdversarialHypervolume, adversarial_hypervolume
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.reference import CLEAN
from robustatlas.metrics.registry import attack_metrics, model_metrics, reference_metrics
from robustatlas.outcomes.strengths import strength_position
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers.against import Held
from robustatlas.report.numbers.definitions import CONFIDENCE, REPLICATES


@dataclass(frozen=True)
class Measure:
    """A number as a function of means over the samples, from which its row and its differences are made.

    Attributes:
        what: name of the number.
        at: attack -> the strengths that it rests on.
        statistic: the number as a function of means.
    """

    what: str
    at: Mapping[str, tuple[float, ...]]
    statistic: SampleStatistic


Measures = Mapping[str, Measure]
"""Label -> number; two models are compared in the numbers of one label."""


def intervals(statistics: Mapping[str, SampleStatistic]) -> dict[str, Interval]:
    """Return the interval of each number, at the confidence and with the resamples that all surfaces use."""
    return confidence_intervals(statistics, CONFIDENCE, REPLICATES)


def measured_intervals(table: OutcomeTable, measures: Callable[[OutcomeTable], Measures]) -> dict[str, Interval]:
    """Return the interval of each number of a table.

    Of a randomised model it also covers what the draws leave in doubt: it reaches to the interval of the samples that
    are certainly right.

    Args:
        table: the outcomes.
        measures: numbers of a table, each of which rises or falls with every accuracy.
    """
    found, doubted = intervals(statistics_of(measures(table))), table.with_possible_examples()
    if doubted is None:
        return found
    certain = intervals(statistics_of(measures(doubted)))
    return {
        name: replace(
            number,
            low=float(np.fmin(number.low, certain[name].low)),
            high=float(np.fmax(number.high, certain[name].high)),
        )
        for name, number in found.items()
    }


def statistics_of(measures: Measures) -> dict[str, SampleStatistic]:
    """Return the statistic of each number."""
    return {label: measure.statistic for label, measure in measures.items()}


def measures_of(table: OutcomeTable, worst_at: Mapping[str, float] | None = None) -> dict[str, Measure]:
    """Return clean accuracy, the means over attacks and strengths, the worst case, and numbers such as UA2.

    Args:
        table: with only attacks that are known at every strength.
        worst_at: attack -> strength, see `worst_case_points`; None for no worst case. One attack alone, if the model
            has no other, makes none.
    """
    accuracies, grids = AccuracyStatistics(table), strengths_of(table)
    found = {kinds.CLEAN: Measure(kinds.CLEAN, {}, accuracies.accuracy(CLEAN, 0))}
    if grids:
        found[kinds.MEAN] = Measure(kinds.MEAN, grids, accuracies.average())
    if worst_at and (len(worst_at) > 1 or len(worst_at) < len(grids)):
        worst = share_statistic(table.survivors_at_distances(worst_at))
        found[kinds.WORST] = Measure(kinds.WORST, {attack: (at,) for attack, at in worst_at.items()}, worst)
    found |= {name: Measure(name, grids, one) for name, one in own_statistics(table).items()}
    return found | {
        mean_label(attack): Measure(kinds.MEAN_OF_ATTACK, {attack: grid}, accuracies.average([attack]))
        for attack, grid in grids.items()
    }


def mean_label(attack: str) -> str:
    """Return the label of the mean over the strengths of an attack."""
    return f"average {attack}"


def strengths_of(table: OutcomeTable) -> dict[str, tuple[float, ...]]:
    """Return attack -> its strengths."""
    return {attack: tuple(table.distances(attack).tolist()) for attack in table.attacks}


def own_statistics(table: OutcomeTable) -> dict[str, SampleStatistic]:
    """Return every number of the registry that a model's outcomes give by themselves, such as UA2."""
    found: dict[str, SampleStatistic] = {}
    for metric in model_metrics():
        if metric.of_model:
            found |= metric.of_model(table)
    return found


def against(table: OutcomeTable, held: Held) -> dict[str, SampleStatistic]:
    """Return every metric that the ranked points of a reference give, by the registry's names."""
    if not held.ranked:
        return {}
    ours, reference = AccuracyStatistics(table.restrict_distances(held.ranked), held.weights), held.table(held.ranked)
    return {
        metric.name: metric.against(ours, reference)
        for metric in reference_metrics()
        if metric.against and not (metric.needs_clean and math.isnan(reference.clean))
    }


def measures_against(table: OutcomeTable, held: Held) -> dict[str, Measure]:
    """Return the numbers that a reference gives over all its ranked attacks."""
    ranked = {attack: tuple(strengths) for attack, strengths in held.ranked.items()}
    return {name: Measure(name, ranked, statistic) for name, statistic in against(table, held).items()}


def attack_measures_against(table: OutcomeTable, held: Held) -> dict[str, Measure]:
    """Return the numbers that a reference gives under each attack, on all strengths that both have."""
    found = {}
    for attack, strengths in held.shared.items():
        points = {attack: strengths}
        ours, reference = AccuracyStatistics(table.restrict_distances(points)), held.table(points)
        for metric in attack_metrics():
            if metric.of_attack and not (metric.needs_clean and math.isnan(reference.clean)):
                statistic = metric.of_attack(ours, reference, attack)
                found[f"{metric.name} {attack}"] = Measure(metric.name, {attack: tuple(strengths)}, statistic)
    return found


def intervals_against(
    table: OutcomeTable, held: Held, measures: Callable[[OutcomeTable, Held], Measures] = measures_against
) -> dict[str, Interval]:
    """Return the interval of each ratio to a reference, over all attacks or under each.

    It reaches as far as a ratio can: up to 100 if the reference is the best of models of which this is one.
    """
    most = 100.0 if held.relative else math.inf
    ratios = measured_intervals(table, lambda one: measures(one, held))
    return {name: replace(one, high=max(one.value, min(one.high, most))) for name, one in ratios.items()}


def hypervolume_of(
    table: OutcomeTable, attack: str, strengths: Sequence[float] | None = None
) -> AdversarialHypervolume | None:
    """The hypervolume under an attack, where its margins are known at equal steps of the strength; None elsewhere, and
    where a margin at one strength says nothing of larger ones. ``strengths``: take only these of its strengths."""
    if attack not in table.attacks or not table.outcome(attack).monotone:
        return None
    outcome = table.outcome(attack)
    other = outcome.errors == "improbable"  # of whose confidence the clean margin is none
    clean = None if other or np.isnan(table.clean_margin).any() else table.clean_margin
    try:
        if strengths is None:
            return adversarial_hypervolume(outcome.margins, clean, outcome.strengths)
        whole = adversarial_hypervolume(outcome.margins, clean)
        kept = [strength_position(strength, outcome.strengths.tolist()) for strength in strengths]
        return adversarial_hypervolume(whole.frontier[:, np.array(kept, np.int64)], whole.clean, strengths)
    except UserError:
        return None
