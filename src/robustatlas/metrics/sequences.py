"""Intervals of a share, or of a mean, of finitely many samples drawn in random order. They contain the truth at all
looks together with the probability stated, so one may look after every sample and stop when the interval is narrow
enough. At the last sample its width is 0."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts where they are used: special takes long
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import reals
from robustatlas.metrics.intervals import Interval, check_confidence
from robustatlas.outcomes.table import OutcomeTable

Floats = NDArray[np.float64]

_TRUNCATED = 0.5
"""Waudby-Smith and Ramdas 2020, section 4: the share c of its capital that the betting sequence stakes at most."""

_CANDIDATES = 10_000
"""Means that are tried, at most; where more are possible, bounds are rounded outwards to the next one that is."""


@dataclass(frozen=True, eq=False)
class ConfidenceSequence:
    """Intervals after 1, 2, ... T of the samples.

    Attributes:
        value: [T] the estimate after each sample.
        low, high: [T] bounds.
        population: number N of samples that there are.
        confidence: that all T intervals contain the value of all N samples.

    Example:
        >>> known = share_sequence([True] * 50, population=50)
        >>> float(known.low[-1]), float(known.high[-1])
        (100.0, 100.0)
    """

    value: Floats
    low: Floats
    high: Floats
    population: int
    confidence: float

    @property
    def half_width(self) -> Floats:
        """[T] half of the width of each interval."""
        return (self.high - self.low) / 2

    def last(self, confidence: float | None = None) -> Interval:
        """The interval after the last sample; ``confidence``: of the numbers that it is one of, together."""
        known = float(self.value[-1]), float(self.low[-1]), float(self.high[-1])
        return Interval(*known, confidence=self.confidence if confidence is None else confidence)


def share_sequence(hits: ArrayLike, population: int, confidence: float = 0.95) -> ConfidenceSequence:
    """The share of hits among all samples, after each of those drawn without replacement in random order.

    Args:
        hits: [T] booleans, in the order drawn.
        population: number N >= T of samples that there are.
        confidence: that the share of all N lies within every interval.

    Returns:
        shares and their bounds, in percent.

    Raises:
        UserError: no samples, more of them than there are, or a confidence outside of (0, 1).

    Source: Waudby-Smith and Ramdas 2020 (arXiv 2006.04347), prior-posterior ratio with the uniform prior: after t draws
    with s hits, all n with hypergeom.pmf(s; N, n, t) > alpha / (t + 1), intersected over the looks.

    Example:
        >>> known = share_sequence([True, False] * 100, population=1000)
        >>> round(float(known.half_width[-1]), 1)
        10.2
    """
    drawn = np.asarray(hits)
    check_confidence(confidence)
    if drawn.dtype != np.bool_ or drawn.ndim != 1 or not 1 <= drawn.size <= population:
        raise UserError(
            f"The hits have shape {drawn.shape} of {drawn.dtype}; expected between 1 and {population} booleans."
        )
    t = np.arange(1, drawn.size + 1)
    s = np.cumsum(drawn)
    level = math.log(1 - confidence) - np.log(t + 1)
    mode = np.clip(np.round(population * s / t), s, population - t + s).astype(np.int64)
    log_pmf = _log_pmf(s, population, t)
    low = _edge(mode, s - 1, lambda n: log_pmf(n) > level)
    high = _edge(mode, population - t + s + 1, lambda n: log_pmf(n) > level)
    return _sequence(s / t, low / population, high / population, population, confidence)


def mean_sequence(values: ArrayLike, population: int, steps: int = 1, confidence: float = 0.95) -> ConfidenceSequence:
    """The mean of values in [0, 1] of all samples, after each of those drawn without replacement in random order.

    Args:
        values: [T] multiples of 1 / ``steps`` in [0, 1], in the order drawn.
        population: number N >= T of samples that there are.
        steps: of one value; the mean of all N is a multiple of 1 / (N * steps).
        confidence: that the mean of all N lies within every interval.

    Returns:
        means and their bounds, in percent.

    Raises:
        UserError: no samples, more of them than there are, values outside of [0, 1], or a confidence outside of (0, 1).

    Source: Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting" (arXiv 2010.09686),
    hedged capital with predictable plug-in bets, without replacement (2006.04347).

    Example:
        >>> known = mean_sequence([0.5, 1.0] * 100, population=200, steps=2)
        >>> float(known.low[-1]), float(known.high[-1])
        (75.0, 75.0)
    """
    drawn = reals(values, "values")
    check_confidence(confidence)
    if drawn.ndim != 1 or not 1 <= drawn.size <= population or not ((drawn >= 0) & (drawn <= 1)).all():
        raise UserError(f"Between 1 and {population} values in [0, 1] are expected; given shape {drawn.shape}.")
    counts = np.round(drawn * steps).astype(np.int64)
    whole = population * steps
    stride = -(-whole // _CANDIDATES)
    candidates = np.arange(0, whole + stride, stride)  # sums of all values, in steps
    possible = np.ones(len(candidates), np.bool_)
    rise, fall = np.zeros(len(candidates)), np.zeros(len(candidates))
    low, high = np.empty(len(drawn)), np.empty(len(drawn))
    alpha, total, spread = 1 - confidence, 0, 0.25
    for t, count in enumerate(counts.tolist(), start=1):
        stake = math.sqrt(2 * math.log(2 / alpha) / (spread * math.log(1 + t)))
        rest = (candidates - total) / (steps * (population - t + 1))
        total += count
        possible &= (rest >= 0) & (rest <= 1) & (candidates >= total) & (candidates <= total + steps * (population - t))
        with np.errstate(divide="ignore", invalid="ignore"):
            rise += np.log1p(np.minimum(stake, _TRUNCATED / rest) * (count / steps - rest))
            fall += np.log1p(-np.minimum(stake, _TRUNCATED / (1 - rest)) * (count / steps - rest))
        spread += (count / steps - (0.5 + total / steps) / (t + 1)) ** 2
        kept = candidates[possible & (np.fmax(rise, fall) < math.log(2 / alpha))]
        kept = kept if len(kept) else candidates[possible]
        kept = kept if len(kept) else candidates[[np.searchsorted(candidates, total)]]
        low[t - 1], high[t - 1] = (
            max(kept[0] - stride + 1, total),
            min(kept[-1] + stride - 1, total + whole - steps * t),
        )
    means = np.cumsum(counts) / (steps * np.arange(1, drawn.size + 1))
    return _sequence(means, low / whole, high / whole, population, confidence)


def known_accuracies(
    drawn: OutcomeTable, population: int, attacks: Iterable[str] | None = None, confidence: float = 0.95
) -> tuple[Interval, dict[str, tuple[Interval, ...]]]:
    """Accuracies of all samples, known from some of them whenever one stops drawing.

    Args:
        drawn: the outcomes of the samples, in the random order in which they were drawn.
        population: number N of samples that there are.
        attacks: those that are asked for; by default all.
        confidence: that all intervals together contain the accuracies of all N samples, at every look.

    Returns:
        the clean accuracy, and attack -> the robust accuracy at each of its strengths, in percent.

    Raises:
        UserError: as :func:`share_sequence`, and for an attack that there is not.

    Example:
        >>> table = OutcomeTable.from_sizes("a", [0] * 4, {"linf": [0.1, 0.2, 0.0, 0.1]}, {"linf": [0.1]})
        >>> clean, accuracies = known_accuracies(table, population=4)
        >>> print(clean, *accuracies["linf"])
        75.00 [75.00, 75.00] 25.00 [25.00, 25.00]
    """
    correct = {name: drawn.correct(name).T for name in (drawn.attacks if attacks is None else attacks)}
    level = 1 - (1 - confidence) / (1 + sum(map(len, correct.values())))

    def last(hits: NDArray[np.bool_]) -> Interval:
        return share_sequence(hits, population, level).last(confidence)

    return last(drawn.clean), {name: tuple(map(last, rows)) for name, rows in correct.items()}


def _log_pmf(s: NDArray[np.int64], population: int, t: NDArray[np.int64]) -> Callable[[NDArray[np.int64]], Floats]:
    """Log of the probability of ``s`` hits in ``t`` draws, as a function of how many of the ``population`` are hits."""
    log = np.asarray(scipy.special.gammaln(np.arange(population + 1) + 1.0), np.float64)  # of factorials

    def chosen(of: NDArray[np.int64] | int, count: NDArray[np.int64]) -> Floats:
        return np.asarray(log[of] - log[count] - log[of - count], np.float64)

    drawn = chosen(population, t)
    return lambda n: chosen(n, s) + chosen(population - n, t - s) - drawn


def _edge(
    inside: NDArray[np.int64],
    outside: NDArray[np.int64],
    holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
) -> NDArray[np.int64]:
    """The last number before ``outside`` up to which a condition ``holds`` that does from ``inside`` on; by halving."""
    while (apart := np.abs(outside - inside) > 1).any():
        middle = np.where(apart, (inside + outside) // 2, inside)
        found = holds(middle)
        inside = np.where(apart & found, middle, inside)
        outside = np.where(apart & ~found, middle, outside)
    return inside


def _sequence(value: Floats, low: Floats, high: Floats, population: int, confidence: float) -> ConfidenceSequence:
    """With each interval cut down to what all earlier ones leave; where they leave nothing, as it stands."""
    lowest, highest = np.maximum.accumulate(low), np.minimum.accumulate(high)
    empty = lowest > highest
    lowest, highest = np.where(empty, low, lowest), np.where(empty, high, highest)
    if len(value) == population:
        lowest[-1] = highest[-1] = value[-1]
    return ConfidenceSequence(100 * value, 100 * lowest, 100 * highest, population, confidence)
