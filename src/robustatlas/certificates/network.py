"""A network as bounds run through it, again and again: what they need of it is computed once."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from robustatlas.certificates.activations import Activation
from robustatlas.certificates.operations import AffineOperation, Convolution, Dense, MaxPool, Sum
from robustatlas.certificates.windowed import Shape, Windowed

Operation = AffineOperation | Activation | MaxPool


@dataclass(frozen=True)
class Node:
    """One operation (None: the input of the network), the positions of its ``inputs``, and the ``shape`` of one sample
    of its output."""

    operation: Operation | None
    inputs: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True)
class Graph:
    """A network in float64: its ``nodes``, each after its inputs; the last are the logits. Of its own arithmetic
    ``unit`` is half the distance from 1 to the next number, ``largest`` the largest number."""

    nodes: tuple[Node, ...]
    unit: float
    device: torch.device
    largest: float = torch.inf

    @property
    def output(self) -> int:
        """Position of the logits."""
        return len(self.nodes) - 1

    @property
    def affine(self) -> bool:
        """Whether the logits are affine in the input."""
        return all(isinstance(node.operation, AffineOperation) for node in self.nodes[1:])

    def run(self, x: Tensor) -> Tensor:
        """Logits [B, C] in float64 of inputs [B, ...]."""
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
        self._offsets: dict[int, Tensor] = {}

    @cached_property
    def widest(self) -> int:
        """Numbers of the largest layer."""
        return max(torch.Size(node.shape).numel() for node in self.graph.nodes)

    @cached_property
    def products(self) -> tuple[float, ...]:
        """Of each node, how many layers that mix numbers lie between the input and it; inf beyond an activation."""
        found: list[float] = []
        for node in self.graph.nodes:
            before = max((found[k] for k in node.inputs), default=0.0)
            affine = node.operation is None or isinstance(node.operation, AffineOperation)
            found.append(before + mixes(node.operation) if affine else torch.inf)
        return tuple(found)

    @cached_property
    def nonlinear(self) -> frozenset[int]:
        """Positions of what is not affine."""
        nodes = enumerate(self.graph.nodes)
        return frozenset(
            k for k, node in nodes if node.operation is not None and not isinstance(node.operation, AffineOperation)
        )

    @cached_property
    def like(self) -> Tensor:
        """An empty float64 tensor on the device of the network."""
        return torch.empty(0, dtype=torch.float64, device=self.graph.device)

    def offset(self, position: int) -> Tensor:
        """``[1, ...]``: the constant part of an affine node."""
        if position not in self._offsets:
            node = self.graph.nodes[position]
            assert isinstance(node.operation, AffineOperation)
            zeros = [self.like.new_zeros(1, *self.graph.nodes[k].shape) for k in node.inputs]
            self._offsets[position] = node.operation.apply(*zeros)
        return self._offsets[position]

    def norms(self, position: int, q: float) -> Tensor:
        """``[1, ...]``: the q-norm of each row of a node that is affine in the input, as a matrix."""
        if (position, q) not in self._norms:
            shape = self.graph.nodes[position].shape
            found = []
            for rows in self.units(position):
                coefficients = {position: rows}
                for k in range(position, 0, -1):
                    if (at := coefficients.pop(k, None)) is not None:
                        self.onwards(coefficients, self.graph.nodes[k], at)
                found.append(torch.linalg.vector_norm(coefficients[0].values.flatten(1), q, dim=1))
            self._norms[position, q] = torch.cat(found).view(1, *shape)
        return self._norms[position, q]

    def units(self, position: int) -> Iterator[Windowed]:
        """The unit rows of a node, as many at a time as memory takes."""
        shape = self.graph.nodes[position].shape
        every = torch.arange(torch.Size(shape).numel(), device=self.like.device)
        for places in torch.split(every, self.at_once):
            yield Windowed.units(places, shape, self.like)

    @property
    def at_once(self) -> int:
        """Rows that go backwards together."""
        return max(1, NUMBERS // self.widest)

    def onwards(self, coefficients: dict[int, Windowed], node: Node, rows: Windowed) -> None:
        """Rows of an affine node, added to those of its inputs."""
        assert isinstance(node.operation, AffineOperation)
        shapes = tuple(self.graph.nodes[k].shape for k in node.inputs)
        for k, back in zip(node.inputs, node.operation.back(rows, shapes), strict=True):
            add(coefficients, k, back)


def mixes(operation: Operation | None) -> bool:
    """Whether an operation adds up numbers with signs, so that intervals lose."""
    return isinstance(operation, (Dense, Convolution, Sum))


def add(coefficients: dict[int, Windowed], position: int, rows: Windowed) -> None:
    """Rows of a node, added to what there is of it."""
    coefficients[position] = coefficients[position] + rows if position in coefficients else rows
