"""Batches of the sizes that a network takes."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.scalars import whole


def batch_sizes(given: int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the sizes in increasing order; empty if any size will do."""
    if given is None:
        return ()
    several = given if isinstance(given, Iterable) and np.ndim(given) == 1 else (given,)
    sizes = [whole(size) or 0 for size in several]
    if not sizes or min(sizes) < 1:
        raise UserError(f"batch_size={given!r} does not fit; expected a whole number of at least 1, or several.")
    return tuple(sorted(set(sizes)))


def run_in_batches(run: Callable[[Tensor], Tensor], x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return ``run`` of ``x`` [B, ...] in batches of these sizes only; the last one is filled up with its first sample.

    >>> seen = []
    >>> def double(x):
    ...     seen.append(len(x))
    ...     return 2 * x
    >>> run_in_batches(double, torch.arange(7.0), (2, 4)), seen
    (tensor([ 0.,  2.,  4.,  6.,  8., 10., 12.]), [4, 4])
    """
    if not sizes:
        return run(x)
    return torch.cat([_run_filled_up(run, part, sizes) for part in torch.split(x, sizes[-1])])


def _run_filled_up(run: Callable[[Tensor], Tensor], x: Tensor, sizes: Sequence[int]) -> Tensor:
    missing = next(size for size in sizes if size >= len(x)) - len(x)
    if not missing:
        return run(x)
    return run(torch.cat([x, x[:1].detach().expand(missing, *x.shape[1:])]))[: len(x)]
