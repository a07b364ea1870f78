"""The numbers of a model, each with its one interval: exact for a single proportion, bootstrap for all else."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic, confidence_intervals, share_statistic
from robustatlas.metrics.hypervolume import AdversarialHypervolume, adversarial_hypervolume
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.reference import CLEAN
from robustatlas.metrics.registry import model_metrics, reference_metrics
from robustatlas.outcomes.strengths import strength_position
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers.against import Held
from robustatlas.report.numbers.definitions import CONFIDENCE, REPLICATES


def intervals(statistics: Mapping[str, SampleStatistic]) -> dict[str, Interval]:
    """The interval of each number, at the confidence and with the resamples that all pages use."""
    return confidence_intervals(statistics, CONFIDENCE, REPLICATES)


def with_doubt(table: OutcomeTable, numbers: Callable[[OutcomeTable], dict[str, Interval]]) -> dict[str, Interval]:
    """Numbers with intervals that cover, beside the sampling, what a randomised model leaves in doubt: they reach to
    those of the samples that are certainly right. ``numbers`` rise or fall with every accuracy."""
    found, doubted = numbers(table), table.with_possible_examples()
    if doubted is None:
        return found
    certain = numbers(doubted)
    return {
        name: replace(
            number,
            low=float(np.fmin(number.low, certain[name].low)),
            high=float(np.fmax(number.high, certain[name].high)),
        )
        for name, number in found.items()
    }


def overall(table: OutcomeTable, union: Mapping[str, float] | None = None) -> dict[str, SampleStatistic]:
    """Return clean, average and union accuracy of a model, and what :func:`own_statistics` finds.

    Args:
        table: with only attacks that are known at every strength.
        union: see `worst_case_points`; None for no union. One attack alone, if the model has no other, makes none.
    """
    accuracies = AccuracyStatistics(table)
    found = {"clean accuracy": accuracies.accuracy(CLEAN, 0)}
    if table.attacks:
        found["average accuracy"] = accuracies.average()
    if union and (len(union) > 1 or len(union) < len(table.attacks)):
        found["union accuracy"] = share_statistic(table.survivors_at_distances(union))
    return found | own_statistics(table)


def own_statistics(table: OutcomeTable) -> dict[str, SampleStatistic]:
    """Every number of the registry that a model's outcomes give by themselves, such as UA2."""
    found: dict[str, SampleStatistic] = {}
    for metric in model_metrics():
        if metric.of_model:
            found |= metric.of_model(table)
    return found


def averages(table: OutcomeTable) -> dict[str, SampleStatistic]:
    """Attack -> mean accuracy over its strengths."""
    accuracies = AccuracyStatistics(table)
    return {attack: accuracies.average([attack]) for attack in table.attacks}


def against(table: OutcomeTable, held: Held) -> dict[str, SampleStatistic]:
    """Every metric that the ranked points of a reference give, by the registry's names."""
    if not held.ranked:
        return {}
    ours, reference = AccuracyStatistics(table.restrict_distances(held.ranked), held.weights), held.table(held.ranked)
    return {
        metric.name: metric.against(ours, reference)
        for metric in reference_metrics()
        if metric.against and not (metric.needs_clean and math.isnan(reference.clean))
    }


def intervals_against(table: OutcomeTable, held: Held) -> dict[str, Interval]:
    """The numbers of `against` with their intervals."""
    return limit_ratios(with_doubt(table, lambda table: intervals(against(table, held))), held)


def limit_ratios(ratios: Mapping[str, Interval], held: Held) -> dict[str, Interval]:
    """Ratios to a reference with their intervals as far as they are possible: up to 100 where the reference is the best
    of models of which this is one."""
    most = 100.0 if held.relative else math.inf
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
