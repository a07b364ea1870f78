"""Changes of the slope of a robustness curve, which training at one strength causes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.typed_strengths import format_strength, value_as_typed, words_up_to
from robustatlas.metrics.curves import RobustnessCurve, read_end
from robustatlas.metrics.intervals import check_confidence

_POINTS = 100
"""Number of sizes at which the curve is sampled; they are the candidates for the change."""
_MIN_POINTS = 5
"""Smallest number of these sizes for each of the two lines."""


@dataclass(frozen=True)
class SlopeChange:
    """Meeting point of the best two lines through a robustness curve.

    Attributes:
        size: where they meet, as people type it.
        low, high: interval of it, over samples drawn; `low` is the less harmful end.
        before, after: robust error in percent for a unit of size, under less harm and under more.
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
    """Return where a robustness curve changes its slope most, between no change and ``up_to``.

    The continuous function of two straight pieces that is nearest to the curve in least squares, its intervals by
    drawing samples anew. Curves of networks that were trained against one strength rise faster beyond it.

    Args:
        curve: of minimal sizes.
        up_to: most harmful size that is looked at, as people type it.
        confidence: of the intervals, in (0, 1).
        replicates: number of resamples.
        seed: of the draws.

    Returns:
        the change.

    Raises:
        UserError: ``up_to`` changes nothing or is not finite, the curve does not rise before it, or the threat model is
            not nested.

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
    end = read_end(up_to, curve.attack, "up_to")
    if replicates < 2:
        raise UserError(f"The number of replicates is {shorten(replicates)}; at least 2 are expected, 200 are usual.")
    grid = np.linspace(0, end, _POINTS)
    candidates = grid[_MIN_POINTS:-_MIN_POINTS]
    bases = np.stack([np.stack([np.ones_like(grid), grid, np.maximum(grid - knot, 0)], 1) for knot in candidates])
    inverses = np.linalg.pinv(bases)
    wrong = np.float32(100) * (curve.distance_curve.minimal_sizes[:, None] <= grid)
    knot, before, bend = _fitted(wrong.mean(0, np.float64, keepdims=True), bases, inverses, candidates)
    if not before[0] + bend[0] and not before[0]:
        raise UserError(
            f"The curve does not rise {words_up_to(curve.attack)} {format_strength(end, attack=curve.attack)}; look "
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
        size=value_as_typed(curve.attack, float(knot[0])),
        low=value_as_typed(curve.attack, low),
        high=value_as_typed(curve.attack, high),
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
