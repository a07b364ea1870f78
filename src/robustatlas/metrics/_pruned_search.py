"""Exact nearest neighbours of another class by lower bounds, in torch.

A level maps points [N, D] to shorter vectors [N, k] without increasing any distance. For linf these are differences of
a few coordinates, for l1 and l2 sums over groups of coordinates (l2: scaled by the root of the group's size). What is
farther on a level than the nearest neighbour found so far is farther in truth, so the shortest vectors settle most
pairs. Rounding is bounded and decided in favour of keeping a pair, so the result is that of comparing all pairs.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Norm = float
"""1, 2 or inf."""

_EPSILON = float(np.finfo(np.float32).eps)
_BLOCK = 1024
"""Points a side of the blocks of pairs that are bounded at once."""
_PAIRS = 1024
"""Pairs whose vectors are gathered at once."""
_CANDIDATES, _BEST_CANDIDATES = 32, 4
"""Pairs of each point that are tried first: by the shortest vectors, and of these by the next ones."""
_DENSE = 0.2
"""Share of a block's pairs from which on bounding all of them is cheaper than gathering the ones in question."""
_COORDINATES = (64, 192, 768)
"""Lengths of the vectors of the linf levels."""
_GROUP_SIDES = (4, 2)
"""Sides, along each axis, of the groups of the l1 and l2 levels."""


@dataclass(frozen=True)
class Level:
    """Vectors [N, k] whose distances are lower bounds, up to rounding that `relative` and `absolute` bound.

    `exact`: the distances of the vectors are those of the points, without any rounding.
    """

    vectors: Tensor
    relative: float
    absolute: float
    exact: bool = False


@dataclass
class Neighbours:
    """The nearest point of another class found so far, for each of N points; changed in place."""

    distance: NDArray[np.float64]
    nearest: NDArray[np.int64]
    duplicates: list[tuple[int, int]]

    def offer(self, points: NDArray[np.int64], others: NDArray[np.int64], distances: NDArray[np.float64]) -> None:
        """Take note of the distances of pairs of points; the lowest other point wins among equals."""
        order = np.lexsort((others, distances, points))
        points, others, distances = points[order], others[order], distances[order]
        first = np.ones(len(points), dtype=bool)
        first[1:] = points[1:] != points[:-1]
        points, others, distances = points[first], others[first], distances[first]
        known = self.distance[points]
        better = (distances < known) | ((distances == known) & (others < self.nearest[points]))
        self.distance[points[better]] = distances[better]
        self.nearest[points[better]] = others[better]


def nearest_of_other_class(
    points: NDArray[np.generic],
    labels: NDArray[np.int64],
    norm: Norm,
    axes: Sequence[int],
    progress: Callable[[float], None] | None = None,
) -> Neighbours:
    """Distance and position of the nearest point of another class that is not identical, for every point.

    ``points`` [N, D]: none NaN. ``norm``: 1, 2 or inf. ``axes``: lengths of the axes whose product is D; neighbours
    along an axis are taken to be alike. ``progress``: called with the share of the work that is done.
    """
    order = np.argsort(labels, kind="stable")
    search = _Search(torch.from_numpy(np.ascontiguousarray(points[order])), labels[order], norm, axes)
    search.seed()
    search.compare_all(progress or (lambda share: None))
    found = search.found
    nearest = np.full(len(order), -1)
    distance = np.full(len(order), np.inf)
    distance[order] = found.distance
    reached = found.nearest < len(order)
    nearest[order[reached]] = order[found.nearest[reached]]
    duplicates = sorted((int(min(order[i], order[j])), int(max(order[i], order[j]))) for i, j in found.duplicates)
    return Neighbours(distance, nearest, duplicates)


class _Search:
    def __init__(self, points: Tensor, labels: NDArray[np.int64], norm: Norm, axes: Sequence[int]) -> None:
        self.points = points
        self.labels = torch.from_numpy(labels)
        self.norm = norm
        self.levels = _levels(points, norm, axes)
        count = len(points)
        self.found = Neighbours(np.full(count, np.inf), np.full(count, count), [])

    def seed(self) -> None:
        """Find a near point of another class for every point, so that bounds can settle most pairs."""
        level = self.levels[0]
        for start in range(0, len(self.points), _BLOCK // 4):
            rows = torch.arange(start, min(start + _BLOCK // 4, len(self.points)))
            # Under l1, l2 distances find near points just as well and are much faster to compute for all pairs.
            rough = _dense(level, rows, slice(None), 2.0 if self.norm == 1 else self.norm)
            rough[self.labels[rows, None] == self.labels[None, :]] = math.inf
            columns = min(_CANDIDATES, rough.shape[1])
            values, others = rough.topk(columns, largest=False)
            pairs_of = rows[:, None].expand_as(others)
            finer = self._gathered(self.levels[min(1, len(self.levels) - 1)], pairs_of.reshape(-1), others.reshape(-1))
            finer = finer.reshape(values.shape).masked_fill_(values.isinf(), math.inf)
            best = finer.topk(min(_BEST_CANDIDATES, columns), largest=False)
            kept = ~best.values.isinf()
            self._settle(pairs_of[:, : kept.shape[1]][kept], others.gather(1, best.indices)[kept])

    def compare_all(self, progress: Callable[[float], None]) -> None:
        """Settle every pair of points of different classes."""
        starts = list(range(0, len(self.points), _BLOCK))
        blocks = [(first, second) for first in starts for second in starts if first <= second]
        for done, (first, second) in enumerate(blocks, start=1):
            self._compare(
                torch.arange(first, min(first + _BLOCK, len(self.points))),
                torch.arange(second, min(second + _BLOCK, len(self.points))),
            )
            progress(done / len(blocks))

    def _compare(self, rows: Tensor, columns: Tensor) -> None:
        open_pairs = self.labels[rows, None] != self.labels[None, columns]
        if rows[0] == columns[0]:
            open_pairs.triu_(1)
        if not open_pairs.any():
            return
        span = slice(int(columns[0]), int(columns[-1]) + 1)
        position = 0
        while position < len(self.levels) and (position == 0 or open_pairs.float().mean() > _DENSE):
            level = self.levels[position]
            bounds = _dense(level, rows, span, self.norm)
            if level.exact:
                self._take_block(rows, columns, bounds.masked_fill_(~open_pairs, math.inf))
                return
            open_pairs &= bounds <= torch.maximum(
                self._reach(level, rows)[:, None], self._reach(level, columns)[None, :]
            )
            position += 1
        row, column = open_pairs.nonzero(as_tuple=True)
        first, second = rows[row], columns[column]
        for level in self.levels[position:]:
            bounds = self._gathered(level, first, second)
            reach = torch.maximum(self._reach(level, first), self._reach(level, second))
            # Without rounding, only what is nearer counts: whole blocks may be as far as the nearest found so far.
            kept = bounds < reach if level.exact else bounds <= reach
            first, second = first[kept], second[kept]
        self._settle(first, second, record=True)

    def _take_block(self, rows: Tensor, columns: Tensor, distances: Tensor) -> None:
        """Take note of the exact distances [rows, columns] of a block; inf for pairs that do not count."""
        row, column = (distances == 0).nonzero(as_tuple=True)
        self.found.duplicates.extend(zip(rows[row].tolist(), columns[column].tolist(), strict=True))
        distances[row, column] = math.inf
        for points, others, (nearest, position) in (
            (rows, columns, distances.min(dim=1)),
            (columns, rows, distances.min(dim=0)),
        ):
            reached = ~nearest.isinf()
            self.found.offer(
                points[reached].numpy(), others[position[reached]].numpy(), nearest[reached].double().numpy()
            )

    def _reach(self, level: Level, points: Tensor) -> Tensor:
        """Distances on a level above which a pair cannot be nearer than the nearest found so far."""
        known = torch.from_numpy(self.found.distance[points.numpy()])
        return (known * (1 + level.relative) + level.absolute).float()

    def _gathered(self, level: Level, first: Tensor, second: Tensor) -> Tensor:
        """Distances [P] on a level of P pairs."""
        distances = torch.empty(len(first))
        for start in range(0, len(first), _PAIRS):
            part = slice(start, start + _PAIRS)
            difference = level.vectors[first[part]].sub_(level.vectors[second[part]])
            distances[part] = _norms(difference, self.norm)
        return distances

    def _settle(self, first: Tensor, second: Tensor, record: bool = False) -> None:
        """Compute the distances of pairs in float64; note the duplicates among them if asked to."""
        parts = []
        for start in range(0, len(first), _PAIRS // 4):
            part = slice(start, start + _PAIRS // 4)
            difference = self.points[first[part]].double().sub_(self.points[second[part]].double())
            parts.append(_norms(difference, self.norm))
        if not parts:
            return
        distances = torch.cat(parts).numpy()
        ours, theirs = first.numpy(), second.numpy()
        same = distances == 0
        if record:
            self.found.duplicates.extend(zip(ours[same].tolist(), theirs[same].tolist(), strict=True))
        ours, theirs, distances = ours[~same], theirs[~same], distances[~same]
        self.found.offer(ours, theirs, distances)
        self.found.offer(theirs, ours, distances)


def _levels(points: Tensor, norm: Norm, axes: Sequence[int]) -> list[Level]:
    """Levels of growing length; the last one holds the points themselves."""
    length = points.shape[1]
    mean = points.mean(dim=0, dtype=torch.float64)
    if math.isinf(norm):
        variance = points[:: max(1, len(points) // _BLOCK)].double().var(dim=0, correction=0) + 1e-9
        # Coordinates that vary much tell points apart; a random choice among them avoids neighbours that vary together.
        order = torch.multinomial(variance, length, generator=torch.Generator().manual_seed(0))
        shorter = [partial(torch.index_select, dim=1, index=order[:count]) for count in _COORDINATES]
        lengths = list(_COORDINATES)
    else:
        groups = [_groups(axes, side) for side in _GROUP_SIDES]
        shorter = [partial(_sums, group=group, norm=norm) for group in groups]
        lengths = [int(group.max()) + 1 for group in groups]
    levels = [
        _level(points, mean, norm, shorten)
        for shorten, count in zip(shorter, lengths, strict=True)
        if 2 * count <= length
    ]
    # Sums of up to 2**24 are exact in float32.
    exact = points.dtype == torch.uint8 and (math.isinf(norm) or (norm == 1 and 255 * length < 2**24))
    if exact:
        return [*levels, Level(points.float(), relative=0.0, absolute=0.0, exact=True)]
    full = points.float()
    largest = float(_norms(full.clone(), norm).max())
    return [*levels, Level(full, relative=(length + 8) * _EPSILON, absolute=2 * _EPSILON * largest)]


def _level(points: Tensor, mean: Tensor, norm: Norm, shorten: Callable[[Tensor], Tensor]) -> Level:
    """The level of shortened vectors, of points around their mean to lose fewer digits to rounding."""
    parts = (points[start : start + _BLOCK].double() - mean for start in range(0, len(points), _BLOCK))
    vectors = torch.cat([shorten(part).float() for part in parts])
    largest = float(_norms(vectors.clone(), norm).max())
    return Level(vectors, relative=(points.shape[1] + 8) * _EPSILON, absolute=4 * _EPSILON * largest)


def _norms(vectors: Tensor, norm: Norm) -> Tensor:
    """Norms [P] of vectors [P, k], which may be overwritten."""
    return vectors.abs_().amax(dim=1) if math.isinf(norm) else torch.linalg.vector_norm(vectors, norm, dim=1)


def _sums(rows: Tensor, group: Tensor, norm: Norm) -> Tensor:
    sizes = torch.bincount(group)
    sums = rows.new_zeros(len(rows), len(sizes)).index_add_(1, group, rows)
    return sums / sizes.sqrt() if norm == 2 else sums


def _groups(axes: Sequence[int], side: int) -> Tensor:
    """Group [D] of every coordinate: runs of `side` along each axis; axes of at most 4 (colours) are not grouped."""
    spatial = [axis for axis in axes if axis > 4]
    run = side**2 if len(spatial) == 1 else side
    group = torch.zeros(tuple(axes), dtype=torch.long)
    for position, axis in enumerate(axes):
        index = torch.arange(axis) // (run if axis > 4 else 1)
        shape = [1] * len(axes)
        shape[position] = axis
        group = group * int(index[-1] + 1) + index.reshape(shape)
    return group.reshape(-1)


def _dense(level: Level, rows: Tensor, columns: slice, norm: Norm) -> Tensor:
    """Lower bounds [rows, columns] of the distances on a level."""
    ours, theirs = level.vectors[rows], level.vectors[columns]
    if norm != 2:
        return torch.cdist(ours, theirs, p=norm)
    squares = (ours**2).sum(dim=1)[:, None] + (theirs**2).sum(dim=1)[None, :]
    # The product of matrices loses digits where the vectors are much longer than their difference.
    rounding = 4 * (ours.shape[1] + 4) * _EPSILON * squares.max()
    return torch.addmm(squares, ours, theirs.T, alpha=-2).sub_(rounding).clamp_(min=0).sqrt_()
