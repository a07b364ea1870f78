"""Bounds on every number of a network for all inputs of a region: by intervals, and backwards by lines.

Sources: Gowal et al. 2018 (IBP, section 3: the rows of the margins are multiplied into the last affine layers first);
Zhang et al. 2018 (CROWN, theorem 3.2); Zhang et al. 2020 (CROWN-IBP).

Each operation may be off by its ``rounding`` [B, ...], relative to |W| |x| + |b| (Higham 2002, section 3.1), and by
what numbers too small for their kind lose. Bounds hold for every network that differs by no more than that, so for the
one that is attacked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robustatlas.certificates.activations import Activation, Lines
from robustatlas.certificates.network import Network, Node, add_rows, mixes_signs
from robustatlas.certificates.operations import AffineOperation, MaxPool, Picked, accumulated_error
from robustatlas.certificates.regions import NormBall, Region, Segment
from robustatlas.certificates.windowed import Windowed, lowest_on_boxes, neighbouring_places
from robustatlas.common.bundle import per_sample

Intervals = Mapping[int, tuple[Tensor, Tensor]]
"""Positions of nodes -> lower and upper bounds [B, ...] of their numbers."""


class LargerBounds:
    """Bounds on what goes into the activations of samples, from the last region of each that was too large. They hold
    in smaller regions too, so that nothing need be computed of what keeps its sign."""

    def __init__(self) -> None:
        self._intervals: dict[int, tuple[Tensor, Tensor]] = {}

    def select(self, rows: Tensor) -> Intervals:
        """Return the bounds of the samples ``rows``; infinite where nothing is known."""
        return {position: (low[rows], high[rows]) for position, (low, high) in self._intervals.items()}

    def store(self, rows: Tensor, failed: Tensor, intervals: Intervals, count: int) -> None:
        """Store the bounds of ``rows[failed]``; ``intervals`` have a row for each of ``rows``, of ``count`` samples."""
        for position, found in intervals.items():
            if position not in self._intervals:
                everything = found[0].new_full((count, *found[0].shape[1:]), torch.inf)
                self._intervals[position] = -everything, everything
            for kept, new in zip(self._intervals[position], found, strict=True):
                kept[rows[failed]] = new[failed]


_ON_THE_WAY = 8.0
"""By how much larger than x and f(x) the numbers are that activations compute in between: hardswish takes 6 x."""


@dataclass(frozen=True)
class AffineValues:
    """Values of a node that is affine in the input, at the centre of a ball or at the ends of a segment. Roundings, and
    inputs beside the segment, move them by ``noise`` [B, ...] at most."""

    values: tuple[Tensor, ...]
    noise: Tensor


@dataclass(frozen=True)
class NodeBounds:
    """Bounds of the numbers of one node on the regions of B samples.

    Attributes:
        low, high: ``[B, ...]``, between which its numbers lie.
        rounding: ``[B, ...]``, what its own arithmetic may be off by; None: it is exact.
        affine: its values, where it is affine in the input.
    """

    low: Tensor
    high: Tensor
    rounding: Tensor | None = None
    affine: AffineValues | None = None


@dataclass(frozen=True)
class Relaxation:
    """Lines that rows go through at one activation in place of the usual ones, each row its own.

    Attributes:
        lines: ``[R, ...]``.
        multipliers: ``[R, ...]``, added to the coefficients of the activation's input: of constraints on its sign.
    """

    lines: Lines
    multipliers: Tensor


@dataclass(frozen=True)
class Plane:
    """Affine functions of the input that are below rows of a node.

    Attributes:
        slope: coefficients [R, ...]; None: there are none.
        constant: ``[R]``, -inf where numbers may overflow.
        coefficients: position of each activation that has a :class:`Relaxation` -> coefficients [R, ...] of its output.
    """

    slope: Windowed | None
    constant: Tensor
    coefficients: Mapping[int, Tensor]


class Bounds:
    """Bounds on all numbers of a network on the regions of B samples.

    Attributes:
        network: whose numbers.
        region: of the inputs.
        nodes: what is known of each node.
        overflows: ``[B]``, where numbers may grow beyond the largest that the network has, so that nothing is certain.
    """

    def __init__(self, network: Network, region: Region, *, backwards: bool, known: Intervals | None = None) -> None:
        """Bound all nodes, each after its inputs.

        Args:
            network: read from a model.
            region: of B samples.
            backwards: if what goes into an activation is bounded backwards by lines (CROWN), or by intervals alone
                (IBP).
            known: :attr:`activation_inputs` of bounds on regions that hold these.
        """
        self.network, self.region, self._known = network, region, known or {}
        self.nodes: list[NodeBounds] = []
        self.overflows = torch.zeros(region.samples, dtype=torch.bool, device=network.graph.device)
        self._lines: dict[int, Lines | Picked] = {}
        for position, node in enumerate(network.graph.nodes):
            if node.operation is None:
                self.nodes.append(self._input_bounds())
            elif isinstance(node.operation, AffineOperation):
                self.nodes.append(self._affine_bounds(position, node, node.operation))
            else:
                if backwards:
                    self._tighten(node.inputs[0], node.operation)
                self.nodes.append(self._activation_bounds(node.operation, self.nodes[node.inputs[0]]))

    @property
    def activation_inputs(self) -> Intervals:
        """Bounds on what goes into the activations."""
        inputs = (self.network.graph.nodes[k].inputs[0] for k in self.network.nonlinear)
        return {k: (self.nodes[k].low, self.nodes[k].high) for k in inputs}

    def lines(self, position: int) -> Lines | Picked:
        """Return what encloses the nonlinear node at ``position``."""
        if position not in self._lines:
            node = self.network.graph.nodes[position]
            given = self.nodes[node.inputs[0]]
            if isinstance(node.operation, MaxPool):
                self._lines[position] = node.operation.pick(given.low, given.high)
            else:
                assert isinstance(node.operation, Activation)
                self._lines[position] = node.operation.lines(given.low, given.high)
        return self._lines[position]

    def margins(self, labels: Tensor, *, backwards: bool) -> Tensor:
        """Return lower bounds [B, C] of the margins f_y - f_j; inf where j is the label."""
        found = self._no_margins(labels)
        for rows, owner, place in self._margin_parts(labels):
            found[owner, place] = self._lower_bounds(self.network.graph.output, rows, owner, backwards)
        return found

    def margins_and_reaches(self, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the :meth:`margins` backwards on balls, and radii up to which their lines keep each above 0, both
        [B, C]."""
        assert isinstance(self.region, NormBall)
        found, reach = self._no_margins(labels), self._no_margins(labels)
        for rows, owner, place in self._margin_parts(labels):
            plane = self.planes(self.network.graph.output, rows, owner)
            assert plane.slope is not None
            found[owner, place] = plane.constant + self.region.lowest(plane.slope, owner)
            reach[owner, place] = self.region.reach(plane.slope, plane.constant, owner)
        return found, reach

    def _no_margins(self, labels: Tensor) -> Tensor:
        return self.network.empty.new_full((len(labels), *self.network.graph.nodes[-1].shape), torch.inf)

    def _margin_parts(self, labels: Tensor) -> Iterator[tuple[Windowed, Tensor, Tensor]]:
        """Yield :meth:`margin_rows`, as many at a time as memory takes."""
        parts = (torch.split(each, self.network.rows_at_once) for each in self.margin_rows(labels))
        return ((Windowed.full(rows), owner, place) for rows, owner, place in zip(*parts, strict=True))

    def margin_rows(self, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows [B (C - 1), C] of the margins, the sample of each, and its other class."""
        classes = self.network.graph.nodes[-1].shape[0]
        owner = torch.arange(len(labels), device=labels.device).repeat_interleave(classes)
        place = torch.arange(classes, device=labels.device).repeat(len(labels))
        other = place != labels[owner]
        owner, place = owner[other], place[other]
        eye = torch.eye(classes, dtype=torch.float64, device=labels.device)
        return eye[labels[owner]] - eye[place], owner, place

    def _lower_bounds(self, start: int, rows: Windowed, owner: Tensor, backwards: bool = True) -> Tensor:
        """Return lower bounds [R] of rows of the node at ``start``, each for the sample of its ``owner``."""
        plane = self.planes(start, rows, owner, backwards=backwards)
        return plane.constant if plane.slope is None else plane.constant + self.region.lowest(plane.slope, owner)

    def planes(
        self,
        start: int,
        rows: Windowed,
        owner: Tensor,
        *,
        backwards: bool = True,
        relaxations: Mapping[int, Relaxation] | None = None,
    ) -> Plane:
        """Go from rows of a node back to the input.

        Args:
            start: position of the node.
            rows: ``[R, ...]``, as many as memory takes at once.
            owner: ``[R]``, the sample of each row.
            backwards: if rows go through activations by lines; otherwise they end there, in intervals.
            relaxations: position of an activation -> what rows go through there.
        """
        relaxations, passed = relaxations or {}, dict[int, Tensor]()
        waiting, total = {start: rows}, torch.where(self.overflows[owner], -torch.inf, rows.values.new_zeros(1))
        for k in range(start, -1, -1):
            at = waiting.pop(k, None)
            if at is None:
                continue
            node, known = self.network.graph.nodes[k], self.nodes[k]
            if not backwards and k in self.network.nonlinear:
                total = total + lowest_on_boxes(at, known.low, known.high, owner)
                continue
            if known.rounding is not None:
                total = total - _row_sums(at.values.abs() * at.crop(known.rounding)[owner])
            if node.operation is None:
                return Plane(at, total, passed)
            if isinstance(node.operation, AffineOperation):
                total = total + _row_sums(at.values * at.crop(self.network.constant_part(k)))
                self.network.pass_to_inputs(waiting, node, at)
                continue
            if k in relaxations:
                at = Windowed.full(at.dense())
                passed[k] = at.values
                back, constant = _rows_before_lines(at, relaxations[k].lines)
                back = back.with_values(back.values + relaxations[k].multipliers)
            else:
                back, constant = self._rows_before(k, node, at, owner)
            total = total + constant
            add_rows(waiting, node.inputs[0], back)
        return Plane(None, total, passed)

    def _rows_before(self, position: int, node: Node, rows: Windowed, owner: Tensor) -> tuple[Windowed, Tensor]:
        """Return rows of a nonlinear node as rows of its input, and constants."""
        lines = self.lines(position)
        if isinstance(lines, Picked):
            assert isinstance(node.operation, MaxPool)
            shape = self.network.graph.nodes[node.inputs[0]].shape
            back, constant = node.operation.transpose(rows.dense(), lines, owner, shape)
            return Windowed.full(back), constant
        sides = (lines.lower_A, lines.lower_bias, lines.upper_A, lines.upper_bias)
        cropped = (rows.crop(each)[owner] for each in sides)
        return _rows_before_lines(rows, Lines(*cropped))

    def output_deviations(self) -> Tensor:
        """Return how far each logit [B, C] of the network as it is computed may be from that in real numbers."""
        errors: list[Tensor] = []
        for node, known in zip(self.network.graph.nodes, self.nodes, strict=True):
            operation, before = node.operation, [errors[k] for k in node.inputs]
            own = torch.zeros_like(known.low) if known.rounding is None else known.rounding
            if isinstance(operation, AffineOperation):
                own = own + operation.spread(*before)
            elif isinstance(operation, MaxPool):
                own = own + operation.apply(*before)
            elif operation is not None:
                own = own + before[0] * max(map(abs, operation.slopes))
            errors.append(own)
        return errors[-1]

    def _check_overflow(self, size: Tensor, rounding: Tensor) -> None:
        """Note samples of which numbers on the way to a node, of the ``size`` at most, may overflow."""
        self.overflows = self.overflows | (size + rounding > self.network.graph.largest).flatten(1).any(1)

    def _input_bounds(self) -> NodeBounds:
        low, high = self.region.limits()
        unit = self.network.unit
        rounding = torch.full_like(low, unit * self.region.roundings) if unit else None
        noise = torch.zeros_like(low) if rounding is None else rounding
        affine = None
        if isinstance(self.region, Segment):
            beside = torch.maximum(self.region.below, self.region.above)
            affine = AffineValues((self.region.start, self.region.end), noise + beside)
        elif isinstance(self.region, NormBall):
            affine = AffineValues((self.region.centre,), noise)
        return _rounded(low, high, rounding, affine)

    def _affine_bounds(self, position: int, node: Node, operation: AffineOperation) -> NodeBounds:
        given = [self.nodes[k] for k in node.inputs]
        rounding = self._affine_rounding(operation, [torch.maximum(each.low.abs(), each.high.abs()) for each in given])
        affine = self._affine_values(operation, given, rounding)
        if affine is not None and not self._boxes_suffice(operation):
            values = torch.stack(affine.values)
            width = self._reach(position, values[0]) + affine.noise
            low, high = values.amin(0) - width, values.amax(0) + width
            return replace(_rounded(low, high, None, affine), rounding=rounding)
        middle = operation.apply(*((each.low + each.high) / 2 for each in given))
        width = operation.spread(*((each.high - each.low) / 2 for each in given))
        return _rounded(middle - width, middle + width, rounding, affine)

    def _affine_rounding(self, operation: AffineOperation, largest: list[Tensor]) -> Tensor | None:
        if not operation.terms or not self.network.unit:
            return None
        size, count = operation.size(*largest), operation.count(*largest)
        rounding = size * accumulated_error(count, self.network.unit) + count * self.network.graph.smallest
        rounding = rounding + operation.noise
        self._check_overflow(operation.largest_sum(size), rounding)
        return rounding

    def _affine_values(
        self, operation: AffineOperation, given: list[NodeBounds], rounding: Tensor | None
    ) -> AffineValues | None:
        known = [each.affine for each in given if each.affine is not None]
        if len(known) < len(given):
            return None
        values = tuple(operation.apply(*points) for points in zip(*(each.values for each in known), strict=True))
        noise = operation.spread(*(each.noise for each in known))
        return AffineValues(values, noise if rounding is None else noise + rounding)

    def _boxes_suffice(self, operation: AffineOperation) -> bool:
        """Return if intervals of the inputs of an operation are as good as the region itself."""
        if isinstance(self.region, NormBall):
            return self.region.p == torch.inf or not mixes_signs(operation)
        return False

    def _reach(self, position: int, like: Tensor) -> Tensor | float:
        """Return how far the ball moves each number of a node that is affine in the input."""
        if not isinstance(self.region, NormBall):
            return 0.0
        return per_sample(self.region.radius, like) * self.network.row_norms(position, self.region.dual)

    def _is_exact(self, position: int) -> bool:
        """Return if the interval of a node is the smallest there is, so that going backwards would find the same."""
        if self.nodes[position].affine is None:
            return False
        by_boxes = isinstance(self.region, NormBall) and self.region.p == torch.inf
        return not by_boxes or self.network.products[position] <= 1

    def _tighten(self, position: int, operation: Activation | MaxPool) -> None:
        """Bound what goes into a nonlinear node backwards, where that matters; intervals stay where they are better."""
        if self._is_exact(position):
            return
        known = self.nodes[position]
        low, high = (each.clone(memory_format=torch.contiguous_format) for each in (known.low, known.high))
        if position in self._known:
            low, high = torch.maximum(low, self._known[position][0]), torch.minimum(high, self._known[position][1])
        open_ = operation.is_bent(low, high) if isinstance(operation, Activation) else low < high
        low_flat, high_flat = low.flatten(1), high.flatten(1)
        shape = self.network.graph.nodes[position].shape
        owner, place = open_.flatten(1).nonzero(as_tuple=True)
        for part in neighbouring_places(place, shape, self.network.rows_at_once):
            who, where = owner[part], place[part]
            rows = Windowed.units(where, shape, low)
            both = rows.with_values(torch.cat([rows.values, -rows.values]))
            under, over = self._lower_bounds(position, both, who.repeat(2)).chunk(2)
            low_flat[who, where] = torch.maximum(low_flat[who, where], under)
            high_flat[who, where] = torch.minimum(high_flat[who, where], -over)
        self.nodes[position] = replace(known, low=low, high=torch.maximum(low, high))

    def _activation_bounds(self, operation: Activation | MaxPool, given: NodeBounds) -> NodeBounds:
        if isinstance(operation, MaxPool):
            return NodeBounds(operation.apply(given.low), operation.apply(given.high))
        least, most = operation.value_range(given.low, given.high)
        rounding, graph = None, self.network.graph
        if self.network.unit and (operation.roundings or operation.error):
            size = torch.maximum(given.low.abs(), given.high.abs()) + torch.maximum(least.abs(), most.abs())
            size = size + operation.offset
            rounding = operation.roundings * (self.network.unit * size + graph.smallest) + operation.error
            self._check_overflow(_ON_THE_WAY * size, rounding)
        return _rounded(least, most, rounding, None)


def _rounded(low: Tensor, high: Tensor, rounding: Tensor | None, affine: AffineValues | None) -> NodeBounds:
    """Return the bounds of numbers that lie between ``low`` and ``high`` but for their rounding."""
    if rounding is None:
        return NodeBounds(low, high, None, affine)
    return NodeBounds(low - rounding, high + rounding, rounding, affine)


def _rows_before_lines(rows: Windowed, lines: Lines) -> tuple[Windowed, Tensor]:
    """Return rows of an activation as rows of its input, below them, and constants; the lines are of each row."""
    values = rows.values
    lower = values >= 0
    constant = _row_sums(values * torch.where(lower, lines.lower_bias, lines.upper_bias))
    return rows.with_values(values * torch.where(lower, lines.lower_A, lines.upper_A)), constant


def _row_sums(values: Tensor) -> Tensor:
    return values.flatten(1).sum(1)


def seconds_of_crown(network: Network, x: Tensor) -> float:
    """Return the seconds of one bound backwards (CROWN) on a ball around ``x`` [1, ...], if every number before an
    activation is bounded from both sides: those of a few numbers in the middle of each layer, times how many there are.

    Example:
        >>> import robustatlas as ra
        >>> from robustatlas.certificates import Subject
        >>> subject = Subject(ra.load_model("builtin:digits-linf"), (1, 8, 8))
        >>> 0 < seconds_of_crown(subject.network, torch.rand(1, 1, 8, 8)) < 60
        True
    """
    ball = NormBall(x.double(), torch.zeros(1, dtype=torch.float64, device=x.device), torch.inf)
    bounds, seconds = Bounds(network, ball, backwards=False), 0.0
    for position, (low, _) in bounds.activation_inputs.items():
        shape = network.graph.nodes[position].shape
        numbers = torch.Size(shape).numel()
        count = min(numbers, network.rows_at_once)
        places = torch.arange(count, device=x.device) + (numbers - count) // 2
        begun = time.perf_counter()
        bounds.planes(position, Windowed.units(places, shape, low), torch.zeros_like(places))
        seconds += 2 * (time.perf_counter() - begun) * numbers / count
    return seconds
