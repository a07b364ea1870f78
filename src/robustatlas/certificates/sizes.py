"""The largest size that a bound certifies, sample by sample."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Margin = Callable[[Tensor, Tensor], Tensor]
"""From sizes [K] and rows [K] of the samples to lower bounds of their margins [K]; certified where positive."""

PRECISION = 5e-4
"""Relative: half of what radii are compared by (.1 %)."""
_GROWTH = 4.0
_ROUNDS = 60
_SMALLEST = 1e-9
_DIGITS = 9
"""Digits kept of a size, rounded down, so that it does not depend on who shared a batch."""


def largest(margin: Margin, count: int, first: float, ceiling: float, start: Tensor | None = None) -> Tensor:
    """The largest sizes found that are certified, to :data:`PRECISION` where the bound falls with the size.

    A certified size certifies all smaller ones, since sets are nested, so the largest success counts whether the bound
    is monotone or not. Between a success and a failure the next size is where the line through both margins is 0
    (regula falsi, of the Illinois kind, in the middle where that stalls).

    Args:
        margin: the bound.
        count: of samples B.
        first: size to begin with.
        ceiling: size of the whole space; what is certified there is so at every size.
        start: ``[B]``, sizes known to be certified, 0 where none is.

    Returns:
        ``[B]`` float64, 0 where nothing was certified down to :data:`_SMALLEST` times the ceiling.

    Example:
        >>> found = largest(lambda size, rows: 1 - size * (rows + 1), 2, first=0.1, ceiling=10.0)
        >>> bool((found / torch.tensor([1.0, 0.5]) > 0.999).all()), bool((found < torch.tensor([1.0, 0.5])).all())
        (True, True)
    """
    low = torch.zeros(count, dtype=torch.float64) if start is None else start.clone()
    high = torch.full((count,), torch.inf, dtype=torch.float64)
    at_low, at_high = torch.full_like(low, torch.nan), torch.full_like(low, torch.nan)
    stalled = torch.zeros(count, dtype=torch.long)
    for _ in range(_ROUNDS):
        rows = _open(low, high, ceiling).nonzero().squeeze(1)
        if not len(rows):
            break
        size = _next(low[rows], high[rows], at_low[rows], at_high[rows], stalled[rows], first, ceiling)
        value = torch.nan_to_num(margin(size, rows), nan=-torch.inf)
        good = value > 0
        won, lost = rows[good], rows[~good]
        stalled[won] = stalled[won].clamp_min(0) + 1
        stalled[lost] = stalled[lost].clamp_max(0) - 1
        low[won], at_low[won] = size[good], value[good]
        high[lost], at_high[lost] = size[~good], value[~good]
    return _rounded_down(torch.where(low >= ceiling, torch.inf, low))


def _open(low: Tensor, high: Tensor, ceiling: float) -> Tensor:
    near = high <= low * (1 + PRECISION)
    return ~near & (low < ceiling) & (high > _SMALLEST * ceiling)


def _next(
    low: Tensor, high: Tensor, at_low: Tensor, at_high: Tensor, stalled: Tensor, first: float, ceiling: float
) -> Tensor:
    """The next size to try of each sample: up while all succeeds, down while all fails, in between afterwards."""
    up = torch.where(low > 0, low * _GROWTH, first).clamp_max(ceiling)
    down = high / _GROWTH
    weigh_low, weigh_high = 0.5 ** (-1 - stalled).clamp_min(0), 0.5 ** (stalled - 1).clamp_min(0)
    share = at_low * weigh_low / (at_low * weigh_low - at_high * weigh_high)
    share = torch.where(share.isfinite() & at_high.isfinite(), share, 0.5)
    root = (low + (high - low) * share) * (1 - 0.4 * PRECISION)
    between = torch.maximum(root, low * (1 + 0.7 * PRECISION)).minimum(high / (1 + 0.2 * PRECISION))
    return torch.where(high.isinf(), up, torch.where(low > 0, between, down))


def _rounded_down(sizes: Tensor) -> Tensor:
    scale = torch.where((sizes > 0) & sizes.isfinite(), sizes, 1.0).log10().floor()
    unit = 10.0 ** (scale - _DIGITS + 1)
    return torch.where(sizes.isfinite(), torch.floor(sizes / unit) * unit, sizes)
