"""Several trainings of one model, with other seeds, as one: mean, deviation and intervals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts where they are used: stats takes long
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import real_array
from robustatlas.metrics.bootstrap import FEW, SampleStatistic, bootstrap_replicates, confidence_intervals
from robustatlas.metrics.intervals import Interval, check_confidence, percentile_interval

_ROUNDING = 1e-12
"""Values that differ by no more than this share of the largest one are equal but for rounding."""


@dataclass(frozen=True, eq=False)
class OverTrainings:
    """A number of several trainings.

    Attributes:
        values: [R] of each training.
        trainings: their mean, with its interval over the choice of trainings (Student's t; of one, all numbers).
        images: their mean, with its interval over the choice of test images, for these very trainings.

    Example:
        >>> values = np.array([50.0, 54.0])
        >>> found = OverTrainings(values, mean_over_trainings(values), images=Interval(52.0, 50.0, 54.0, 0.95))
        >>> found.mean, round(found.std, 2)
        (52.0, 2.83)
    """

    values: NDArray[np.float64]
    trainings: Interval
    images: Interval

    @property
    def mean(self) -> float:
        """Mean over the trainings."""
        return self.trainings.value

    @property
    def std(self) -> float:
        """Standard deviation over the trainings, divided by R - 1; NaN for one training."""
        return float(self.values.std(ddof=1)) if self.values.size > 1 else math.nan


def mean_over_trainings(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of a number over trainings [R], with Student's interval over the choice of trainings.

    Args:
        values: [R] of each training, finite.
        confidence: of the interval, in (0, 1).

    Returns:
        the mean, in the units of the values. Of a single training the interval is all numbers. So it is where all
        values are equal, which shows no spread, unless the sign test, which needs none, excludes every other value: at
        95 % of 6 trainings and more.

    Raises:
        UserError: no value, or one that is not finite.

    Source: Student 1908, Biometrika 6(1); trainings are taken as independent and their numbers as about normal.

    Example:
        >>> print(mean_over_trainings([54.0, 55.0, 56.0]))
        55.00 [52.52, 57.48]
    """
    check_confidence(confidence)
    found = real_array(values, "values")
    if found.ndim != 1 or not found.size or not np.isfinite(found).all():
        raise UserError("One finite number for each training is expected, of one training at least.")
    mean = float(found.mean())
    if np.ptp(found) <= _ROUNDING * np.abs(found).max():
        half = 0.0 if 2.0 ** (1 - found.size) <= 1 - confidence else math.inf
        return Interval(mean, mean - half, mean + half, confidence)
    error = found.std(ddof=1) / math.sqrt(found.size)
    half = float(scipy.stats.t.ppf((1 + confidence) / 2, found.size - 1) * error)
    return Interval(mean, mean - half, mean + half, confidence)


def combine_trainings(
    trainings: Sequence[Mapping[str, SampleStatistic]], confidence: float = 0.95, replicates: int = 1000, seed: int = 0
) -> dict[str, OverTrainings]:
    """Return the statistics of several trainings as means over the trainings.

    Args:
        trainings: of each the same statistics, on the same N samples.
        confidence: of the intervals, in (0, 1).
        replicates: number of resamples of the images, the same for all trainings.
        seed: of these.

    Returns:
        name -> the number; without those that not every training has. The interval over images of one training is that
        of its run alone, see :func:`robustatlas.metrics.confidence_intervals`.

    Raises:
        UserError: no training, or other samples.

    Example:
        >>> from robustatlas.metrics import share_statistic
        >>> seeds = [{"accuracy": share_statistic(np.arange(100) < right)} for right in (80, 84)]
        >>> found = combine_trainings(seeds)["accuracy"]
        >>> found.mean, found.values
        (82.0, array([80., 84.]))
    """
    if not trainings:
        raise UserError("No training is given; at least one is expected.")
    names = [name for name in trainings[0] if all(name in each for each in trainings)]
    if not names:
        return {}
    if len(trainings) == 1:
        alone = confidence_intervals({name: trainings[0][name] for name in names}, confidence, replicates, seed)
        return {
            name: OverTrainings(np.array([found.value]), mean_over_trainings([found.value], confidence), found)
            for name, found in alone.items()
        }
    flat = [each[name] for name in names for each in trainings]
    resampled = bootstrap_replicates(flat, replicates, seed).reshape(len(names), len(trainings), -1).mean(axis=1)
    found = {}
    for name, means in zip(names, resampled, strict=True):
        statistics = [each[name] for each in trainings]
        values = np.array([statistic.value for statistic in statistics])
        images = percentile_interval(float(values.mean()), means, confidence)
        if len(statistics[0].columns) < FEW or images.low == images.high:
            images = _bound(statistics, confidence)
        found[name] = OverTrainings(values, mean_over_trainings(values, confidence), images)
    return found


def _bound(statistics: Sequence[SampleStatistic], confidence: float) -> Interval:
    """Return the mean with the mean of the exact bounds, the only valid interval for few images."""
    mean = float(np.mean([statistic.value for statistic in statistics]))
    if any(statistic.largest is None for statistic in statistics):
        return Interval(mean, mean, mean, confidence)
    ends = [statistic.bound(confidence) for statistic in statistics]
    return Interval(mean, float(np.mean([e.low for e in ends])), float(np.mean([e.high for e in ends])), confidence)
