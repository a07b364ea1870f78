"""Success over queries: of models that can only be asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError


def success_over_queries(queries: ArrayLike, at: Sequence[int]) -> NDArray[np.float64]:
    """How many samples are broken within so many queries, in percent.

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
