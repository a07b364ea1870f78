"""A ReLU network as matrices between its ReLUs, for methods that look at every one of its linear pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.certificates.activations import Activation
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Network, Node
from robustatlas.certificates.operations import AffineOperation, MaxPool

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AffineMap:
    """Numbers [n] that are affine in the input (position 0) and in ReLUs before them: ``parts`` position -> [n, m], and
    ``offset`` [n]."""

    parts: Mapping[int, Floats]
    offset: Floats

    def rows(self, rows: Floats) -> AffineMap:
        """``rows`` [r, n] of the numbers."""
        return AffineMap({k: rows @ part for k, part in self.parts.items()}, rows @ self.offset)


@dataclass(frozen=True)
class Piecewise:
    """A ReLU network.

    Attributes:
        layers: position of each ReLU node, in order -> what goes into it.
        logits: what comes out.
    """

    layers: Mapping[int, AffineMap]
    logits: AffineMap

    @classmethod
    def of(cls, network: Network) -> Piecewise:
        """The matrices of a network all of whose nonlinear operations are ReLU (see :func:`other_than_relu`)."""
        layers = {k: _affine(network, network.graph.nodes[k].inputs[0]) for k in sorted(network.nonlinear)}
        return cls(layers, _affine(network, network.graph.output))


def other_than_relu(network: Network) -> str:
    """What a network has that is neither affine nor ReLU; empty where there is nothing.

    Example:
        >>> from torch import nn
        >>> from robustatlas.certificates.reading import read
        >>> from robustatlas.models.classifier import Classifier
        >>> net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))
        >>> other_than_relu(Network(read(Classifier(net), (2,))))
        'an activation other than ReLU'
    """
    for k in sorted(network.nonlinear):
        operation = network.graph.nodes[k].operation
        if not isinstance(operation, Activation):
            return "max pooling"
        ends = operation.function(torch.tensor([-1.0, 1.0], dtype=torch.float64)).tolist()
        if operation.knots != (0.0,) or operation.curvature or ends != [0.0, 1.0]:
            return "an activation other than ReLU"
    return ""


def _affine(network: Network, position: int) -> AffineMap:
    """A node as a function of the input and of the ReLUs before it."""
    count = torch.Size(network.graph.nodes[position].shape).numel()
    parts: dict[int, list[Tensor]] = {}
    offsets = []
    for rows in network.units(position):
        coefficients, total = {position: rows}, rows.values.new_zeros(len(rows.values))
        for k in range(position, -1, -1):
            if (at := coefficients.pop(k, None)) is None:
                continue
            node = network.graph.nodes[k]
            if isinstance(node.operation, AffineOperation):
                total = total + (at.values * at.of(network.offset(k))).flatten(1).sum(1)
                network.onwards(coefficients, node, at)
            else:
                parts.setdefault(k, []).append(at.whole().flatten(1))
        offsets.append(total)
    made = {k: torch.cat(found).cpu().numpy() for k, found in parts.items()}
    assert all(len(part) == count for part in made.values())
    return AffineMap(made, torch.cat(offsets).cpu().numpy())


def deviations(bounds: Bounds) -> Tensor:
    """``[B, C]``: how far each logit of the network as it is computed may be from that in real numbers."""
    errors: list[Tensor] = []
    for node, rounding in zip(bounds.network.graph.nodes, bounds.rounding, strict=True):
        carried = _carried(node, errors)
        own = torch.zeros_like(bounds.low[len(errors)]) if rounding is None else rounding
        errors.append(own if carried is None else carried + own)
    return errors[-1]


def _carried(node: Node, errors: list[Tensor]) -> Tensor | None:
    """What errors of its inputs make of a node."""
    if node.operation is None:
        return None
    before, operation = [errors[k] for k in node.inputs], node.operation
    if isinstance(operation, AffineOperation):
        return operation.spread(*before)
    return operation.apply(*before) if isinstance(operation, MaxPool) else before[0] * max(map(abs, operation.slopes))
