"""The nearest point of another class in l2, by the linear pieces (activation regions) of a ReLU network around a point.

Neurons are given their signs one by one, a half space each, and what is nearest goes on first (best first). So the
first whole region with a point of another class has the nearest one. Whatever ends earlier ends with a lower bound.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from scipy.optimize import nnls

from robustatlas.certificates.milp import Inside
from robustatlas.certificates.piecewise import AffineMap, Floats, Piecewise

_BEYOND = 1e-8
"""Of the residual of :func:`nearest`: what is further than its inverse is nowhere."""


@dataclass(frozen=True, order=True)
class _Cell:
    """Half spaces whose part of the box is at a ``distance`` from the point, nearest at ``move`` [D]; ``signs`` of
    neurons as far as they are known; ``over``: with a point of another class in it."""

    distance: float
    age: int
    over: bool = field(compare=False)
    move: Floats = field(compare=False)
    normals: Floats = field(compare=False)
    limits: Floats = field(compare=False)
    signs: tuple[bool, ...] = field(compare=False)


def distance_to(
    net: Piecewise, inside: Inside, margins: Sequence[tuple[AffineMap, float]], regions: int
) -> tuple[float, bool]:
    """How far the nearest point is at which one of the margins is at most a number.

    Args:
        net: the network.
        inside: the point, and bounds on its ball.
        margins: each a row of the logits, and what it is at most where the network may err.
        regions: half spaces to look behind, at most.

    Returns:
        a lower bound of the distance, inf where none is in the ball; and whether the bound is exact.
    """
    order = _Order(net, inside)
    ages, looked = count(), 0
    box = np.concatenate([np.eye(len(inside.x)), -np.eye(len(inside.x))])
    limits = np.concatenate([inside.low[0] - inside.x, inside.x - inside.high[0]])
    waiting = [_Cell(0.0, next(ages), False, np.zeros_like(inside.x), box, limits, ())]
    while waiting:
        cell = heapq.heappop(waiting)
        if cell.distance > inside.radius:
            break
        if cell.over or looked > regions:
            return cell.distance, cell.over
        for normals, at_least, signs, over in order.children(cell.signs, margins):
            looked += 1
            child = _behind(cell, normals, at_least, signs, over, next(ages))
            if child is not None:
                heapq.heappush(waiting, child)
    return np.inf, True


def _behind(
    cell: _Cell, normal: Floats, at_least: float, signs: tuple[bool, ...], over: bool, age: int
) -> _Cell | None:
    """The part of a cell where <normal, move> >= ``at_least``; None where there is none."""
    length = float(np.linalg.norm(normal))
    if length < 1e-12:
        return _Cell(cell.distance, age, over, cell.move, cell.normals, cell.limits, signs) if at_least <= 0 else None
    normals = np.concatenate([cell.normals, normal[None] / length])
    limits = np.append(cell.limits, at_least / length)
    if normals[-1] @ cell.move >= limits[-1]:
        return _Cell(cell.distance, age, over, cell.move, normals, limits, signs)
    found = nearest(normals, limits)
    if found is None:
        return None
    distance = max(cell.distance, float(np.linalg.norm(found)))
    return _Cell(distance, age, over, found, normals, limits, signs)


def nearest(normals: Floats, limits: Floats) -> Floats | None:
    """The shortest u with ``normals`` u >= ``limits``; None where there is none (or none for miles).

    Source: Lawson and Hanson 1974, Solving Least Squares Problems, chapter 23 (LDP).
    """
    stacked = np.concatenate([normals.T, limits[None]])
    goal = np.zeros(len(stacked))
    goal[-1] = 1.0
    weights, _ = nnls(stacked, goal, maxiter=30 * len(normals))
    residual = stacked @ weights - goal
    return None if -residual[-1] < _BEYOND else -residual[:-1] / residual[-1]


class _Order:
    """Neurons in the order in which they get their signs; those whose sign is known on the ball have it."""

    def __init__(self, net: Piecewise, inside: Inside) -> None:
        self.net, self.x = net, inside.x
        self.open = [
            (position, int(neuron))
            for position in net.layers
            for neuron in np.flatnonzero((inside.low[position] < 0) & (inside.high[position] > 0))
        ]
        self.known = {position: inside.low[position] >= 0 for position in net.layers}

    def children(
        self, signs: tuple[bool, ...], margins: Sequence[tuple[AffineMap, float]]
    ) -> Iterator[tuple[Floats, float, tuple[bool, ...], bool]]:
        """Half spaces <normal, move> >= limit that a cell is cut by: both signs of its next neuron, or where all have
        theirs the mistakes."""
        whole = len(signs) == len(self.open)
        values = self._values(signs, None if whole else self.open[len(signs)][0])
        if whole:
            for margin, most in margins:
                weight, at = self._here(margin, values)
                yield -weight[0], float(at[0] - most), signs, True
            return
        position, neuron = self.open[len(signs)]
        weight, at = self._here(self.net.layers[position], values)
        yield weight[neuron], float(-at[neuron]), (*signs, True), False
        yield -weight[neuron], float(at[neuron]), (*signs, False), False

    def _values(self, signs: tuple[bool, ...], until: int | None) -> dict[int, tuple[Floats, Floats]]:
        """Position -> weights [n, D] and values at the point [n] of each layer before ``until``, with these signs."""
        values: dict[int, tuple[Floats, Floats]] = {0: (np.eye(len(self.x)), self.x)}
        given = dict(zip(self.open, signs, strict=False))
        for position, layer in self.net.layers.items():
            if position == until:
                break
            on = self.known[position].copy()
            for (of, neuron), sign in given.items():
                if of == position:
                    on[neuron] = sign
            weight, at = self._here(layer, values)
            values[position] = weight * on[:, None], at * on
        return values

    @staticmethod
    def _here(affine: AffineMap, values: dict[int, tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
        """Weights [n, D] and values at the point [n] of what is affine in the layers before it."""
        width = values[0][0].shape[1]
        weight, at = np.zeros((len(affine.offset), width)), affine.offset.copy()
        for position, part in affine.parts.items():
            weight = weight + part @ values[position][0]
            at = at + part @ values[position][1]
        return weight, at
