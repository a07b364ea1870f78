"""Changes of the slope of a robustness curve, which training at one strength causes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_or_nan
from robustatlas.common.typed_strengths import format_strength, words_up_to
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import check_confidence

_POINTS = 100
"""Number of sizes at which the curve is sampled; they are the candidates for the change."""
_MIN_POINTS = 5
"""Smallest number of these sizes for each of the two lines."""


@dataclass(frozen=True)
class SlopeChange:
    """Meeting point of the best two lines through a robustness curve.

    Attributes:
        size: where they meet.
        low, high: interval of it, over samples drawn.
        before, after: robust error in percent for a unit of size, left and right of it.
        significant: whether the interval of ``after - before`` excludes 0.

    Example:
        >>> SlopeChange(0.1, 0.09, 0.11, before=200.0, after=900.0, significant=True).after
        900.0
    """

    size: float
    low: float
    high: float
    before: float
    after: float
    significant: bool


def change_of_slope(
    curve: RobustnessCurve, up_to: float, confidence: float = 0.95, replicates: int = 200, seed: int = 0
) -> SlopeChange:
    """Return the largest change of the slope of a robustness curve between 0 and ``up_to``.

    The continuous function of two straight pieces that is nearest to the curve in least squares, its intervals by
    drawing samples anew. Curves of networks that were trained against one strength rise faster beyond it.

    Args:
        curve: of minimal sizes.
        up_to: right end of what is looked at.
        confidence: of the intervals, in (0, 1).
        replicates: number of resamples.
        seed: of the draws.

    Returns:
        the change.

    Raises:
        UserError: ``up_to`` is no positive size, the curve does not rise before it, or the threat model is not nested.

    Source: Risse et al. 2021, Figure 3 shows such changes; the fit is ours.

    Example:
        >>> sizes = np.concatenate([np.linspace(0.0, 0.5, 50), np.linspace(0.5, 0.6, 50)])
        >>> found = change_of_slope(RobustnessCurve(sizes), up_to=0.6)
        >>> round(found.size, 2), found.significant, found.after > 5 * found.before
        (0.5, True, True)
    """
    if curve.judged is not None:
        raise UserError("The curve is judged at each strength by itself, so it has no slope; give a nested attack's.")
    check_confidence(confidence)
    if not 0 < real_or_nan(up_to) < np.inf:
        raise UserError(f"up_to is {shorten(up_to)}; a positive finite size is expected.")
    if replicates < 2:
        raise UserError(f"The number of replicates is {shorten(replicates)}; at least 2 are expected, 200 are usual.")
    grid = np.linspace(0, up_to, _POINTS)
    candidates = grid[_MIN_POINTS:-_MIN_POINTS]
    bases = np.stack([np.stack([np.ones_like(grid), grid, np.maximum(grid - knot, 0)], 1) for knot in candidates])
    inverses = np.linalg.pinv(bases)
    wrong = np.float32(100) * (curve.minimal_sizes[:, None] <= grid)
    knot, before, bend = _fitted(wrong.mean(0, np.float64, keepdims=True), bases, inverses, candidates)
    if not before[0] + bend[0] and not before[0]:
        raise UserError(
            f"The curve does not rise {words_up_to(curve.attack)} {format_strength(up_to, attack=curve.attack)}; look "
            "farther."
        )
    generator, samples = np.random.default_rng(seed), len(wrong)
    drawn = (generator.integers(samples, size=samples) for _ in range(replicates))
    errors = np.stack([wrong[positions].mean(0, np.float64) for positions in drawn])
    knots, _, bends = _fitted(errors, bases, inverses, candidates)
    tails = [50 * (1 - confidence), 50 * (1 + confidence)]
    low, high = (float(value) for value in np.percentile(knots, tails))
    least, most = np.percentile(bends, tails)
    return SlopeChange(
        size=float(knot[0]),
        low=low,
        high=high,
        before=float(before[0]),
        after=float(before[0] + bend[0]),
        significant=bool(least > 0 or most < 0),
    )


def _fitted(
    errors: NDArray[np.float64],
    bases: NDArray[np.float64],
    inverses: NDArray[np.float64],
    candidates: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each row of errors [R, G] the best knot, the slope before it, and by how much the slope rises there."""
    weights = np.einsum("kpg,rg->rkp", inverses, errors)
    left = ((np.einsum("kgp,rkp->rkg", bases, weights) - errors[:, None]) ** 2).sum(2)
    best = left.argmin(1)
    rows = np.arange(len(errors))
    return candidates[best], weights[rows, best, 1], weights[rows, best, 2]
