"""Bounds on every number of a network for all inputs of a region: by intervals, and backwards by lines.

Sources: Gowal et al. 2018 (IBP, section 3: the rows of the margins are multiplied into the last affine layers first);
Zhang et al. 2018 (CROWN, theorem 3.2); Zhang et al. 2020 (CROWN-IBP).

Each operation may be off by its ``rounding`` [B, ...], relative to |W| |x| + |b| (Higham 2002, section 3.1). Bounds
hold for every network that differs by no more than that, so for the one that is attacked.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from robustatlas.certificates.activations import Activation, Lines
from robustatlas.certificates.network import Network, Node, add, mixes
from robustatlas.certificates.operations import AffineOperation, MaxPool, Moved, Picked, accumulated
from robustatlas.certificates.regions import NormBall, Region, Segment
from robustatlas.certificates.windowed import Windowed, least, side_by_side
from robustatlas.common.bundle import per_sample

Sides = Mapping[int, tuple[Tensor, Tensor]]
"""Positions of nodes -> lower and upper bounds [B, ...] of their numbers."""


class Beyond:
    """Bounds on what goes into the activations of samples, from the last region of each that was too large. They hold
    in smaller ones too, so that nothing need be computed of what keeps its sign."""

    def __init__(self) -> None:
        self._sides: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, rows: Tensor) -> Sides:
        """What is known of some samples; infinite where nothing is."""
        return {position: (low[rows], high[rows]) for position, (low, high) in self._sides.items()}

    def learn(self, rows: Tensor, lost: Tensor, sides: Sides, count: int) -> None:
        """Keep the ``sides`` [K, ...] of those of the samples ``rows`` [K], of ``count``, that ``lost`` [K] says."""
        for position, found in sides.items():
            if position not in self._sides:
                everything = found[0].new_full((count, *found[0].shape[1:]), torch.inf)
                self._sides[position] = -everything, everything
            for kept, new in zip(self._sides[position], found, strict=True):
                kept[rows[lost]] = new[lost]


_ON_THE_WAY = 8.0
"""By how much larger than x and f(x) the numbers are that activations compute in between: hardswish takes 6 x."""


@dataclass
class Bounds:
    """What is known of the numbers of a network on the regions of B samples.

    Attributes:
        network: whose numbers.
        region: of the inputs.
        low, high: of each node, ``[B, ...]``, between which its numbers lie.
        rounding: of each node, ``[B, ...]``, what its own arithmetic may be off by.
        lines: of each nonlinear node, what encloses it.
        known: of nodes before activations, what holds on larger regions.
        overflows: ``[B]``, where numbers may grow beyond the largest that the network has, so that nothing is certain.

    ``_direct``: of each node that is affine in the input, its values at the centre of a ball or the ends of a segment,
    and by how much roundings, and what lies beside the segment, may move it.
    """

    network: Network
    region: Region
    low: list[Tensor] = field(default_factory=list)
    high: list[Tensor] = field(default_factory=list)
    rounding: list[Tensor | None] = field(default_factory=list)
    lines: dict[int, Lines | Picked] = field(default_factory=dict)
    known: Sides = field(default_factory=dict)
    overflows: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.bool))
    _direct: dict[int, tuple[tuple[Tensor, ...], Tensor]] = field(default_factory=dict)

    @classmethod
    def of(cls, network: Network, region: Region, *, backwards: bool, known: Sides | None = None) -> Bounds:
        """Bounds on all numbers of a network.

        Args:
            network: read from a model.
            region: of B samples.
            backwards: whether what goes into an activation is bounded backwards by lines (CROWN), or by intervals alone
                (IBP).
            known: :attr:`sides` of bounds on regions that hold these.
        """
        found = cls(network, region, known=known or {})
        for position, node in enumerate(network.graph.nodes):
            if node.operation is None:
                found._begin()
            elif isinstance(node.operation, AffineOperation):
                found._affine(position, node, node.operation)
            else:
                if backwards:
                    found._tighten(node.inputs[0], node.operation)
                found._enclose(position, node.operation, node.inputs[0])
        return found

    @property
    def samples(self) -> int:
        """B."""
        return len(self.low[0])

    @property
    def sides(self) -> Sides:
        """Bounds on what goes into the activations."""
        inputs = (self.network.graph.nodes[k].inputs[0] for k in self.lines)
        return {k: (self.low[k], self.high[k]) for k in inputs}

    def margins(self, labels: Tensor, *, backwards: bool) -> Tensor:
        """``[B, C]``: lower bounds of the margins f_y - f_j; inf where j is the label."""
        rows, owner, place = self.margin_rows(labels)
        found = rows.new_full((self.samples, rows.shape[1]), torch.inf)
        found[owner, place] = self.lowest(self.network.graph.output, rows, owner, backwards=backwards)
        return found

    def reaches(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The :meth:`margins` backwards on balls, and radii up to which their lines keep each above 0, both [B, C]."""
        assert isinstance(self.region, NormBall)
        rows, owner, place = self.margin_rows(labels)
        found, reach = (rows.new_full((self.samples, rows.shape[1]), torch.inf) for _ in range(2))
        parts = (torch.split(each, self.network.at_once) for each in (rows, owner, place))
        for some, of, to in zip(*parts, strict=True):
            plane, constant = self.planes(self.network.graph.output, Windowed.all(some), of)
            assert plane is not None
            found[of, to] = constant + self.region.lowest(plane, of)
            reach[of, to] = self.region.reach(plane, constant, of)
        return found, reach

    def margin_rows(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rows [B (C - 1), C] of the margins, the sample of each, and its other class."""
        classes = self.network.graph.nodes[-1].shape[0]
        owner = torch.arange(len(labels), device=labels.device).repeat_interleave(classes)
        place = torch.arange(classes, device=labels.device).repeat(len(labels))
        other = place != labels[owner]
        owner, place = owner[other], place[other]
        eye = torch.eye(classes, dtype=torch.float64, device=labels.device)
        return eye[labels[owner]] - eye[place], owner, place

    def lowest(self, start: int, rows: Tensor, owner: Tensor, *, backwards: bool = True) -> Tensor:
        """``[R]``: lower bounds of rows [R, ...] of the node at ``start``, each for the sample of its ``owner`` [R]."""
        parts = zip(*(torch.split(each, self.network.at_once) for each in (rows, owner)), strict=True)
        return torch.cat([self.backward(start, Windowed.all(some), of, backwards=backwards) for some, of in parts])

    def backward(self, start: int, rows: Windowed, owner: Tensor, *, backwards: bool = True) -> Tensor:
        """:meth:`lowest` of rows that memory takes at once."""
        at_input, total = self.planes(start, rows, owner, backwards=backwards)
        return total if at_input is None else total + self.region.lowest(at_input, owner)

    def planes(
        self,
        start: int,
        rows: Windowed,
        owner: Tensor,
        *,
        backwards: bool = True,
        slopes: dict[int, Tensor] | None = None,
    ) -> tuple[Windowed | None, Tensor]:
        """Affine functions of the input below rows of a node: coefficients [R, ...] (None: there are none) and
        constants [R], -inf where numbers may overflow."""
        coefficients, total = {start: rows}, torch.where(self.overflows[owner], -torch.inf, rows.values.new_zeros(1))
        for k in range(start, -1, -1):
            at = coefficients.pop(k, None)
            if at is None:
                continue
            node = self.network.graph.nodes[k]
            if not backwards and k in self.network.nonlinear:
                total = total + least(at, self.low[k], self.high[k], owner)
                continue
            if (rounding := self.rounding[k]) is not None:
                total = total - _sum(at.values.abs() * at.of(rounding)[owner])
            if node.operation is None:
                return at, total
            if isinstance(node.operation, AffineOperation):
                total = total + _sum(at.values * at.of(self.network.offset(k)))
                self.network.onwards(coefficients, node, at)
            else:
                back, fixed = self._through(k, node, at, owner, None if slopes is None else slopes.get(k))
                total = total + fixed
                add(coefficients, node.inputs[0], back)
        return None, total

    def _through(
        self, position: int, node: Node, rows: Windowed, owner: Tensor, slope: Tensor | None
    ) -> tuple[Windowed, Tensor]:
        lines, source = self.lines[position], node.inputs[0]
        if isinstance(lines, Picked):
            assert isinstance(node.operation, MaxPool)
            back, fixed = node.operation.back(rows.whole(), lines, owner, self.network.graph.nodes[source].shape)
            return Windowed.all(back), fixed
        if slope is None:
            below, offset = rows.of(lines.low_slope)[owner], rows.of(lines.low_offset)[owner]
        else:
            assert isinstance(node.operation, Activation)
            below = rows.of(slope)
            low, high = (rows.of(side[source])[owner] for side in (self.low, self.high))
            offset = node.operation.below(below, low, high)
        values = rows.values
        up = values >= 0
        fixed = _sum(values * torch.where(up, offset, rows.of(lines.high_offset)[owner]))
        return rows.but(values * torch.where(up, below, rows.of(lines.high_slope)[owner])), fixed

    def deviations(self) -> Tensor:
        """``[B, C]``: how far each logit of the network as it is computed may be from that in real numbers."""
        errors: list[Tensor] = []
        for node, rounding in zip(self.network.graph.nodes, self.rounding, strict=True):
            operation, before = node.operation, [errors[k] for k in node.inputs]
            own = torch.zeros_like(self.low[len(errors)]) if rounding is None else rounding
            if isinstance(operation, AffineOperation):
                own = own + operation.spread(*before)
            elif isinstance(operation, MaxPool):
                own = own + operation.apply(*before)
            elif operation is not None:
                own = own + before[0] * max(map(abs, operation.slopes))
            errors.append(own)
        return errors[-1]

    def _enter(self, low: Tensor, high: Tensor, rounding: Tensor | None) -> None:
        """The interval of the next node, and its rounding, which is not in it yet."""
        self.rounding.append(rounding)
        self.low.append(low if rounding is None else low - rounding)
        self.high.append(high if rounding is None else high + rounding)

    def _grow(self, size: Tensor, rounding: Tensor) -> None:
        """Look whether numbers on the way to a node, of the ``size`` at most, overflow."""
        self.overflows = self.overflows | (size + rounding > self.network.graph.largest).flatten(1).any(1)

    def _begin(self) -> None:
        low, high = self.region.limits()
        self.overflows = torch.zeros(len(low), dtype=torch.bool, device=low.device)
        rounding = torch.full_like(low, self.network.unit * self.region.roundings) if self.network.unit else None
        own = torch.zeros_like(low) if rounding is None else rounding
        if isinstance(self.region, Segment):
            aside = torch.maximum(self.region.below, self.region.above)
            self._direct[0] = (self.region.start, self.region.end), own + aside
        elif isinstance(self.region, NormBall):
            self._direct[0] = (self.region.centre,), own
        self._enter(low, high, rounding)

    def _affine(self, position: int, node: Node, operation: AffineOperation) -> None:
        low, high = [self.low[k] for k in node.inputs], [self.high[k] for k in node.inputs]
        rounding = None
        if operation.terms and self.network.unit:
            largest = [torch.maximum(a.abs(), b.abs()) for a, b in zip(low, high, strict=True)]
            size = operation.size(*largest)
            rounding = size * accumulated(operation.count(*largest), self.network.unit)
            self._grow(size * operation.terms if isinstance(operation, Moved) else size, rounding)
        if all(k in self._direct for k in node.inputs):
            points = zip(*(self._direct[k][0] for k in node.inputs), strict=True)
            values = tuple(operation.apply(*given) for given in points)
            noise = operation.spread(*(self._direct[k][1] for k in node.inputs))
            self._direct[position] = values, noise if rounding is None else noise + rounding
            if not self._boxes(operation):
                low_at, high_at = torch.stack(values).amin(0), torch.stack(values).amax(0)
                width = self._reach(position, low_at) + noise
                self._enter(low_at - width, high_at + width, rounding)
                return
        middle = operation.apply(*((a + b) / 2 for a, b in zip(low, high, strict=True)))
        width = operation.spread(*((b - a) / 2 for a, b in zip(low, high, strict=True)))
        self._enter(middle - width, middle + width, rounding)

    def _boxes(self, operation: AffineOperation) -> bool:
        """Whether boxes are as good as the region itself."""
        if isinstance(self.region, NormBall):
            return self.region.p == torch.inf or not mixes(operation)
        return False

    def _reach(self, position: int, like: Tensor) -> Tensor | float:
        """How far the ball moves each number of a node that is affine in the input."""
        if not isinstance(self.region, NormBall):
            return 0.0
        return per_sample(self.region.radius, like) * self.network.norms(position, self.region.dual)

    def _exact(self, position: int) -> bool:
        """Whether the interval of a node is the smallest there is: going backwards would find the same."""
        if position not in self._direct:
            return False
        in_boxes = isinstance(self.region, NormBall) and self.region.p == torch.inf
        return not in_boxes or self.network.products[position] <= 1

    def _tighten(self, position: int, operation: Activation | MaxPool) -> None:
        """Bound what goes into a nonlinear node backwards, where that matters."""
        if self._exact(position):
            return
        low, high = (side[position].clone(memory_format=torch.contiguous_format) for side in (self.low, self.high))
        if position in self.known:
            low, high = torch.maximum(low, self.known[position][0]), torch.minimum(high, self.known[position][1])
        open_ = operation.bends(low, high) if isinstance(operation, Activation) else low < high
        low_flat, high_flat = low.flatten(1), high.flatten(1)
        shape = self.network.graph.nodes[position].shape
        owner, place = open_.flatten(1).nonzero(as_tuple=True)
        for part in side_by_side(place, shape, self.network.at_once):
            who, where = owner[part], place[part]
            rows = Windowed.units(where, shape, low)
            both = rows.but(torch.cat([rows.values, -rows.values]))
            under, over = self.backward(position, both, who.repeat(2)).chunk(2)
            low_flat[who, where] = torch.maximum(low_flat[who, where], under)
            high_flat[who, where] = torch.minimum(high_flat[who, where], -over)
        self.low[position], self.high[position] = low, torch.maximum(low, high)

    def _enclose(self, position: int, operation: Activation | MaxPool, source: int) -> None:
        low, high = self.low[source], self.high[source]
        if isinstance(operation, MaxPool):
            self.lines[position] = operation.picked(low, high)
            self._enter(operation.apply(low), operation.apply(high), None)
            return
        self.lines[position] = operation.lines(low, high)
        least, most = operation.range(low, high)
        rounding = None
        if self.network.unit and (operation.roundings or operation.error):
            size = torch.maximum(low.abs(), high.abs()) + torch.maximum(least.abs(), most.abs()) + operation.offset
            rounding = operation.roundings * self.network.unit * size + operation.error
            self._grow(_ON_THE_WAY * size, rounding)
        self._enter(least, most, rounding)


def _sum(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1)


def most_seconds(network: Network, x: Tensor) -> float:
    """Seconds of one bound backwards (CROWN) on a ball around ``x`` [1, ...], if every number before an activation is
    bounded from both sides: those of a few numbers in the middle of each layer, times how many there are.

    Example:
        >>> import robustatlas as ra
        >>> from robustatlas.certificates import Subject
        >>> subject = Subject(ra.load_model("builtin:digits-linf"), (1, 8, 8))
        >>> 0 < most_seconds(subject.network, torch.rand(1, 1, 8, 8)) < 60
        True
    """
    bounds = Bounds.of(network, NormBall(x.double(), torch.zeros(1).double().to(x.device), torch.inf), backwards=False)
    seconds = 0.0
    for position in bounds.sides:
        shape = network.graph.nodes[position].shape
        numbers = torch.Size(shape).numel()
        count = min(numbers, network.at_once)
        places = torch.arange(count, device=x.device) + (numbers - count) // 2
        begun = time.perf_counter()
        bounds.backward(position, Windowed.units(places, shape, bounds.low[position]), torch.zeros_like(places))
        seconds += 2 * (time.perf_counter() - begun) * numbers / count
    return seconds
