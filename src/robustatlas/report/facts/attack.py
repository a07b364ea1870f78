"""Facts of one attack of a run: accuracies, margins, queries, and who found the smallest examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.typed_strengths import STANDARD_STRENGTHS
from robustatlas.common.wording import UPPER_BOUND, join_words
from robustatlas.metrics.averages import success_over_queries
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.hypervolume import AdversarialHypervolume, equal_steps
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.registry import attack_metrics
from robustatlas.outcomes.outcome import Integers, Outcome
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts.grids import GridAdvice, grid_advice
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers.against import Held
from robustatlas.report.numbers.definitions import CONFIDENCE
from robustatlas.report.numbers.number import Number, Numbers
from robustatlas.report.numbers.points import searched_from
from robustatlas.report.numbers.statistics import hypervolume_of
from robustatlas.report.numbers.units import unit_of
from robustatlas.results.result import Result


@dataclass(frozen=True)
class AttackFacts:
    """One attack of a run.

    Attributes:
        strengths: [S].
        accuracy: [S] robust accuracy in percent; None where not every strength was searched.
        unsearched: the strengths, as people type them, at which sizes alone were searched, so that the accuracy is an
            upper bound only.
        typical: [S] mean accuracy over draws in percent; None where nothing was drawn of all samples.
        average: mean of the accuracies; None likewise.
        curve: robustness curve; None likewise.
        area: area under the curve up to the largest strength, in percent; None likewise.
        standard: (least, most) percent that withstand the strength at which papers give accuracies, where it is known.
        sizes: [N] of the smallest adversarial example of each sample; 0 misclassified clean, inf where none was found.
        median: size at which half of the samples that are right without a change are wrong; inf where never.
        quartiles: the same for a quarter, half and three quarters of them.
        forward, backward: mean passes for one sample.
        seconds: time of the attack on all samples.
        frontier: None where the margins were not recorded at every strength, or the strengths are not equal steps.
        equal_steps: whether the strengths are equal steps from 0.
        against: name of a metric of the registry -> percent of the reference; empty without a shared strength.
        origins: how the numbers were found.
        best_known: what verified examples of others change; None where there are none.
        found_last: kind of run, in words -> share of the smallest examples, in percent; empty where not known.
        own_threat: whether another threat model was searched than the reference's, so that comparisons are rough.
        advice: better strengths, where these tell little; None where they do.
        queries: success over the number of queries, of a model that could only be asked; empty of others.
    """

    attack: str
    unit: str
    strengths: NDArray[np.float64]
    accuracy: tuple[Number, ...] | None
    unsearched: tuple[float, ...]
    typical: tuple[Number, ...] | None
    average: Number | None
    curve: RobustnessCurve | None
    area: float | None
    standard: tuple[float, float] | None
    sizes: NDArray[np.float64]
    median: Number
    quartiles: tuple[float, float, float]
    forward: float
    backward: float
    seconds: float
    frontier: Frontier | None
    equal_steps: bool
    against: Mapping[str, Number]
    origins: tuple[str, ...]
    best_known: BestKnown | None
    found_last: Mapping[str, float]
    own_threat: bool
    advice: GridAdvice | None
    queries: tuple[QuerySuccess, ...]

    @property
    def never(self) -> int:
        """Number of samples without an adversarial example."""
        return int(np.isinf(self.sizes).sum())

    @property
    def clean_errors(self) -> int:
        """Number of samples misclassified clean."""
        return int((self.sizes == 0).sum())


def attack_facts(result: Result, attack: str, table: Numbers, held: Held | None) -> AttackFacts:
    """Return the facts of an attack.

    Args:
        result: the run.
        attack: name of the attack.
        table: the numbers of the run, and those against the reference if there is one.
        held: the run held against a reference; None without one.
    """
    outcome = result.outcome(attack)
    forward, backward = result.passes(attack)
    area, median = table.find(kinds.AREA, attack), table.find(kinds.MEDIAN, attack)
    assert median is not None
    curve = RobustnessCurve.from_outcome(outcome).distance_curve if outcome.is_judged else None
    return AttackFacts(
        attack=attack,
        unit=unit_of(attack, outcome.unit),
        strengths=outcome.strengths,
        accuracy=table.select(kinds.ROBUST, attack) or None,
        unsearched=tuple(strength for _, strength in outcome.unsearched),
        typical=table.select(kinds.TYPICAL, attack) or None,
        average=table.find(kinds.MEAN_OF_ATTACK, attack),
        curve=curve,
        area=None if area is None else area.value,
        standard=_bounds_at_standard(result, attack) if curve is not None else None,
        sizes=outcome.minimal_size,
        median=median,
        quartiles=(outcome.size_that_breaks(0.25), median.value, outcome.size_that_breaks(0.75)),
        forward=forward,
        backward=backward,
        seconds=outcome.seconds,
        frontier=_frontier(result, attack, table),
        equal_steps=equal_steps(outcome.strengths),
        against={
            metric.name: one for metric in attack_metrics() if (one := table.find(metric.name, attack)) is not None
        },
        origins=outcome.origins,
        best_known=best_known(result, attack),
        found_last=_shares_of_kinds(outcome),
        own_threat=held is not None and attack in held.own_threat,
        advice=_advice(result, attack),
        queries=query_successes(outcome),
    )


def _bounds_at_standard(result: Result, attack: str) -> tuple[float, float] | None:
    """Return the least and most percent at the strength at which papers give accuracies; None where there is no such
    strength, or no search reached it."""
    if attack not in STANDARD_STRENGTHS or searched_from(result.outcome(attack), STANDARD_STRENGTHS[attack][0]) is None:
        return None
    known = result.attack_bounds_at_distance(attack, STANDARD_STRENGTHS[attack][0])
    return known.low, known.high


def _advice(result: Result, attack: str) -> GridAdvice | None:
    """Return better strengths, up to the size beyond which images do not differ; None where nothing tells how strong
    the attack is."""
    if attack in result.unproven:
        return None
    largest = next((record.largest for record in result.records.values() if record.name == attack), None)
    return grid_advice(result.outcome(attack), result.clean_accuracy, largest)


def _shares_of_kinds(outcome: Outcome) -> dict[str, float]:
    counts = outcome.counts_by_run()
    return {kind: 100 * count / sum(counts.values()) for kind, count in counts.items()}


def _frontier(result: OutcomeTable, attack: str, table: Numbers) -> Frontier | None:
    volume, mean_volume = hypervolume_of(result, attack), table.find(kinds.HYPERVOLUME, attack)
    if volume is None or mean_volume is None:
        return None
    sizes, mean = result.distances(attack), volume.frontier.mean(axis=0)
    if not np.isnan(result.clean_margin).any():
        sizes, mean = np.append(0.0, sizes), np.append(volume.clean.mean(), mean)
    return Frontier(sizes, mean, mean_volume, volume, result.outcome(attack).frontier)


@dataclass(frozen=True)
class Frontier:
    """The margin that is left as the strength grows. ``sizes`` [L]: strengths, after 0 where clean margins are known.
    ``mean`` [L]: margin left, over the samples, in [0, 1]. ``volume``: mean hypervolume, an upper bound unless the
    lowest margins were ``searched`` for."""

    sizes: NDArray[np.float64]
    mean: NDArray[np.float64]
    volume: Number
    hypervolume: AdversarialHypervolume
    searched: bool

    @property
    def word(self) -> str:
        """Words beside the hypervolume; empty where it was searched for."""
        return "" if self.searched else UPPER_BOUND


LIMITS = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
"""Numbers of queries at which success is told, about a third of a decade apart."""


@dataclass(frozen=True)
class QuerySuccess:
    """One attack at one strength. ``limits`` [Q]: numbers of queries; ``success`` [Q]: percent of samples broken.

    >>> QuerySuccess("square-linf", 0.1, (10,), (proportion_interval(3, 10),)).success[0].value
    30.0
    """

    attack: str
    strength: float
    limits: tuple[int, ...]
    success: tuple[Interval, ...]


def query_successes(outcome: Outcome) -> tuple[QuerySuccess, ...]:
    """Return what an attack without gradients found at its middle and its largest strength, by queries.

    >>> import robustatlas as ra
    >>> ask = ra.from_predictions(lambda x: (x.sum((1, 2, 3)) > 2).astype(int), "labels", classes=2, queries=60)
    >>> data = (np.full((2, 1, 2, 2), 0.6, np.float32), np.array([1, 1]))
    >>> result = ra.evaluate(ask, data, strengths={"hop-skip-jump-l2": [0.5, 1.0]})
    >>> [(found.strength, found.limits) for found in query_successes(result.outcome("hop-skip-jump-l2"))]
    [(0.5, (10, 30, 60)), (1.0, (10, 30, 60))]
    """
    if outcome.queries is None:
        return ()
    asked, last = int(outcome.forward.max()), len(outcome.strengths) - 1
    limits = (*(limit for limit in LIMITS if limit < asked), asked)
    return tuple(
        _query_success(outcome, outcome.queries[:, level], level, limits) for level in sorted({last // 2, last})
    )


def _query_success(outcome: Outcome, queries: Integers, level: int, limits: tuple[int, ...]) -> QuerySuccess:
    shares = success_over_queries(queries, limits)
    counts = np.rint(shares / 100 * outcome.samples).astype(int).tolist()
    success = tuple(proportion_interval(count, outcome.samples, CONFIDENCE) for count in counts)
    return QuerySuccess(outcome.attack, float(outcome.strengths[level]), limits, success)


@dataclass(frozen=True)
class BestKnown:
    """Changes that examples of others make under one attack. ``by``: finder -> number of samples whose smallest example
    is theirs. ``searched``, ``known`` [S]: robust accuracy in percent by the run's own searches, and with all examples;
    None where some strength was not searched."""

    by: Mapping[str, int]
    searched: NDArray[np.float64] | None
    known: NDArray[np.float64] | None

    @property
    def names(self) -> Sequence[str]:
        """Finders of smallest examples, those of most first."""
        return sorted((name for name, count in self.by.items() if count), key=lambda name: (-self.by[name], name))

    def sentence(self, attack: str) -> str:
        """Who found what."""
        if not self.names:
            return (
                f"{attack}: verified examples of {join_words(sorted(self.by))}, none smaller than those of the search."
            )
        whose = join_words([f"{name} ({self.by[name]})" for name in self.names])
        return f"{attack}: best known; the smallest examples of {sum(self.by.values())} samples are by {whose}."


def best_known(result: Result, attack: str) -> BestKnown | None:
    """Return what verified examples of others change under an attack; None where the run holds none."""
    records = [record for record in result.records.values() if record.name == attack]
    finders = {record.origin: record.examples_source for record in records if record.examples_source is not None}
    if not finders:
        return None
    outcome, searched = result.outcome(attack), result.searched(attack)
    found = outcome.counts_by_origin()
    return BestKnown(
        by={finder: found.get(origin, 0) for origin, finder in finders.items()},
        searched=searched.accuracies() if searched.is_judged else None,
        known=outcome.accuracies() if outcome.is_judged else None,
    )
