"""Differences of metrics between two models on the same samples, and tests of their significance."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.metrics.bootstrap import FEW, SampleStatistic, bootstrap_replicates
from robustatlas.metrics.comparison import mcnemar
from robustatlas.metrics.intervals import Interval, percentile_interval

Floats = NDArray[np.float64]

_MAX_ENUMERATED = 13
"""Largest number of differing samples for which all 8,192 swaps are enumerated."""

_DRAWN_SWAPS = 9_999
"""Number of random swaps for more differing samples."""

_SWAPS_AT_ONCE = 500
"""Number of random swaps that are in memory at once."""


def difference_intervals(
    first: Mapping[str, SampleStatistic],
    second: Mapping[str, SampleStatistic],
    confidence: float = 0.95,
    replicates: int = 1000,
    seed: int = 0,
) -> dict[str, Interval]:
    """Return intervals of first - second for every statistic, by resampling the same samples for both models.

    Where resampling sees no spread, or there are fewer than `FEW` samples, they are between the exact bounds of both
    numbers, as one image on which the models differ shows no difference. An interval that excludes 0 is extended to 0
    where `chance_of_difference` allows that there is none.

    Args:
        first: statistics of one model.
        second: the same statistics of another model, on the same samples.
        confidence: of the intervals; one that excludes 0 shows a difference.
        replicates: number of resamples.
        seed: of the draws.

    Returns:
        name -> the difference with its interval, in the units of the statistic.

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
        interval = percentile_interval(one.value - other.value, our - their, confidence)
        bounded = one.largest is not None and other.largest is not None
        if bounded and (len(one.columns) < FEW or interval.low == interval.high):
            interval = _exact_difference(one, other, confidence)
        few = (one.columns != other.columns).any(axis=1).sum() < FEW  # resampling does as well for more
        if interval.excludes(0) and few and chance_of_difference(one, other, seed) > 1 - confidence:
            interval = replace(interval, low=min(interval.low, 0.0), high=max(interval.high, 0.0))
        found[name] = interval
    return found


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
