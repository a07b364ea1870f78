"""Exact sizes of ReLU networks with two inputs, which certificates and searches are compared with.

Such a network is affine on each of finitely many polygons of the unit square. Cut the square along the line of each
neuron, then each polygon along the lines on which two logits are equal. The nearest mistake of a point is the nearest
point of a polygon of another class.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Piece:
    """A polygon of the plane, and the values of a layer that are affine on it: ``slope`` x + ``offset``.

    Attributes:
        corners: ``[K, 2]``, in order around the polygon.
        slope: ``[N, 2]``.
        offset: ``[N]``.
    """

    corners: Floats
    slope: Floats
    offset: Floats

    def cut(self, normal: Floats, level: float) -> Iterator["Piece"]:
        """Yield the parts where <normal, x> + level is at most 0, and at least 0."""
        for sign in (-1.0, 1.0):
            corners = positive_corners(self.corners, sign * (self.corners @ normal + level))
            if len(corners) > 2:
                yield Piece(corners, self.slope, self.offset)

    def apply_relu(self) -> "Piece":
        """Return the polygon with the values after ReLU; no neuron changes its sign on it."""
        active = (self.slope @ self.corners.mean(0) + self.offset > 0).astype(float)
        return Piece(self.corners, active[:, None] * self.slope, active * self.offset)

    def apply_layer(self, layer: nn.Linear) -> "Piece":
        """Return the polygon with the values after a linear layer."""
        weight, bias = (each.detach().double().numpy() for each in (layer.weight, layer.bias))
        return Piece(self.corners, weight @ self.slope, weight @ self.offset + bias)


def positive_corners(corners: Floats, height: Floats) -> Floats:
    """Return the corners of the part of a polygon where an affine function, of ``height`` [K] at its corners, is
    positive."""
    found: list[Floats] = []
    for k in range(len(corners)):
        here, there = height[k - 1], height[k]
        if (here > 0) != (there > 0):
            share = here / (here - there)
            found.append(corners[k - 1] + share * (corners[k] - corners[k - 1]))
        if there > 0:
            found.append(corners[k])
    return np.array(found).reshape(-1, 2)


def class_polygons(net: nn.Sequential) -> list[tuple[int, Floats]]:
    """Return the class and the corners of polygons that cover the unit square.

    Args:
        net: linear layers and ReLUs, with two inputs.
    """
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    pieces = [Piece(square, np.eye(2), np.zeros(2))]
    for layer in net:
        if isinstance(layer, nn.Linear):
            pieces = [piece.apply_layer(layer) for piece in pieces]
        elif isinstance(layer, nn.ReLU):
            for neuron in range(len(pieces[0].offset)):
                pieces = [part for each in pieces for part in each.cut(each.slope[neuron], each.offset[neuron])]
            pieces = [piece.apply_relu() for piece in pieces]
        elif not isinstance(layer, nn.Flatten):
            raise TypeError(f"{layer} is neither linear nor ReLU.")
    return [part for piece in pieces for part in _split_by_class(piece)]


def _split_by_class(piece: Piece) -> Iterator[tuple[int, Floats]]:
    for first in range(len(piece.offset)):
        corners = piece.corners
        for other in range(len(piece.offset)):
            if other != first and len(corners):
                lead = corners @ (piece.slope[first] - piece.slope[other]) + piece.offset[first] - piece.offset[other]
                corners = positive_corners(corners, lead)
        if len(corners):
            yield first, corners


def distance_to_segments(x: Floats, start: Floats, end: Floats, p: float) -> Floats:
    """Return the distance of a point ``x`` [2] to segments from ``start`` to ``end`` [K, 2] in the lp norm, [K].

    The distance along a segment is smallest where a coordinate, or the difference or sum of both, vanishes (linf and
    l1), at the foot of the perpendicular (l2), or at an end.
    """
    away, along = start - x, end - start
    ways = [[1.0, 0.0], [0.0, 1.0], [1.0, -1.0], [1.0, 1.0]]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [-(away @ np.array(way)) / (along @ np.array(way)) for way in ways]
        shares.append(-(away * along).sum(1) / (along**2).sum(1))
    places: Any = [0 * away[:, 0], 0 * away[:, 0] + 1, *(np.nan_to_num(share).clip(0, 1) for share in shares)]
    return np.min([np.linalg.norm(away + share[:, None] * along, ord=p, axis=1) for share in places], axis=0)


def exact_sizes(net: nn.Sequential, x: Floats, labels: NDArray[np.int64], p: float) -> Floats:
    """Return the distance of each point ``x`` [B, 2] to the nearest point of the unit square of another class, [B].

    Args:
        net: as of :func:`class_polygons`.
        x: points that the network classifies as ``labels`` [B] say.
        labels: classes.
        p: of the norm: inf, 2 or 1.
    """
    polygons, found = class_polygons(net), np.full(len(x), np.inf)
    for row, (point, label) in enumerate(zip(x, labels, strict=True)):
        others = [corners for kind, corners in polygons if kind != label]
        if others:
            start = np.concatenate([np.roll(corners, 1, axis=0) for corners in others])
            found[row] = distance_to_segments(point, start, np.concatenate(others), p).min()
    return found
