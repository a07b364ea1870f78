"""Confidence intervals: of proportions (Clopper-Pearson), and from bootstrap replicates."""

from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts where they are used: special takes long
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_array, real_or_nan
from robustatlas.outcomes.outcome import percent


@dataclass(frozen=True)
class Interval:
    """A number with its confidence interval.

    Attributes:
        value: the estimate.
        low, high: the ends.
        confidence: of the interval, such as 0.95.

    Example:
        >>> print(Interval(90.0, low=78.19, high=96.67, confidence=0.95))
        90.00 [78.19, 96.67]
    """

    value: float
    low: float
    high: float
    confidence: float

    def excludes(self, number: float) -> bool:
        """Return True if the number lies outside of the interval."""
        return not self.low <= number <= self.high

    def __format__(self, form: str) -> str:
        form = form or ".2f"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"

    def __str__(self) -> str:
        return f"{self:.2f}"


def check_confidence(confidence: float) -> None:
    """Raise where a confidence level is not strictly between 0 and 1."""
    if not 0.0 < real_or_nan(confidence) < 1.0:
        raise UserError(f"The confidence is {shorten(confidence)}; a number between 0 and 1 is expected, such as 0.95.")


def proportion_bounds(
    successes: ArrayLike, total: int, confidence: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return exact (Clopper-Pearson) confidence bounds of proportions, in percent.

    Args:
        successes: [...] counts out of `total`.
        total: number of trials, at least 1.
        confidence: probability, at least, that the bounds of one proportion contain it.

    Returns:
        lower and upper bounds [...] in [0, 100].

    Raises:
        UserError: counts outside of 0 to `total`, or a confidence outside of (0, 1).

    Source: Clopper and Pearson 1934, Biometrika 26(4); computed as `scipy.stats.binomtest(...).proportion_ci("exact")`
    does, for arrays.

    Example:
        >>> low, high = proportion_bounds([0, 45], total=50)
        >>> low.round(2), high.round(2)
        (array([ 0.  , 78.19]), array([ 7.11, 96.67]))
    """
    check_confidence(confidence)
    counts = real_array(successes, "successes")
    if not real_or_nan(total) >= 1 or not ((counts >= 0) & (counts <= total)).all():
        raise UserError(
            f"The successes must lie between 0 and the {total} trials, of which there must be at least one."
        )
    tail = (1 - confidence) / 2
    below, above = (np.maximum(counts, 0.5), total - counts + 1), (counts + 1, np.maximum(total - counts, 0.5))
    low = np.where(counts == 0, 0.0, scipy.special.betaincinv(*below, tail))
    high = np.where(counts == total, 1.0, scipy.special.betaincinv(*above, 1 - tail))
    return 100 * low, 100 * high


def proportion_interval(successes: int, total: int, confidence: float = 0.95) -> Interval:
    """Return a proportion in percent with its exact (Clopper-Pearson) interval: that of every single accuracy.

    Args:
        successes: number of trials that succeeded, from 0 to `total`.
        total: number of trials, at least 1.
        confidence: probability, at least, that the interval contains the proportion.

    Returns:
        percent, with the ends of the interval in [0, 100].

    Raises:
        UserError: a count outside of 0 to `total`, or a confidence outside of (0, 1).

    Example:
        >>> print(proportion_interval(45, total=50))
        90.00 [78.19, 96.67]
    """
    low, high = proportion_bounds(successes, total, confidence)
    return Interval(float(percent(successes, total)), float(low), float(high), confidence)


def accuracy_interval(accuracy: float, samples: int, confidence: float = 0.95) -> Interval:
    """Return exact (Clopper-Pearson) confidence interval of an accuracy measured on N samples, in percent.

    Args:
        accuracy: in percent, a multiple of 100 / N.
        samples: N.
        confidence: of the interval, in (0, 1).

    Returns:
        percent, with the ends of the interval in [0, 100].

    Raises:
        UserError: an accuracy outside of [0, 100], or one that so many samples cannot have.

    Example:
        >>> print(accuracy_interval(90.0, samples=50))
        90.00 [78.19, 96.67]
    """
    if not 0 <= real_or_nan(accuracy) <= 100:
        raise UserError(f"The accuracy is {shorten(accuracy)}; a percentage in [0, 100] is expected.")
    successes = accuracy * samples / 100
    if not np.isclose(successes, round(successes), atol=1e-6 * samples):
        raise UserError(f"An accuracy of {accuracy:g} % is not a whole number of {samples} samples; give their number.")
    return proportion_interval(round(successes), samples, confidence)


def percentile_interval(value: float, replicates: NDArray[np.float64], confidence: float = 0.95) -> Interval:
    """Return percentile bootstrap interval of a number, from its values [R] on resampled data.

    Args:
        value: the number on the data themselves.
        replicates: [R] its values on resampled data.
        confidence: of the interval, in (0, 1).

    Returns:
        the value between the percentiles of its replicates.

    Raises:
        UserError: there are no replicates, or the confidence is outside of (0, 1).

    Example:
        >>> print(percentile_interval(5.0, np.arange(11.0), confidence=0.8))
        5.00 [1.00, 9.00]
    """
    check_confidence(confidence)
    if not np.size(replicates):
        raise UserError("There are no replicates to take an interval of; at least one is expected.")
    tail = (1 - confidence) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail])
    return Interval(float(value), float(low), float(high), confidence)
