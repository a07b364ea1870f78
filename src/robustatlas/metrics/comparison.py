"""Comparison of models on the same samples: tests, correlations, and differences of metrics with their intervals."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy  # which imports its parts where they are used: stats takes long
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import real_array
from robustatlas.metrics.bootstrap import FEW, SampleStatistic, bootstrap_replicates
from robustatlas.metrics.intervals import Interval, percentile_interval
from robustatlas.outcomes.comparable import check_paired
from robustatlas.outcomes.strengths import is_same_strength
from robustatlas.outcomes.table import OutcomeTable

Floats = NDArray[np.float64]

_EXACT = 8
"""Values of the smaller set up to which the rank-sum test is exact; Guo et al. 2024 print the normal approximation of
ten values each."""

_MOST_EXACT = 500
"""Values of both sets together up to which it is exact in spite of ties; the time grows with the cube of their number,
and the normal distribution is near for so many."""

_CONSTANT = 1e-13
"""Scores whose deviations are not larger than this share of them differ by rounding alone."""


@dataclass(frozen=True, eq=False)
class McNemar:
    """McNemar's exact test of two models at several points, such as the strengths of an attack.

    Attributes:
        only_first: [S] number of samples that only the first model gets right.
        only_second: [S] number that only the second one gets right.
        p_values: [S] two-sided, exact. From :func:`mcnemar` each stands for itself; from :func:`mcnemar_at_strengths`
            they are corrected (Holm) for all its tests together.

    Example:
        >>> test = mcnemar([[True, True]] * 8, [[False, True]] * 8)
        >>> test.only_first, test.p_values
        (array([8, 0]), array([0.0078125, 1.       ]))
    """

    only_first: NDArray[np.int64]
    only_second: NDArray[np.int64]
    p_values: Floats


@dataclass(frozen=True)
class RankTest:
    """A rank test of two models.

    Attributes:
        p_value: two-sided.
        effect: probability that the first model has the larger value minus that the second has, in [-1, 1]. Over pairs
            of one sample each (rank-sum), or over the samples they share (signed-rank).

    Example:
        >>> rank_sum_test([0.5, 0.6], [0.1, 0.6]).effect
        0.25
    """

    p_value: float
    effect: float


def mcnemar(first: ArrayLike, second: ArrayLike) -> McNemar:
    """Return McNemar's exact test: do two models get different shares of the same samples right?

    Args:
        first: [N, S] (or [N]) whether the first model is correct.
        second: the same of the second model, for the same samples.

    Returns:
        the tests [S], with p-values that are not corrected for their number.

    Raises:
        UserError: the models were not judged on the same samples and strengths, or there are no samples.

    Source: McNemar 1947, Psychometrika 12(2); exact by the binomial distribution of the discordant samples.

    Example:
        >>> test = mcnemar([True] * 8 + [False] * 2, [False] * 8 + [False] * 2)
        >>> int(test.only_first[0]), float(test.p_values[0])
        (8, 0.0078125)
    """
    ours, theirs = (_correctness(values) for values in (first, second))
    if ours.shape != theirs.shape:
        raise UserError(
            f"The models were not judged on the same samples and strengths: shapes {ours.shape} and {theirs.shape}."
        )
    if not len(ours):
        raise UserError("There are no samples to test on; at least one is expected.")
    only_first, only_second = (ours & ~theirs).sum(axis=0), (theirs & ~ours).sum(axis=0)
    discordant = only_first + only_second
    p_values = np.minimum(1.0, 2 * scipy.special.bdtr(np.minimum(only_first, only_second), discordant, 0.5))
    return McNemar(only_first, only_second, np.asarray(p_values, dtype=np.float64))


def mcnemar_at_strengths(first: OutcomeTable, second: OutcomeTable) -> dict[str, McNemar]:
    """Return McNemar's test at every strength of every attack, with p-values corrected (Holm) for all of these
    tests together.

    Args:
        first: outcomes of one model.
        second: outcomes of another model on the same samples, with the same attacks and strengths.

    Returns:
        attack -> the tests at its strengths [S].

    Raises:
        UserError: the models were not evaluated on the same samples, attacks and strengths.

    Example:
        >>> first = OutcomeTable.from_sizes("a", [1] * 8, {"linf": [0.2] * 8}, {"linf": [0.1, 0.3]})
        >>> second = OutcomeTable.from_sizes("b", [1] * 8, {"linf": [0.05] * 8}, {"linf": [0.1, 0.3]})
        >>> mcnemar_at_strengths(first, second)["linf"].p_values
        array([0.015625, 1.      ])
    """
    check_paired(first, second)
    alone = sorted(set(first.attacks) ^ set(second.attacks))
    if alone:
        raise UserError(f"Only one of {first.name} and {second.name} was evaluated with {', '.join(alone)}.")
    tests = {}
    for attack in first.attacks:
        strengths, others = first.distances(attack), second.distances(attack)
        if len(strengths) != len(others) or not all(map(is_same_strength, strengths, others)):
            raise UserError(
                f"{first.name} and {second.name} were not evaluated at the same strengths of {attack}; take those they "
                "share with common_strengths and restrict."
            )
        tests[attack] = mcnemar(first.correct(attack), second.correct(attack))
    if not tests:
        return {}
    corrected = holm(np.concatenate([test.p_values for test in tests.values()]))
    ends = np.cumsum([len(test.p_values) for test in tests.values()])[:-1]
    return {
        attack: McNemar(test.only_first, test.only_second, p_values)
        for (attack, test), p_values in zip(tests.items(), np.split(corrected, ends), strict=True)
    }


def rank_sum_test(first: ArrayLike, second: ArrayLike) -> RankTest:
    """Return Wilcoxon's rank-sum test of two independent sets of values [N], [M]; equal values have their mean rank.

    Table II of the adversarial hypervolume paper is this test over trainings: robust accuracy and mean hypervolume of
    ten seeds of each model, a value for each training. Over images, a value for each image of one training, it is not
    the paper's, and says nothing of a new seed; on shared images `signed_rank_test` sees more.

    Args:
        first: [N] finite values of one model, such as one for each training.
        second: [M] finite values of the other.

    Returns:
        the two-sided p-value and the effect in [-1, 1].

    Raises:
        UserError: a set of values is empty or not finite.

    Source: Wilcoxon 1945, Biometrics Bulletin 1(6). The p-value is exact where the smaller set has at most 8 values
    and, if some values are equal, both sets together have at most 500. Otherwise it is that of the normal distribution
    with the corrections for ties and for continuity (``scipy.stats.mannwhitneyu``): for ten trainings a side, as in
    Guo et al. 2024.

    Example:
        >>> test = rank_sum_test([0.5, 0.6, 0.7], [0.1, 0.2, 0.3])
        >>> round(test.p_value, 2), test.effect
        (0.1, 1.0)
    """
    ours, theirs = _values(first), _values(second)
    outcome = scipy.stats.mannwhitneyu(ours, theirs, alternative="two-sided")
    both = np.concatenate([ours, theirs])
    tied = len(np.unique(both)) < both.size
    exact = tied and min(ours.size, theirs.size) <= _EXACT and both.size <= _MOST_EXACT
    p_value = _rank_sum_chance(both, ours.size) if exact else float(outcome.pvalue)
    return RankTest(p_value, float(2 * outcome.statistic / (ours.size * theirs.size) - 1))


def _rank_sum_chance(values: Floats, count: int) -> float:
    """Return the two-sided p-value of the rank sum of the first `count` of `values`, over all ways to choose as many.

    `ways[k, s]` counts the choices of k values whose doubled mean ranks, which are integers, sum to s. The smaller one
    of both sets is counted, as its rank sum says the same.
    """
    doubled = np.rint(2 * scipy.stats.rankdata(values)).astype(np.int64)
    chosen = doubled[:count] if 2 * count <= values.size else doubled[count:]
    ways = np.zeros((len(chosen) + 1, int(np.sort(doubled)[-len(chosen) :].sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    sums, observed = ways[-1] / ways[-1].sum(), int(chosen.sum())
    return float(min(1.0, 2 * min(sums[: observed + 1].sum(), sums[observed:].sum())))


def signed_rank_test(first: ArrayLike, second: ArrayLike) -> RankTest:
    """Return Wilcoxon's signed-rank test of values [N] of two models on the same samples; equal values count (Pratt).

    Infinite minimal sizes have no differences: cap them at the largest size of interest first.

    Args:
        first: [N] finite values of one model.
        second: [N] those of the other on the same samples, in the same order.

    Returns:
        the two-sided p-value and the effect in [-1, 1].

    Raises:
        UserError: the numbers of values differ, or a value is not finite.

    Example:
        >>> test = signed_rank_test([0.5, 0.6, 0.7, 0.9], [0.1, 0.3, 0.5, 0.6])
        >>> round(test.p_value, 3), test.effect
        (0.125, 1.0)
    """
    ours, theirs = _values(first), _values(second)
    if ours.shape != theirs.shape:
        raise UserError(f"A paired test needs the same samples; given {ours.size} and {theirs.size} values.")
    difference = ours - theirs
    effect = float(np.mean(np.sign(difference)))
    if not difference.any():
        return RankTest(1.0, 0.0)
    outcome = scipy.stats.wilcoxon(ours, theirs, zero_method="pratt", alternative="two-sided")
    return RankTest(float(outcome.pvalue), effect)


def holm(p_values: ArrayLike) -> Floats:
    """Return Holm's correction of p-values [T] for T tests: rejecting those <= alpha errs at all with probability
    <= alpha.

    Args:
        p_values: [T] in [0, 1].

    Returns:
        the corrected p-values [T], in the order given.

    Raises:
        UserError: a p-value is outside of [0, 1].

    Source: Holm 1979, Scandinavian Journal of Statistics 6(2).

    Example:
        >>> holm([0.01, 0.04, 0.03])
        array([0.03, 0.06, 0.06])
    """
    p = real_array(p_values, "p-values")
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise UserError("A list of p-values between 0 and 1 is expected.")
    order = np.argsort(p)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * (p.size - np.arange(p.size))))
    return corrected


def attack_correlation(
    scores: ArrayLike, method: Literal["pearson", "spearman"] = "pearson", seen: ArrayLike | None = None
) -> Floats:
    """Return the agreement of attacks on models: the correlation matrix [A, A] of scores [M, A] of M models under A
    attacks.

    Args:
        scores: such as the UAR (:func:`uar_matrix`) of each model under each attack.
        method: `pearson` for the scores, `spearman` for their ranks.
        seen: [M, A], whether a model was trained against an attack; a pair of attacks is correlated over the models
            that were trained against neither. The paper does so, over UAR of adversarially trained defenses alone: the
            network without a defense is not a row. None: over all models.

    Returns:
        correlations in [-1, 1]; NaN with an attack under which all models have the same score, and for a pair that
        fewer than 3 models have not seen.

    Raises:
        UserError: fewer than 3 models, scores that are not finite, or a method that there is not.

    Source: Kang et al. 2019, "Testing Robustness Against Unforeseen Adversaries", Figure 6b.

    Example:
        >>> attack_correlation([[1.0, 30.0], [2.0, 20.0], [3.0, 10.0]]).round(6)
        array([[ 1., -1.],
               [-1.,  1.]])
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or len(values) < 3 or not np.isfinite(values).all():
        raise UserError(
            f"Finite scores [models, attacks] of at least 3 models are expected; given shape {values.shape}."
        )
    if method not in ("pearson", "spearman"):
        raise UserError(f"There is no correlation {method!r}; the methods are pearson, spearman.")
    trained = np.zeros(values.shape, dtype=np.bool_) if seen is None else np.asarray(seen, dtype=np.bool_)
    if trained.shape != values.shape:
        raise UserError(f"seen has the shape {trained.shape}, the scores {values.shape}; expected the same.")
    return _correlations(values[:, :, None], trained[:, :, None] | trained[:, None, :], method)


def _correlations(scores: Floats, left_out: NDArray[np.bool_], method: str) -> Floats:
    """Return [A, A] of scores [M, A, 1], each of the pairs over the models that are not ``left_out`` [M, A, A]."""
    first = np.where(left_out, np.nan, scores)  # of each pair; of the second, the transposed
    if method == "spearman":
        first = scipy.stats.rankdata(first, axis=0, nan_policy="omit")
    number = (~left_out).sum(axis=0)
    centred = first - np.nansum(first, axis=0) / np.maximum(number, 1)
    length, whole = (np.sqrt(np.nansum(each**2, axis=0)) for each in (centred, first))
    known = (number >= 3) & (length > _CONSTANT * whole)
    products = np.nansum(centred * centred.swapaxes(1, 2), axis=0)
    lengths = length * length.T
    found: Floats = np.divide(products, lengths, out=np.full_like(products, np.nan), where=known & known.T)
    return found.clip(-1, 1)


def _correctness(values: ArrayLike) -> NDArray[np.bool_]:
    correct = np.asarray(values)
    if correct.dtype != np.bool_ or correct.ndim not in (1, 2):
        raise UserError(f"Booleans [samples, strengths] are expected; given {correct.dtype} of shape {correct.shape}.")
    return correct[:, None] if correct.ndim == 1 else correct


def _values(values: ArrayLike) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1 or numbers.size == 0 or not np.isfinite(numbers).all():
        raise UserError("One finite number for each sample is expected; cap infinite sizes at the largest of interest.")
    return numbers


_MAX_ENUMERATED = 13
"""Largest number of differing samples for which all 8,192 swaps are enumerated."""

_DRAWN_SWAPS = 9_999
"""Number of random swaps for more differing samples."""

_SWAPS_AT_ONCE = 500
"""Number of random swaps that are in memory at once."""


@dataclass(frozen=True)
class Difference(Interval):
    """Difference of one number between two models, with its interval and its p-value, which agree.

    The p-value is below 1 - confidence exactly where the interval excludes 0.

    Attributes:
        value: difference, in the units of the number.
        low, high: ends of the interval.
        confidence: of the interval, in (0, 1).
        p_value: p-value of no difference, in [0, 1].

    Example:
        >>> Difference(10.0, 4.0, 16.0, 0.95, p_value=0.002).excludes(0)
        True
    """

    p_value: float = 1.0


def difference_intervals(
    first: Mapping[str, SampleStatistic],
    second: Mapping[str, SampleStatistic],
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
    tested: bool = True,
) -> dict[str, Difference]:
    """Return first - second for every statistic with intervals, by resampling the same samples for both models.

    Where resampling sees no spread, or there are fewer than `FEW` samples, the intervals are between the exact bounds
    of both numbers, as one image on which the models differ shows no difference. Interval and p-value are one rule: the
    p-value is the larger one of `chance_of_difference` and of the level at which the interval begins to exclude 0, and
    an interval is extended to 0 where the p-value is not below 1 - confidence.

    Args:
        first: statistics of one model.
        second: the same statistics of another model, on the same samples.
        confidence: of the intervals; one that excludes 0 shows a difference.
        replicates: number of resamples.
        seed: of the draws.
        tested: compute each p-value; otherwise only where the interval excludes 0, and 1 elsewhere, which is faster.

    Returns:
        name -> the difference with its interval and p-value, in the units of the statistic.

    Raises:
        UserError: the models have other statistics, or other samples.

    Example:
        >>> from robustatlas.metrics import mean_statistic, share_statistic
        >>> a, b = np.repeat([1.0, 0.0], [80, 20]), np.repeat([1.0, 0.0], [70, 30])
        >>> found = difference_intervals({"accuracy": mean_statistic(100 * a)}, {"accuracy": mean_statistic(100 * b)})
        >>> print(found["accuracy"])
        10.00 [4.00, 16.00]
        >>> one = {"accuracy": share_statistic(np.array([True]))}, {"accuracy": share_statistic(np.array([False]))}
        >>> print(difference_intervals(*one)["accuracy"])
        100.00 [-97.50, 100.00]
    """
    if first.keys() != second.keys():
        raise UserError(f"The models' statistics differ: {', '.join(sorted(first.keys() ^ second.keys()))}.")
    if not first:
        return {}
    values = bootstrap_replicates([*first.values(), *second.values()], replicates, seed)
    ours, theirs = np.split(values, 2)
    found = {}
    for name, our, their in zip(first, ours, theirs, strict=True):
        one, other = first[name], second[name]
        interval, level = percentile_interval(one.value - other.value, our - their, confidence), 1 - confidence
        least = _level_excluding_zero(our - their)
        bounded = one.largest is not None and other.largest is not None
        if bounded and (len(one.columns) < FEW or interval.low == interval.high):
            interval, least = _exact_difference(one, other, confidence), 0.0
        if not interval.excludes(0):
            least = max(least, level)
        p_value = max(least, chance_of_difference(one, other, seed)) if tested or interval.excludes(0) else 1.0
        if p_value >= level:
            interval = replace(interval, low=min(interval.low, 0.0), high=max(interval.high, 0.0))
        found[name] = Difference(**vars(interval), p_value=p_value)
    return found


def _level_excluding_zero(replicates: Floats) -> float:
    """Return the level above which the percentile interval of the replicates [R] excludes 0: twice the smaller share of
    them, with interpolation, on either side of 0."""
    below, above = (_share_not_above_zero(np.sort(values)) for values in (replicates, -replicates))
    return min(1.0, 2 * min(below, above))


def _share_not_above_zero(ordered: Floats) -> float:
    """Return the largest share of the sorted values [R] whose quantile is not above 0."""
    count = int(np.searchsorted(ordered, 0.0, side="right"))
    if count in (0, len(ordered)):
        return float(count > 0)
    last, following = ordered[count - 1], ordered[count]
    return float((count - 1 - last / (following - last)) / (len(ordered) - 1))


def chance_of_difference(first: SampleStatistic, second: SampleStatistic, seed: int = 0) -> float:
    """Return the two-sided p-value of a difference at least as large between equal models.

    Of a proportion it is McNemar's exact test. Of any other number the two models are swapped on some of the samples
    that they judge differently: the share of the ways to do so that give a difference as large. Up to 13 such samples
    all ways are tried, of more 9,999 that are drawn.

    Args:
        first: a number of one model.
        second: the same number of another one, on the same samples.
        seed: of the swaps that are drawn, of more than 13 samples.

    Returns:
        a p-value in [0, 1].

    Source: McNemar 1947, Psychometrika 12(2); Fisher 1935, "The Design of Experiments", for the swaps.

    Example:
        >>> from robustatlas.metrics import mean_statistic, share_statistic
        >>> ours, theirs = np.arange(100) < 90, np.arange(100) < 84
        >>> chance_of_difference(share_statistic(ours), share_statistic(theirs))
        0.03125
        >>> chance_of_difference(mean_statistic(1.0 * ours), mean_statistic(1.0 * theirs))
        0.03125
    """
    if first.proportion is not None and second.proportion is not None:
        right = [statistic.columns[:, statistic.proportion] > 0 for statistic in (first, second)]
        return float(mcnemar(*right).p_values[0])
    differ = (first.columns != second.columns).any(axis=1)
    if not differ.any():
        return 1.0
    gaps = (second.columns[differ].astype(np.float64) - first.columns[differ]) / len(differ)
    means = [statistic.columns.mean(axis=0, dtype=np.float64) for statistic in (first, second)]
    observed = abs(first.value - second.value) * (1 - 1e-9)
    as_large = ways = 0
    for swaps in _swaps(int(differ.sum()), seed):
        moved = swaps @ gaps
        found = np.abs(first.combine(means[0] + moved) - second.combine(means[1] - moved))
        as_large, ways = as_large + int((found >= observed).sum()), ways + len(swaps)
    drawn = int(ways == _DRAWN_SWAPS)  # the one that was seen counts among those that are drawn
    return (as_large + drawn) / (ways + drawn)


def _swaps(samples: int, seed: int) -> Iterator[NDArray[np.bool_]]:
    """Yield parts of [R, samples] that say whether to swap the models on each sample: all ways, or some that are
    drawn.
    """
    if samples <= _MAX_ENUMERATED:
        yield np.asarray(np.arange(2**samples)[:, None] >> np.arange(samples) & 1, np.bool_)
        return
    chance = np.random.default_rng(seed)
    for start in range(0, _DRAWN_SWAPS, _SWAPS_AT_ONCE):
        yield chance.random((min(_SWAPS_AT_ONCE, _DRAWN_SWAPS - start), samples)) < 0.5


def _exact_difference(first: SampleStatistic, second: SampleStatistic, confidence: float) -> Interval:
    """Return first - second between the exact bounds of both, each with half of the error probability."""
    ours, theirs = (statistic.bound(1 - (1 - confidence) / 2) for statistic in (first, second))
    return Interval(first.value - second.value, ours.low - theirs.high, ours.high - theirs.low, confidence)
