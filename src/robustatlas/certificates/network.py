"""A network as bounds run through it, again and again: what they need of it is computed once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from robustatlas.certificates.activations import Activation
from robustatlas.certificates.operations import AffineOperation, Convolution, Dense, LinearMap, MaxPool, Sum
from robustatlas.certificates.windowed import Shape, Windowed

Operation = AffineOperation | Activation | MaxPool


@dataclass(frozen=True)
class Node:
    """One operation (None: the input of the network), the positions of its ``inputs``, and the ``shape`` of one sample
    of its output."""

    operation: Operation | None
    inputs: tuple[int, ...]
    shape: Shape


Ending = Callable[[Tensor], Tensor]
"""A function of logits [B, C] that changes no prediction."""


@dataclass(frozen=True)
class Graph:
    """A network in float64: its ``nodes``, each after its inputs; the last are the logits. Of its own arithmetic
    ``unit`` is half the distance from 1 to the next number, ``largest`` the largest number, and numbers below
    ``smallest`` are rounded as if they were as large; ``ending`` is a softmax after the logits, None: there is none."""

    nodes: tuple[Node, ...]
    unit: float
    device: torch.device
    largest: float = torch.inf
    smallest: float = 0.0
    ending: Ending | None = None

    @property
    def output(self) -> int:
        """Position of the logits."""
        return len(self.nodes) - 1

    @property
    def is_affine(self) -> bool:
        """Return if the logits are affine in the input."""
        return all(isinstance(node.operation, AffineOperation) for node in self.nodes[1:])

    def run(self, x: Tensor) -> Tensor:
        """Return the logits [B, C] in float64 of inputs [B, ...]."""
        values = [x.double()]
        for node in self.nodes[1:]:
            given = [values[k] for k in node.inputs]
            operation = node.operation
            assert operation is not None
            values.append(operation.function(*given) if isinstance(operation, Activation) else operation.apply(*given))
        return values[-1]


NUMBERS = 1 << 18
"""Numbers of one layer that are at work at once: 2 MiB, which caches hold."""


class Network:
    """A graph with what bounds need of it again and again."""

    def __init__(self, graph: Graph, unit: float | None = None) -> None:
        self.graph = graph
        self.unit = graph.unit if unit is None else unit
        self._norms: dict[tuple[int, float], Tensor] = {}
        self._constants: dict[int, Tensor] = {}

    @cached_property
    def widest(self) -> int:
        """Numbers of the largest layer."""
        return max(torch.Size(node.shape).numel() for node in self.graph.nodes)

    @cached_property
    def products(self) -> tuple[float, ...]:
        """The number of layers that mix numbers between the input and each node; inf beyond an activation."""
        found: list[float] = []
        for node in self.graph.nodes:
            before = max((found[k] for k in node.inputs), default=0.0)
            affine = node.operation is None or isinstance(node.operation, AffineOperation)
            found.append(before + mixes_signs(node.operation) if affine else torch.inf)
        return tuple(found)

    @cached_property
    def nonlinear(self) -> frozenset[int]:
        """Positions of what is not affine."""
        nodes = enumerate(self.graph.nodes)
        return frozenset(
            k for k, node in nodes if node.operation is not None and not isinstance(node.operation, AffineOperation)
        )

    @cached_property
    def empty(self) -> Tensor:
        """An empty float64 tensor on the device of the network."""
        return torch.empty(0, dtype=torch.float64, device=self.graph.device)

    def constant_part(self, position: int) -> Tensor:
        """Return the constant part [1, ...] of an affine node."""
        if position not in self._constants:
            node = self.graph.nodes[position]
            assert isinstance(node.operation, AffineOperation)
            zeros = [self.empty.new_zeros(1, *self.graph.nodes[k].shape) for k in node.inputs]
            self._constants[position] = node.operation.apply(*zeros)
        return self._constants[position]

    def row_norms(self, position: int, q: float) -> Tensor:
        """Return the q-norm [1, ...] of each row of a node that is affine in the input, as a matrix."""
        if (position, q) not in self._norms:
            shape = self.graph.nodes[position].shape
            found = []
            for rows in self._units(position):
                coefficients = {position: rows}
                for k in range(position, 0, -1):
                    if (at := coefficients.pop(k, None)) is not None:
                        self.pass_to_inputs(coefficients, self.graph.nodes[k], at)
                found.append(torch.linalg.vector_norm(coefficients[0].values.flatten(1), q, dim=1))
            self._norms[position, q] = torch.cat(found).view(1, *shape)
        return self._norms[position, q]

    def _units(self, position: int) -> Iterator[Windowed]:
        """Yield the unit rows of a node, as many at a time as memory takes."""
        shape = self.graph.nodes[position].shape
        every = torch.arange(torch.Size(shape).numel(), device=self.empty.device)
        for places in torch.split(every, self.rows_at_once):
            yield Windowed.units(places, shape, self.empty)

    @property
    def rows_at_once(self) -> int:
        """The number of rows that go backwards together."""
        return max(1, NUMBERS // self.widest)

    def pass_to_inputs(self, coefficients: dict[int, Windowed], node: Node, rows: Windowed) -> None:
        """Add rows of an affine node to those of its inputs."""
        assert isinstance(node.operation, AffineOperation)
        shapes = tuple(self.graph.nodes[k].shape for k in node.inputs)
        for k, back in zip(node.inputs, node.operation.transpose(rows, shapes), strict=True):
            add_rows(coefficients, k, back)


def mixes_signs(operation: Operation | None) -> bool:
    """Return if an operation adds up numbers with signs, so that intervals lose."""
    signed = isinstance(operation, LinearMap) and operation.magnitude is not None
    return signed or isinstance(operation, (Dense, Convolution, Sum))


def add_rows(coefficients: dict[int, Windowed], position: int, rows: Windowed) -> None:
    """Add rows of a node to what there is of it."""
    coefficients[position] = coefficients[position] + rows if position in coefficients else rows
