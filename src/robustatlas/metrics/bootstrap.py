"""Bootstrap intervals of all metrics that are functions of means over the samples, of the columns of a matrix [N, K].

A replicate draws N samples with replacement; how often it drew each sample are the weights of its means. All replicates
are one product of a matrix of weights [R, N] with the columns. scipy.stats.bootstrap draws for one statistic at a time;
here all statistics, both models of a pair and all trainings of a model share one draw.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import integer_or_none
from robustatlas.metrics.competitiveness import RatioKind, check_ratio, weighted_ratios
from robustatlas.metrics.intervals import Interval, percentile_interval, proportion_bounds, proportion_interval
from robustatlas.metrics.references.matching import (
    match_entries,
    point_weights,
    reference_accuracies,
    select_attacks,
    training_mask,
)
from robustatlas.metrics.references.reference import CLEAN, Points, Reference
from robustatlas.metrics.stability import Difficulty, Pairs, point_difficulties
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.table import OutcomeTable

Floats = NDArray[np.float64]

_REPLICATES_PER_BLOCK = 128

FEW = 30
"""Fewer samples than this are too few to resample: their intervals are the exact bounds."""


@dataclass(frozen=True, eq=False)
class SampleStatistic:
    """A number that is a function of means over samples.

    Attributes:
        columns: [N, K] what is averaged; 0 or 100 where it is whether a sample is correct, so that means are percent.
        combine: means [..., K] -> the number [...].
        proportion: position of the column of 0 and 100 whose mean the number is, where it is that of a single column:
            an accuracy, which has an exact interval.
        largest: what a column reaches at most, where all lie between 0 and that and the number grows with every mean;
            None where no such thing is known. It gives the number an exact bound.
        between: lower and upper bounds of the means [K] -> those of the number, where it does not grow with every mean.

    Example:
        >>> ratio = SampleStatistic(np.array([[1, 2], [3, 2]], np.float32), lambda means: means[..., 0] / means[..., 1])
        >>> float(ratio.combine(ratio.columns.mean(0)))
        1.0
    """

    columns: NDArray[np.float32]
    combine: Callable[[Floats], Floats]
    proportion: int | None = None
    largest: float | None = None
    between: Callable[[Floats, Floats], tuple[float, float]] | None = None

    @property
    def value(self) -> float:
        """The number for the samples at hand."""
        return float(self.combine(self.columns.sum(axis=0, dtype=np.float64) / len(self.columns)))

    def bound(self, confidence: float = 0.95) -> Interval:
        """Return the number at the exact lower and at the exact upper bounds of all its means.

        Wider than a bootstrap interval, as it lets all means err to the same side; it never collapses to a point.

        Raises:
            UserError: the columns have no known range, or the confidence is outside of (0, 1).
        """
        if self.largest is None:
            raise UserError("There is no exact bound of a number whose columns have no known range.")
        samples = len(self.columns)
        shares = np.clip(self.columns.sum(axis=0, dtype=np.float64) / self.largest, 0, samples)
        ends = [end * self.largest / 100 for end in proportion_bounds(shares, samples, confidence)]
        low, high = self.between(*ends) if self.between is not None else (float(self.combine(end)) for end in ends)
        return Interval(self.value, low, high, confidence)


def bootstrap_replicates(statistics: Sequence[SampleStatistic], replicates: int = 1000, seed: int = 0) -> Floats:
    """Return values [M, R] of M statistics on R resamples, each resample the same for all of them.

    Statistics that share their columns (the same array) share the work.

    Args:
        statistics: all of the same N samples.
        replicates: number of resamples R.
        seed: of the draws.

    Returns:
        the values [M, R].

    Raises:
        UserError: the statistics are not of the same samples, there are no samples, or `replicates` is below 1.

    Example:
        >>> accuracy = mean_statistic(np.array([1.0, 1.0, 0.0, 1.0]))
        >>> bootstrap_replicates([accuracy], replicates=3).shape
        (1, 3)
    """
    counts = {len(statistic.columns) for statistic in statistics}
    if len(counts) != 1:
        raise UserError(f"Statistics of the same samples are expected; these have {sorted(counts)} samples.")
    count, origin = integer_or_none(replicates), integer_or_none(seed)
    if count is None or count < 1:
        raise UserError(f"The number of replicates is {shorten(replicates)}; at least 1 is expected, 1000 are usual.")
    if origin is None or origin < 0:
        raise UserError(f"The seed of the draws is {shorten(repr(seed))}; a whole number from 0 on is expected.")
    samples = counts.pop()
    if not samples:
        raise UserError("There are no samples to draw from; at least one is expected.")
    distinct = {id(statistic.columns): statistic.columns for statistic in statistics}
    generator = np.random.default_rng(origin)
    blocks = []
    for start in range(0, count, _REPLICATES_PER_BLOCK):
        resamples = range(min(_REPLICATES_PER_BLOCK, count - start))
        drawn = [np.bincount(generator.integers(samples, size=samples), minlength=samples) for _ in resamples]
        weights = np.array(drawn, np.float32)  # [R, N], how often each resample contains each sample
        means = {key: (weights @ columns).astype(np.float64) / samples for key, columns in distinct.items()}
        blocks.append([statistic.combine(means[id(statistic.columns)]) for statistic in statistics])
    return np.concatenate(blocks, axis=1)


def mean_statistic(values: NDArray[np.float64] | NDArray[np.bool_], largest: float | None = None) -> SampleStatistic:
    """Return the mean of one number per sample [N], such as the hypervolume of each; from 0 to `largest` if given.

    Args:
        values: [N] finite numbers, or booleans.
        largest: what a value reaches at most, where all lie between 0 and that; it gives the mean an exact bound.

    Returns:
        the mean as a statistic, in the units of the values.

    Raises:
        UserError: the values are not a list of finite numbers.

    Example:
        >>> print(confidence_intervals({"hypervolume": mean_statistic(np.linspace(0.2, 0.4, 100))})["hypervolume"])
        0.30 [0.29, 0.31]
    """
    column = np.asarray(values, dtype=np.float32)
    if column.ndim != 1 or not np.isfinite(column).all():
        raise UserError(
            f"One finite number for each sample is expected; given an array of shape {column.shape} with "
            f"{int((~np.isfinite(column)).sum())} that are not finite."
        )
    return SampleStatistic(column[:, None], lambda means: means[..., 0], largest=largest)


def share_statistic(chosen: NDArray[np.bool_]) -> SampleStatistic:
    """Return the share of samples [N] that something holds for, in percent, such as those that survive several attacks.

    Args:
        chosen: [N] whether it holds for the sample.

    Returns:
        the share in percent, as a statistic whose interval is exact.

    Example:
        >>> print(confidence_intervals({"correct": share_statistic(np.repeat([True, False], [45, 5]))})["correct"])
        90.00 [78.19, 96.67]
    """
    return replace(mean_statistic(100.0 * np.asarray(chosen, np.float64), 100.0), proportion=0)


def confidence_intervals(
    statistics: Mapping[str, SampleStatistic], confidence: float = 0.95, replicates: int = 1000, seed: int = 0
) -> dict[str, Interval]:
    """Return the interval of each number: exact (Clopper-Pearson) of a single proportion, percentile bootstrap of
    all else.

    Where resampling sees no spread, or there are fewer than `FEW` samples, it is the exact bound of the number.

    Args:
        statistics: name -> statistic; all of the same N samples.
        confidence: of the intervals, in (0, 1).
        replicates: number of resamples.
        seed: of the draws.

    Returns:
        name -> the value of the statistic with its interval.

    Raises:
        UserError: the statistics are not of the same samples, or `confidence` or `replicates` is out of range.

    Example:
        >>> alive = np.repeat([True, False], [45, 5])
        >>> print(confidence_intervals({"survivors": share_statistic(alive)})["survivors"])
        90.00 [78.19, 96.67]
    """
    rest = {name: statistic for name, statistic in statistics.items() if statistic.proportion is None}
    values = bootstrap_replicates(list(rest.values()), replicates, seed) if rest else np.empty((0, 0))
    found = {
        name: percentile_interval(statistic.value, row, confidence)
        for (name, statistic), row in zip(rest.items(), values, strict=True)
    }
    for name, statistic in statistics.items():
        if statistic.proportion is not None:
            column = statistic.columns[:, statistic.proportion]
            found[name] = proportion_interval(int(np.count_nonzero(column)), len(column), confidence)
        elif statistic.largest is not None and (len(statistic.columns) < FEW or found[name].low == found[name].high):
            found[name] = statistic.bound(confidence)
    return {name: found[name] for name in statistics}


class AccuracyStatistics:
    """Statistics of one model that are functions of its accuracies; they all share one matrix of columns.

    Args:
        outcomes: of the model.
        weights: how often an attacker chooses each point, as of `competitiveness_ratio`; None: all alike.

    Example:
        >>> outcomes = OutcomeTable.from_sizes("a", [1, 1], {"p": [0.2, 0.0]}, {"p": [0.1, 0.2]})
        >>> AccuracyStatistics(outcomes).average().value
        25.0
    """

    def __init__(self, outcomes: OutcomeTable, weights: Points | None = None) -> None:
        self.outcomes, self.weights = outcomes, weights
        self.table = outcomes.accuracies().drop_doubts()
        correct = [outcomes.correct(attack) for attack in outcomes.attacks]
        self.columns = np.float32(100) * np.column_stack([outcomes.clean, *correct])
        self._position = {CLEAN: np.array([0])}
        start = 1
        for attack, judged in zip(outcomes.attacks, correct, strict=True):
            self._position[attack] = np.arange(start, start + judged.shape[1])
            start += judged.shape[1]

    def accuracy(self, attack: str, strength: int) -> SampleStatistic:
        """Return accuracy in percent under an attack at one of its strengths (by position), or `CLEAN` and 0.

        Raises:
            UserError: no such attack, or no strength at that position.
        """
        columns = self._columns([attack])
        if not 0 <= strength < len(columns):
            raise UserError(f"{attack} has {len(columns)} strengths; there is none at position {strength}.")
        column = int(columns[strength])
        return SampleStatistic(self.columns, lambda means: means[..., column], proportion=column, largest=100.0)

    def average(self, attacks: Sequence[str] | None = None) -> SampleStatistic:
        """Return `average_accuracy` in percent."""
        columns = self._columns(self.outcomes.attacks if attacks is None else attacks)
        single = int(columns[0]) if len(columns) == 1 else None
        return SampleStatistic(
            self.columns, lambda means: means[..., columns].mean(axis=-1), proportion=single, largest=100.0
        )

    def points_average(self, positions: Mapping[str, int]) -> SampleStatistic:
        """Return mean accuracy in percent over attacks, each at one of its strengths (by position).

        Raises:
            UserError: no such attack.
        """
        columns = np.array([self._columns([attack])[at] for attack, at in positions.items()])
        return SampleStatistic(self.columns, lambda means: means[..., columns].mean(axis=-1), largest=100.0)

    def competitiveness(
        self, reference: Reference | AccuracyTable, kind: RatioKind = "ind-avg", attacks: Sequence[str] | None = None
    ) -> SampleStatistic:
        """Return `competitiveness_ratio` in percent.

        Raises:
            UserError: as of `competitiveness_ratio`.
        """
        matched = match_entries(self.table, reference, attacks)
        weight = point_weights(matched, self.weights if attacks is None else None)
        entries, kept = matched.select(weight > 0), weight[weight > 0]
        check_ratio(entries, kind)
        columns = self._columns(list(dict.fromkeys(matched.attacks)))[weight > 0]
        return SampleStatistic(
            self.columns,
            lambda means: weighted_ratios(means[..., columns], entries.reference, kind, kept),
            largest=100.0,
        )

    def uar(self, reference: Reference | AccuracyTable, attacks: Sequence[str] | None = None) -> SampleStatistic:
        """Return `mean_uar` in percent; with one attack its `unforeseen_attack_robustness`.

        Raises:
            UserError: as of `mean_uar`.
        """
        parts = []
        for attack in select_attacks(self.table, reference, attacks):
            entries = match_entries(self.table, reference, [attack], clean=False)
            check_ratio(entries, "exp")
            parts.append((self._position[attack], entries.reference))

        def combine(means: Floats) -> Floats:
            ratios = [weighted_ratios(means[..., columns], reference, "exp") for columns, reference in parts]
            return np.asarray(np.mean(ratios, axis=0))

        return SampleStatistic(self.columns, combine, largest=100.0)

    def stability(
        self,
        reference: Reference | AccuracyTable,
        trained_on: Mapping[str, float],
        alpha: float = 3.0,
        floor: float = 0.0,
        attacks: Sequence[str] | None = None,
        difficulty: Difficulty = "reference",
    ) -> SampleStatistic:
        """Return `stability_constant`, where there is a pair of points that gives one.

        Raises:
            UserError: as of `stability_constant`.
        """
        entries = match_entries(self.table, reference, attacks)
        hard = point_difficulties(entries, difficulty, reference_accuracies(reference))
        pairs = Pairs.select(hard, training_mask(entries, trained_on, reference), alpha, floor)
        columns = self._columns(list(dict.fromkeys(entries.attacks)))
        return SampleStatistic(
            self.columns,
            lambda means: pairs.slopes(means[..., columns]).max(axis=-1),
            largest=100.0,
            between=lambda low, high: pairs.slope_bounds(low[columns], high[columns]),
        )

    def _columns(self, attacks: Sequence[str]) -> NDArray[np.int64]:
        if not attacks:
            raise UserError("The set of attacks is empty; name at least one attack.")
        unknown = [attack for attack in attacks if attack not in self._position]
        if unknown:
            known = ", ".join(self.outcomes.attacks) or "none"
            raise UserError(f"{self.outcomes.name} was not evaluated with {', '.join(unknown)}; it has {known}.")
        return np.concatenate([self._position[attack] for attack in attacks])
