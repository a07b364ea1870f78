"""The nearest point at which a ReLU network may prefer another class, as a mixed-integer linear program.

Source: Tjeng, Xiao and Tedrake 2019, Evaluating Robustness of Neural Networks with Mixed Integer Programming, section 4
(each ReLU by one binary variable and its bounds).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds as Between
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from robustatlas.certificates.piecewise import AffineMap, Floats, Piecewise

_TOLERANCE = 1e-7
"""Of the solver's dual solution, for each unit by which a variable can move: as much of a bound is not certain."""


@dataclass(frozen=True)
class Inside:
    """What is known of one sample on the ball that is searched.

    Attributes:
        x: ``[D]``, the sample.
        low, high: position of the input and of each ReLU -> between which the input, or what goes into it, lies.
        p: inf, 1 or 0.
        radius: of the ball; of p = 0 nothing.
    """

    x: Floats
    low: dict[int, Floats]
    high: dict[int, Floats]
    p: float
    radius: float


class NearestPoint:
    """The program of one sample on one ball; classes differ by a row."""

    def __init__(self, net: Piecewise, inside: Inside) -> None:
        self.inside = inside
        self._places: dict[object, slice] = {}
        self._low: list[Floats] = []
        self._high: list[Floats] = []
        self._whole: list[NDArray[np.int64]] = []
        self._rows: list[tuple[csr_array, Floats, Floats]] = []
        self._variables(net)
        self._distance()
        for position, layer in net.layers.items():
            self._relu(position, layer)
        self._matrix = vstack([rows for rows, _, _ in self._rows], format="csr")

    @property
    def count(self) -> int:
        """Number of variables."""
        return sum(map(len, self._low))

    def bound(self, margin: AffineMap, most: float, cutoff: float, nodes: int) -> float:
        """A lower bound of the distance to points where a margin is at most ``most``.

        Args:
            margin: one row, of the logits.
            most: what the margin of a computed network may be off by.
            cutoff: distances from here on are of no interest.
            nodes: of the search at most; where it ends there, the bound is below the distance.

        Returns:
            the bound, inf where there is no such point nearer than ``cutoff``.
        """
        sizes = self._places["size"]
        row = self._linear(margin.parts, 1)
        low = np.concatenate([*(low for _, low, _ in self._rows), [-np.inf]])
        high = np.concatenate([*(high for _, _, high in self._rows), most - margin.offset])
        cost = np.zeros(self.count)
        cost[sizes] = 1.0
        limits = np.append(low, -np.inf), np.append(high, cutoff)
        found = milp(
            cost,
            integrality=np.concatenate(self._whole),
            bounds=Between(np.concatenate(self._low), np.concatenate(self._high)),
            constraints=LinearConstraint(vstack([self._matrix, row, csr_array(cost[None])], format="csr"), *limits),
            options={"node_limit": nodes, "mip_rel_gap": 0.0},
        )
        if found.status == 2:
            return float("inf")
        known = found.mip_dual_bound if found.mip_dual_bound is not None else found.fun
        if known is None or not np.isfinite(known) or found.status not in (0, 1):
            return 0.0
        slack = _TOLERANCE * float(sum((high - low).sum() for low, high in zip(self._low, self._high, strict=True)))
        if self.inside.p == 0:
            return float(np.ceil(known - slack))
        return max(0.0, float(known) - slack)

    def _variables(self, net: Piecewise) -> None:
        inside, ones = self.inside, np.ones_like(self.inside.x)
        self._add(0, inside.low[0], inside.high[0])
        sizes = ones[:1] if inside.p == np.inf else ones
        largest = 1.0 if inside.p == 0 else min(1.0, inside.radius)
        self._add("size", 0 * sizes, largest * sizes, whole=inside.p == 0)
        for position in net.layers:
            low, high = inside.low[position], inside.high[position]
            self._add(position, 0 * low, high.clip(min=0))
            self._add(("on", position), (low >= 0).astype(float), (high > 0).astype(float), whole=True)

    def _add(self, name: object, low: Floats, high: Floats, *, whole: bool = False) -> None:
        begin = self.count
        self._places[name] = slice(begin, begin + len(low))
        self._low.append(low)
        self._high.append(high)
        self._whole.append(np.full(len(low), int(whole)))

    def _distance(self) -> None:
        """|x' - x| is at most the size, number by number or for all."""
        x, eye = self.inside.x, np.eye(len(self.inside.x))
        size = np.ones((len(x), 1)) if self.inside.p == np.inf else eye
        for sign in (1.0, -1.0):
            self._at_most({0: sign * eye, "size": -size}, sign * x)

    def _relu(self, position: int, layer: AffineMap) -> None:
        low, high = self.inside.low[position], self.inside.high[position]
        eye, on = np.eye(len(low)), ("on", position)
        into: dict[Any, Floats] = {**layer.parts}
        minus: dict[Any, Floats] = {k: -part for k, part in layer.parts.items()}
        self._at_most(into | {position: -eye}, -layer.offset)
        self._at_most(minus | {position: eye, on: np.diag(-low)}, layer.offset - low)
        self._at_most({position: eye, on: np.diag(-high.clip(min=0))}, 0 * high)

    def _at_most(self, parts: Mapping[Any, Floats], most: Floats) -> None:
        self._rows.append((self._linear(parts, len(most)), np.full(len(most), -np.inf), most))

    def _linear(self, parts: Mapping[Any, Floats], count: int) -> csr_array:
        made = np.zeros((count, self.count))
        for name, part in parts.items():
            made[:, self._places[name]] += part
        return csr_array(made)
