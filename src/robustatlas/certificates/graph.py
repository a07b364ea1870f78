"""A network as a graph of operations that bounds know."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.certificates.activations import Activation
from robustatlas.certificates.operations import AffineOperation
from robustatlas.certificates.pooling import MaxPool
from robustatlas.certificates.windowed import Shape

Operation = AffineOperation | Activation | MaxPool


@dataclass(frozen=True)
class Node:
    """One operation: what its ``inputs`` are (positions in the graph), and the ``shape`` of one sample of its output.

    ``operation`` is None of the input of the network, the first node.
    """

    operation: Operation | None
    inputs: tuple[int, ...]
    shape: Shape


@dataclass(frozen=True)
class Graph:
    """A network in float64: its ``nodes`` in an order in which each follows its inputs; the last are the logits.

    Of the arithmetic of the network itself, ``unit`` is half the distance from 1 to the next number, and ``largest``
    the largest number.
    """

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
