"""Maximum margin regularisation: linear regions and decision boundaries that lie far from the images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from robustatlas.errors import UserError
from robustatlas.threats.lp import Lp
from robustatlas.training.crafting import in_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, require_balls
from robustatlas.training.recipes.manifold import RELUS

_TINY = 1e-12
_DUAL = {float("inf"): 1.0, 2.0: 2.0, 1.0: float("inf")}


@dataclass(frozen=True)
class Mmr(Recipe):
    """CE(f(x), y) + weight x what hyperplanes within distance epsilon of x cost, in each norm (Croce et al. 2019).

    A hyperplane at distance d costs max(0, 1 - d / epsilon). Counted are the nearest at which a ReLU switches, on
    average over so many (from ``first`` at the beginning to ``last`` at the end, the number falling linearly), and
    those of the decisions for each other class, on average. Against linf and l1 together it is the same authors'
    universal regulariser, which holds for all norms between.

    The public code counts a tenth of all ReLUs at first and a fiftieth at the end (universal: a fifth, a twentieth),
    lets the weight rise over the first ten epochs, has one for each norm in the universal form, and divides the cost of
    decisions by the number of all classes.

    Every ReLU's slope is computed, a forward pass for each pixel: for small images and networks. There is no attack.
    Normalisation and dropout run as in evaluation while distances are measured.
    """

    name: ClassVar[str] = "mmr"
    source: ClassVar[str] = "Croce et al. 2019 (MMR), and its universal form"
    opponents: ClassVar[str] = "any"

    weight: float = 1.0
    first: int = 400
    last: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        require_balls(self.name, self.against)
        for opponent in self.against:
            if not isinstance(opponent.threat, Lp) or opponent.threat.p not in _DUAL:
                raise UserError(f"The recipe 'mmr' takes linf, l2 and l1; given: {opponent.name}.")
        if not self.weight > 0 or not 1 <= self.last <= self.first:
            raise UserError("weight must be positive; first and last are numbers of boundaries, last at most first.")

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """One pass, and the distances."""
        logits = net(batch.x)
        with in_mode(net, "eval"):
            units, slopes = linearised(net, batch.x)
        count = round(self.first + (self.last - self.first) * batch.done)
        loss = self.cross_entropy(logits, batch.labels)
        for opponent in self.against:
            assert isinstance(opponent.threat, Lp)
            strength = self.strength(opponent, batch)[:, None].clamp_min(_TINY)
            switches, decisions = distances(units, slopes, batch.labels, opponent.threat.p)
            nearest = switches.topk(min(count, switches.shape[1]), dim=1, largest=False).values
            cost = [(1 - d / strength).clamp_min(0).mean() for d in (nearest, decisions)]
            loss = loss + self.weight * (cost[0] + cost[1])
        return Update(loss, accuracy(logits, batch.labels))


class _Frozen(TorchFunctionMode):
    """Within each of ``count`` groups of a batch, every ReLU switches as for the first of the group: the network is the
    affine function that it is around that one. Keeps the inputs of all ReLUs, ``[count, group, U]``."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.kept: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in RELUS:
            return func(*args, **(kwargs or {}))
        groups = (args[0] if args else kwargs["input"]).unflatten(0, (self.count, -1))
        self.kept.append(groups.flatten(2))
        return (groups * (groups[:, :1] > 0)).flatten(0, 1)


def linearised(net: nn.Module, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs of all ReLUs and the logits at ``x`` [B, ...], and their slopes in its D values.

    Returns:
        for each layer, the logits last: values ``[B, U]`` and slopes ``[B, D, U]``; differentiable in the weights.
    """
    size = x[0].numel()
    moves = torch.cat([x.new_zeros(1, size), torch.eye(size, dtype=x.dtype, device=x.device)])
    moved = (x.flatten(1)[:, None] + moves).flatten(0, 1).view(-1, *x.shape[1:])
    with _Frozen(len(x)) as frozen:
        logits = net(moved).unflatten(0, (len(x), -1))
    if not frozen.kept:
        raise UserError("The recipe 'mmr' measures distances to the switches of ReLUs, and this network calls none.")
    layers = [*frozen.kept, logits]
    return [layer[:, 0] for layer in layers], [layer[:, 1:] - layer[:, :1] for layer in layers]


def distances(values: list[Tensor], slopes: list[Tensor], labels: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """How far in the lp norm the linear functions of :func:`linearised` say that the switches and decisions are.

    Returns:
        ``[B, U]``: to where each ReLU switches; ``[B, C - 1]``: to where each other class is as likely, negative where
        it is likelier already.
    """
    q = _DUAL[p]
    switches = [
        u.abs() / (torch.linalg.vector_norm(v, q, dim=1) + _TINY) for u, v in zip(values[:-1], slopes[:-1], strict=True)
    ]
    logits, slope = values[-1], slopes[-1]
    own = labels[:, None, None].expand(-1, slope.shape[1], 1)
    lead = logits.gather(1, labels[:, None]) - logits
    apart = torch.linalg.vector_norm(slope.gather(2, own) - slope, q, dim=1)
    place = torch.arange(logits.shape[1] - 1, device=labels.device)
    others = place + (place >= labels[:, None])
    return torch.cat(switches, 1), (lead / (apart + _TINY)).gather(1, others)
