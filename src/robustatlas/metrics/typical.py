"""Accuracy where nobody looks for the worst, and success over queries of models that can only be asked."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.outcomes.outcome import Outcome


def typical_accuracies(outcome: Outcome, confidence: float = 0.95) -> tuple[Interval, ...] | None:
    """Return mean share of the draws that a model gets right, at each strength, in percent.

    The interval is of the mean over all images from which the samples come. Each sample counts as one trial, however
    often it was drawn. Its share varies no more than a single draw would, so the exact interval of so many single draws
    is wide enough.

    Args:
        outcome: of an attack.
        confidence: of the intervals, in (0, 1).

    Returns:
        [S]; None where not every sample was drawn at every strength.

    Raises:
        UserError: a confidence outside of (0, 1).

    Source: Clopper and Pearson 1934, Biometrika 26(4), at the mean share.

    Example:
        >>> import numpy as np, robustatlas as ra
        >>> from dataclasses import replace
        >>> sizes, grids = {"rotation": [np.inf, 0.0]}, {"rotation": [10.0]}
        >>> found = ra.Result.from_arrays([0, 1], [0, 0], sizes, grids).outcome("rotation")
        >>> print(typical_accuracies(replace(found, typical=np.array([[1.0], [0.5]])))[0])
        75.00 [6.08, 99.98]
    """
    if outcome.typical is None:
        return None
    means = outcome.typical_accuracies()
    if not (means >= 0).all():
        return None
    low, high = proportion_bounds(means / 100 * outcome.samples, outcome.samples, confidence)
    return tuple(
        Interval(*numbers, confidence) for numbers in zip(means.tolist(), low.tolist(), high.tolist(), strict=True)
    )


def success_over_queries(queries: ArrayLike, at: Sequence[int]) -> NDArray[np.float64]:
    """Return the percentage of samples that are broken within given numbers of queries.

    Args:
        queries: [N] of each sample until its first example, -1 where there is none; a column of
            :attr:`robustatlas.Outcome.queries`.
        at: [Q] numbers of queries.

    Returns:
        [Q] percent of the samples.

    Raises:
        UserError: there are no samples, or what is given are not whole numbers.

    Example:
        >>> success_over_queries([12, 300, -1, 1], at=[1, 100, 1000]).tolist()
        [25.0, 50.0, 75.0]

    Source: the success rate at a query limit of Andriushchenko et al. 2020 (Square Attack), section 5.
    """
    given, limits = np.asarray(queries), np.asarray(at)
    if given.ndim != 1 or not len(given) or given.dtype.kind not in "iu" or limits.dtype.kind not in "iu":
        raise UserError(
            f"queries have shape {given.shape} and type {given.dtype}, and at has type {limits.dtype}; expected whole "
            "numbers [N] and [Q]."
        )
    return np.asarray(100.0 * ((given[:, None] >= 0) & (given[:, None] <= limits.reshape(-1))).mean(0))
