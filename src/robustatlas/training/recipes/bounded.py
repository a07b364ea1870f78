"""Base of recipes by bounds: certified margins on a set, differentiable in the weights."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.certificates.network import Graph, Network
from robustatlas.certificates.reading import graph_of, program_of
from robustatlas.certificates.regions import NormBall
from robustatlas.common.errors import UserError
from robustatlas.optimizers.crafting import Opponent, network_mode
from robustatlas.threats.lp import Lp
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, require_balls

_PROGRAMS: WeakKeyDictionary[nn.Module, tuple[tuple[int, ...], Any]] = WeakKeyDictionary()
"""Cache of exported networks: exporting is slow, and only their weights change between updates."""


@dataclass(frozen=True)
class Bounded(Recipe):
    """kappa CE(f(x), y) + (1 - kappa) CE(-m, y), where m are lower bounds of the margins on the set, 0 of the label.

    The strength is 0 during the share ``clean`` of the training. It and kappa are then linear, up to the share
    ``warmup``. ``kappa_first`` and ``kappa`` are the weights of the clean loss at the beginning and at the end.
    """

    box: ClassVar[bool] = True
    """True if the set is intersected with [0, 1]."""

    clean: float = 0.0
    kappa_first: float = 0.0
    kappa: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_balls(self.name, self.against)
        for opponent in self.against:
            if not isinstance(opponent.threat, Lp) or opponent.threat.p not in (1.0, 2.0, torch.inf):
                raise UserError(f"The recipe {self.name!r} takes linf, l2 and l1; given: {opponent.name}.")
        if not 0 <= self.clean <= self.warmup or not all(0 <= k <= 1 for k in (self.kappa, self.kappa_first)):
            raise UserError(
                f"clean={self.clean}, warmup={self.warmup}, kappa_first={self.kappa_first}, kappa={self.kappa}; "
                "expected clean at most warmup, and weights between 0 and 1."
            )

    def strength_share(self, batch: Batch) -> float:
        """Return the share of the strength in [0, 1] that is reached at this batch."""
        rise = self.warmup - self.clean
        return min(1.0, max(0.0, batch.done - self.clean) / rise) if rise else float(batch.done >= self.clean)

    def strength(self, opponent: Opponent, batch: Batch) -> Tensor:
        return torch.full_like(batch.x.flatten(1)[:, 0], self.strength_share(batch) * opponent.epsilon)

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """Return the loss of a clean pass and of the bounds, for which normalisation runs as in evaluation."""
        logits, margins = net(batch.x), self.margins_of(net, batch)
        weight = self.kappa_first + (self.kappa - self.kappa_first) * self.strength_share(batch)
        worst = (-margins).scatter(1, batch.labels[:, None], 0.0).to(logits.dtype)
        certain = F.cross_entropy(worst, batch.labels)
        loss = weight * self.cross_entropy(logits, batch.labels) + (1 - weight) * certain
        return Update(loss, (margins.detach().amin(1) > 0).float().mean())

    def margins_of(self, net: nn.Module, batch: Batch) -> Tensor:
        """Return ``[B, C]``: lower bounds of the margins on the present set, inf at the label; float64, with their
        graph.
        """
        opponent = self.against[0]
        assert isinstance(opponent.threat, Lp)
        with network_mode(net, "eval"):
            network = Network(self.relaxed(graph_of(_exported_program(net, batch.x), net)))
        x, radius = batch.x.double(), self.strength(opponent, batch).double()
        return self.margins(network, NormBall(x, radius, opponent.threat.p, self.box), batch)

    def relaxed(self, graph: Graph) -> Graph:
        """Return the graph with the lines by which the recipe bounds activations."""
        return graph

    @abstractmethod
    def margins(self, network: Network, ball: NormBall, batch: Batch) -> Tensor:
        """Return ``[B, C]``: lower bounds of the margins on balls, inf at the label."""


def _exported_program(net: nn.Module, x: Tensor) -> Any:
    shape = tuple(x.shape[1:])
    known = _PROGRAMS.get(net)
    if known is None or known[0] != shape:
        known = shape, program_of(net, x)
        _PROGRAMS[net] = known
    return known[1]
