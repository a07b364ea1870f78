"""The largest size that a bound certifies, sample by sample."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Margin = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""From sizes [K] and rows [K] of the samples to lower bounds of their margins [K], certified where positive, and to the
sizes [K] up to which the lines of these bounds keep the margin above 0. Lines hold on the set of the size and on all
smaller ones, so a reach below the size is certified, and one above it is a guess; 0 where there is none."""

PRECISION = 5e-4
"""Relative: half of what radii are compared by (.1 %)."""
_GROWTH = 4.0
"""Factor between two sizes that are tried, at most, while all succeeded or all failed: lines of very small or large
balls say little of where the margin ends."""
_ROUNDS = 60
"""Bounds of a sample, at most. From the ceiling down to the smallest size 15 steps of the growth are enough, and from
there bisection takes 13 to the precision."""
_SMALLEST = 1e-9
"""Relative to the ceiling: sizes below are 0, as float32 does not tell such inputs apart."""
_LEAST = 1e-12
"""Share of a margin that counts as lost at least, which has a logarithm."""
_DIGITS = 9
"""Digits kept of a size, rounded down, so that it does not depend on who shared a batch."""


def is_certified(size: Tensor, margin: Tensor, reach: Tensor) -> Tensor:
    """Return if sizes are certified by bounds of their margins, or by how far the lines of these reach."""
    return (margin > 0) | (reach > size)


@dataclass
class _Brackets:
    """Sizes of B samples: ``low`` is certified and ``high`` was not, inf where nothing failed.

    A margin falls by a power of the size, by higher ones as lines loosen. So sizes u are logarithms, and margins the
    logarithm v of the share of the ``whole`` margin, at the sample itself, that is lost. ``along``: how far the lines
    at the sample reach. ``points``: u and v [3, 2, B] of the largest success, the smallest failure and what one of them
    was before; NaN: none yet. ``stalled``: how often in turn the same side moved.
    """

    low: Tensor
    high: Tensor
    whole: Tensor
    along: Tensor
    points: Tensor
    stalled: Tensor

    @classmethod
    def unknown(cls, count: int) -> _Brackets:
        """Return the brackets of ``count`` samples before any bound."""
        unknown = torch.full((count,), torch.nan, dtype=torch.float64)
        never, none = torch.full_like(unknown, torch.inf), torch.zeros_like(unknown)
        return cls(none, never, unknown, none.clone(), unknown.repeat(3, 2, 1), none.clone())

    def open_rows(self, ceiling: float) -> Tensor:
        """Return the samples [K] whose size is not known well enough."""
        wide = self.high > self.low * (1 + PRECISION)
        return (wide & (self.low < ceiling) & (self.high > _SMALLEST * ceiling)).nonzero().squeeze(1)

    def learn(self, rows: Tensor, size: Tensor, margin: Tensor, reach: Tensor) -> None:
        """Store bounds of the samples ``rows``."""
        good, begun = is_certified(size, margin, reach), ~self.whole[rows].isnan()
        lost = ((self.whole[rows] - margin) / self.whole[rows]).clamp_min(_LEAST)
        point = torch.stack([size.log(), torch.where(good, lost.clamp_max(1 - _LEAST), lost).log()])
        for kind, at in ((0, good & begun), (1, ~good & begun)):
            self.points[2, :, rows[at]] = self.points[kind, :, rows[at]]
            self.points[kind, :, rows[at]] = point[:, at]
        self.whole[rows[~begun]], self.along[rows[~begun]] = margin[~begun], reach[~begun]
        side = torch.where(good, 1.0, -1.0)
        self.stalled[rows] = torch.where(self.stalled[rows] * side > 0, self.stalled[rows], 0.0) + side
        won, failed = rows[good], rows[~good]
        self.low[won] = torch.maximum(self.low[won], size[good])
        self.high[failed] = size[~good]
        self.low[failed] = torch.maximum(self.low[failed], torch.minimum(reach, size)[~good])

    def next_sizes(self, rows: Tensor, first: float, ceiling: float) -> Tensor:
        """Return sizes [K] to bound: 0, half of what lines reach there, and from there towards the root; a little
        beyond it, as the lines of a failure certify what they reach."""
        low, high, along = self.low[rows], self.high[rows], self.along[rows]
        success, failure, third = self.points[:, :, rows]
        succeeded, failed = success[0].isfinite(), failure[0].isfinite()
        begin = torch.where(low > 0, low * (1 + PRECISION), torch.where(along > 0, along / 2, first))
        bent = self._bent(rows, torch.where(failed, failure, success))
        root = _root(torch.where(succeeded, success, third), torch.where(failed, failure, third), third).exp()
        root = torch.where(root.isfinite(), root, bent) * (1 + PRECISION / 4)
        most, least = torch.where(failed, high, low * _GROWTH), torch.where(succeeded, low, high / _GROWTH)
        bold = torch.where(succeeded & failed, (low * high).sqrt(), torch.where(failed, least, most))
        size = torch.where(self.stalled[rows].abs() > 2, bold, root.minimum(most).maximum(least))
        size = torch.where(succeeded | failed, size, begin)
        size = torch.maximum(size, low * (1 + PRECISION)).minimum(high / (1 + PRECISION)).clamp_max(ceiling)
        return torch.where(self.whole[rows].isnan(), 0.0, size)

    def _bent(self, rows: Tensor, point: Tensor) -> Tensor:
        """Return where the margin [K] is lost that falls as the network does at first, and through one more point."""
        size, lost = point.exp().unbind()
        fall = torch.where(self.along[rows] > 0, 1 / self.along[rows], 0.0)
        bend = ((lost - fall * size) / size**2).clamp_min(0)
        all_lost: Tensor = 2 / (fall + (fall**2 + 4 * bend).sqrt())
        return all_lost


def _root(one: Tensor, two: Tensor, third: Tensor) -> Tensor:
    """Return u where v is 0, by the parabola u(v) through three points where these rise, else by the line through the
    first two."""
    (u0, v0), (u1, v1), (u2, v2) = one, two, third
    line = u0 - v0 * (u1 - u0) / (v1 - v0)
    parabola = (
        u0 * v1 * v2 / ((v0 - v1) * (v0 - v2))
        + u1 * v0 * v2 / ((v1 - v0) * (v1 - v2))
        + u2 * v0 * v1 / ((v2 - v0) * (v2 - v1))
    )
    rising = ((u2 - u0) * (v2 - v0) > 0) & ((u2 - u1) * (v2 - v1) > 0) & (parabola > u0) & (parabola < u1)
    return torch.where(rising, parabola, line)


def largest(margin: Margin, count: int, first: float, ceiling: float) -> Tensor:
    """Return the largest sizes found that are certified, to :data:`PRECISION` where the bound falls with the size.

    A certified size certifies all smaller ones, since sets are nested, so the largest success counts whether the bound
    is monotone or not.

    Args:
        margin: the bound.
        count: of samples B.
        first: size to begin with, where lines do not say how far they reach.
        ceiling: size of the whole space; what is certified there is so at every size.

    Returns:
        ``[B]`` float64, 0 where nothing was certified down to :data:`_SMALLEST` times the ceiling.
    """
    brackets = _Brackets.unknown(count)
    for _ in range(_ROUNDS):
        rows = brackets.open_rows(ceiling)
        if not len(rows):
            break
        size = brackets.next_sizes(rows, first, ceiling)
        value, reach = margin(size, rows)
        brackets.learn(rows, size, value.nan_to_num(nan=-torch.inf), reach.nan_to_num(nan=0.0))
    return _rounded_down(torch.where(brackets.low >= ceiling, torch.inf, brackets.low))


def _rounded_down(sizes: Tensor) -> Tensor:
    scale = torch.where((sizes > 0) & sizes.isfinite(), sizes, 1.0).log10().floor()
    unit = 10.0 ** (scale - _DIGITS + 1)
    return torch.where(sizes.isfinite(), torch.floor(sizes / unit) * unit, sizes)
