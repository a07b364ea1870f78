"""What a dear search of some samples says of a cheap search of all."""

from dataclasses import dataclass

import numpy as np
import scipy  # which imports its parts where they are used: special takes long
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.wording import MARK
from robustatlas.metrics.intervals import check_confidence
from robustatlas.outcomes.outcome import percent

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Audited:
    """Robust accuracies, in percent, that the dear search would leave on all samples.

    Attributes:
        strengths: [S] of the attack, as people type them.
        found: [S] what the cheap search leaves.
        estimate: [S] what the dear search would leave.
        low, high: [S] bounds of that.
        mean: (estimate, low, high) of the mean over the strengths.
        audited: number of samples that were searched again.
        fallen: [S] how many of these the dear search broke and the cheap one did not.
        confidence: of each interval.

    Example:
        >>> audit = audited([[True], [True], [True], [False]], [0, 2], [[True], [False]], [0.1])
        >>> audit.found, audit.estimate
        (array([75.]), array([37.5]))
    """

    strengths: Floats
    found: Floats
    estimate: Floats
    low: Floats
    high: Floats
    mean: tuple[float, float, float]
    audited: int
    fallen: NDArray[np.int64]
    confidence: float


def sentence(audit: Audited, times: float) -> str:
    """What an audit says, in words. ``times``: how many times the passes of the cheap search the dear one takes.

    >>> sentence(audited([[True]] * 20, range(5), [[False], *[[True]] * 4], [0.1]), 8.0)
    'at most 100.0 %; 8 times the effort would leave about 80 % (35 to 95; audit of 5)'
    """
    found, (estimate, low, high) = float(audit.found.mean()), audit.mean
    if audit.fallen.any():
        left = f"about {estimate:.0f} % ({low:.0f} to {high:.0f}; audit of {audit.audited})"
        return f"at most {found:.1f} %; {times:.0f} times the effort would leave {left}"
    rest = 100 * (found - low) / found if found else 0.0
    return f"an audit of {audit.audited} found nothing more; up to {rest:.0f} % of the robust ones may still fall"


LARGE = 5.0
"""Percentage points in the mean over the strengths: so many less, by the upper end of the interval, are much less."""


def concern(attack: str, audit: Audited, kind: str) -> str:
    """A warning where an audit found much more; empty elsewhere. ``kind``: of attack, that found most.

    >>> concern("linf", audited([[True]] * 20, range(20), [[False]] * 20, [0.1]), "square-linf")[:48]
    '† The audit of linf leaves at least 100.0 points'
    """
    gap = float(audit.found.mean()) - audit.mean[2]
    if gap <= LARGE:
        return ""
    return (
        f"{MARK} The audit of {attack} leaves at least {gap:.1f} points less in the mean over the strengths, most of "
        f"it found by {kind or 'high effort'}. {remedy_of(kind)}."
    )


def remedy_of(kind: str) -> str:
    """What to do where this kind of attack found most of what an audit found, in a sentence without its end.

    >>> remedy_of("square-linf"), remedy_of("high effort")
    ('Evaluate all samples by square-linf as well', "Evaluate all samples at high effort (effort='high')")
    """
    if kind in ("", "high effort"):
        return "Evaluate all samples at high effort (effort='high')"
    if " " in kind:
        return f"Give the model another gradient (straight_through, surrogate): {kind} found them"
    return f"Evaluate all samples by {kind} as well"


def audited(
    robust: ArrayLike, positions: ArrayLike, still: ArrayLike, strengths: ArrayLike, confidence: float = 0.95
) -> Audited:
    """Estimate what a dear search, done on a random part of the samples, would leave on all of them.

    The intervals are exact for the finitely many samples at hand; they are about these samples and this dear search,
    not about the distribution that the samples come from, nor about examples that the dear search misses as well.

    Args:
        robust: [N, S] whether the cheap search left each sample robust at each strength.
        positions: [n] the samples that were searched again, a random choice that does not depend on any outcome.
        still: [n, S] whether these are robust by both searches together.
        strengths: [S].
        confidence: of each interval; that of the mean over the strengths was simulated, not proven.

    Returns:
        the estimates with their intervals; where no robust sample was searched again, the interval reaches to 0.

    Raises:
        UserError: arrays that do not fit together, or samples that are robust again after they were broken.

    Source: two-phase sampling; the tails of the hypergeometric distribution inverted by the beta-binomial posterior
    (as Clopper-Pearson does for infinitely many samples).

    Example:
        >>> robust = np.ones((100, 1), bool)
        >>> audit = audited(robust, range(20), np.arange(20)[:, None] >= 2, [0.1])
        >>> audit.estimate, audit.low.round(1), audit.high.round(1)
        (array([90.]), array([71.]), array([98.]))
    """
    check_confidence(confidence)
    before, at, after = np.asarray(robust), np.asarray(positions, np.int64), np.asarray(still)
    grid = np.asarray(strengths, np.float64)
    fits = before.ndim == 2 and after.shape == (len(at), before.shape[1]) and grid.shape == before.shape[1:]
    if not fits or before.dtype != np.bool_ or after.dtype != np.bool_ or not len(before):
        raise UserError(
            f"An audit needs booleans [N, S] and [n, S], n positions and S strengths; given {before.shape}, "
            f"{after.shape}, {at.shape} and {grid.shape}."
        )
    if (after & ~before[at]).any():
        raise UserError("An audited sample is robust that was broken before; give what both searches together leave.")
    left, tried = before.sum(0), before[at].sum(0)
    fallen = tried - after.sum(0)
    least, most = _fallen_bounds(left, tried, fallen, (1 - confidence) / 2)
    share = np.divide(fallen, tried, out=np.zeros(len(grid)), where=tried > 0)
    found, estimate, low, high = (
        percent(x, len(before)) for x in (left, left * (1 - share), left - most, left - least)
    )
    mean = float(estimate.mean()), float(low.mean()), float(high.mean())
    return Audited(grid, found, estimate, low, high, mean, len(at), fallen, confidence)


def _fallen_bounds(
    left: NDArray[np.int64], tried: NDArray[np.int64], fallen: NDArray[np.int64], tail: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Least and most of the ``left`` samples that the dear search would break; it broke ``fallen`` of ``tried``."""
    rest, kept = left - tried, tried - fallen
    most = np.where(kept > 0, fallen + _beta_binomial(1 - tail, rest, fallen + 1, np.maximum(kept, 1)), left)
    least = np.where(fallen > 0, left - (kept + _beta_binomial(1 - tail, rest, kept + 1, np.maximum(fallen, 1))), 0)
    whole = rest == 0
    return np.where(whole, fallen, least).astype(np.int64), np.where(whole, fallen, most).astype(np.int64)


def _beta_binomial(share: float, n: NDArray[np.int64], a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
    """[S] the smallest number that a beta-binomial variable does not exceed with probability ``share``, of all columns
    together, which scipy.stats takes one by one."""
    k, log_beta = np.arange(n.max() + 1)[:, None], scipy.special.betaln
    rest = np.maximum(n - k, 0)
    log_pmf = log_beta(k + a, rest + b) - log_beta(a, b) - log_beta(rest + 1, k + 1) - np.log(n + 1)
    below = np.cumsum(np.where(k <= n, np.exp(log_pmf), 0.0), axis=0) < share
    return np.asarray(below.sum(0), np.int64)
