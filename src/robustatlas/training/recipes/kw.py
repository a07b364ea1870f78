"""Training on the dual bound of the convex outer polytope."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.certificates.activations import RELU, Activation, Lines
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Graph, Network
from robustatlas.certificates.regions import NormBall
from robustatlas.common.errors import UserError
from robustatlas.training.recipes.base import Batch
from robustatlas.training.recipes.bounded import Bounded


def other_than_relu(network: Network) -> str:
    """Return name what a network has that is neither affine nor ReLU; empty where there is nothing.

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


@dataclass(frozen=True)
class _Parallel(Activation):
    """ReLU between two parallel lines of slope u / (u - l)."""

    def lines(self, low: Tensor, high: Tensor) -> Lines:
        up = high.clamp_min(0)
        slope = up / (up - low.clamp_max(0)).clamp_min(torch.finfo(low.dtype).tiny)
        return Lines(slope, torch.zeros_like(slope), slope, -slope * low.clamp_max(0))


@dataclass(frozen=True)
class Kw(Bounded):
    """CE(-J(x), y), where J are lower bounds of the margins by the dual of the convex outer polytope (Wong and Kolter
    2018, eq. 14 and algorithm 1).

    With the source's alpha = u / (u - l) these are bounds backwards by parallel lines around each ReLU, also of the
    hidden layers. Balls are taken whole, without the box, as there. For small images and networks.
    """

    name: ClassVar[str] = "kw"
    source: ClassVar[str] = "Wong and Kolter 2018"
    box: ClassVar[bool] = False

    def relaxed(self, graph: Graph) -> Graph:
        if other := other_than_relu(Network(graph)):
            raise UserError(f"The recipe 'kw' is for ReLU networks, and this one has {other}; take ibp or crown-ibp.")
        usual = RELU
        parallel = _Parallel(usual.function, usual.knots, roundings=0)
        nodes = [
            replace(node, operation=parallel) if isinstance(node.operation, Activation) else node
            for node in graph.nodes
        ]
        return replace(graph, nodes=tuple(nodes))

    def margins(self, network: Network, ball: NormBall, batch: Batch) -> Tensor:
        return Bounds(network, ball, backwards=True).margins(batch.labels, backwards=True)
