"""Maximum margin regularisation: linear regions and decision boundaries that lie far from the images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from robustatlas.common.errors import UserError
from robustatlas.optimizers.crafting import network_mode
from robustatlas.threats.lp import Lp
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, mix_clean, require_balls
from robustatlas.training.recipes.manifold import RELUS

_TINY = 1e-12
_DUAL = {float("inf"): 1.0, 2.0: 2.0, 1.0: float("inf")}


@dataclass(frozen=True)
class Mmr(Recipe):
    """CE(f(x), y) + weight x what hyperplanes within distance gamma of x cost, in each norm (Croce et al. 2019).

    A hyperplane at distance d costs max(0, 1 - d / gamma). ``gamma`` is one number, or one for each norm; None: the
    strength. It grows as the strength does during ``warmup``. Counted are the nearest at which a ReLU switches, on
    average over their number, which falls from the share ``first`` of all ReLUs to ``last``, and those of the decisions
    for each other class, their sum divided by the number of classes. The weight rises over the first ``rise`` epochs.

    Against linf and l1 together it is the same authors' universal regulariser: what is among the nearest in one norm is
    counted in both. ``weight`` is then one number, or one for each norm. On MNIST the authors take {"linf": 0.15, "l1":
    1.0}, weight=(12.0, 3.0), first=0.2, last=0.05.

    ``attacked`` is the share of each batch, its first images, that is attacked before both parts of the loss are taken
    there: MMR + AT of the authors' code, which takes one half, against one norm.

    Every ReLU's slope is a forward pass for each pixel: for small images and networks. Normalisation and dropout run as
    in evaluation meanwhile. At padded borders the public code takes the whole filter for a slope of the first layer.
    """

    name: ClassVar[str] = "mmr"
    source: ClassVar[str] = "Croce et al. 2019 (MMR), and its universal form"
    opponents: ClassVar[str] = "any"

    weight: float | tuple[float, ...] = 1.0
    gamma: float | tuple[float, ...] | None = None
    rise: int = 10
    first: float = 0.1
    last: float = 0.02
    attacked: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_balls(self.name, self.against)
        for opponent in self.against:
            if not isinstance(opponent.threat, Lp) or opponent.threat.p not in _DUAL:
                raise UserError(f"The recipe 'mmr' takes linf, l2 and l1; given: {opponent.name}.")
        if len(self.weights) != len(self.against) or not all(weight > 0 for weight in self.weights):
            raise UserError(f"weight={self.weight}; expected a positive number, or one for each norm.")
        if len(self.gammas) != len(self.against) or not all(gamma > 0 for gamma in self.gammas):
            raise UserError(f"gamma={self.gamma}; expected a positive distance, or one for each norm.")
        if not 0 <= self.last <= self.first <= 1 or self.rise < 1:
            raise UserError(
                f"first={self.first}, last={self.last}, rise={self.rise}; expected shares of the ReLUs in [0, 1], last "
                "at most first, and at least one epoch."
            )

        if not 0 <= self.attacked <= 1 or (self.attacked and len(self.against) > 1):
            raise UserError(f"attacked={self.attacked}; expected a share in [0, 1], and above 0 only against one norm.")

    @property
    def weights(self) -> tuple[float, ...]:
        """One for each norm."""
        return self._for_each_norm(self.weight)

    @property
    def gammas(self) -> tuple[float, ...]:
        """One for each norm, at the full strength."""
        return tuple(o.epsilon for o in self.against) if self.gamma is None else self._for_each_norm(self.gamma)

    def _for_each_norm(self, given: float | Sequence[float]) -> tuple[float, ...]:
        return tuple(given) if isinstance(given, Sequence) else (given,) * len(self.against)

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        x = batch.x
        if self.attacked:
            with network_mode(net, batch.mode):
                x = mix_clean(self.craft(net, batch).x, x, self.attacked)
        logits = net(x)
        with network_mode(net, "eval"):
            units, slopes = linearise(net, x)
        loss = self.cross_entropy(logits, batch.labels)
        risen = min(1.0, (batch.epoch + 1) / self.rise)
        for weight, cost in zip(self.weights, self._costs(units, slopes, batch), strict=True):
            loss = loss + risen * weight * cost
        return Update(loss, accuracy(logits, batch.labels))

    def _costs(self, units: list[Tensor], slopes: list[Tensor], batch: Batch) -> list[Tensor]:
        """Return a scalar for each norm."""
        found = []
        for opponent in self.against:
            assert isinstance(opponent.threat, Lp)
            found.append(distances(units, slopes, batch.labels, opponent.threat.p))
        count = self._switch_count(found[0][0].shape[1], batch)
        counted = torch.zeros_like(found[0][0])
        for switches, _ in found:
            counted = counted.scatter(1, switches.topk(count, dim=1, largest=False).indices, 1.0)
        costs = []
        for opponent, gamma, (switches, decisions) in zip(self.against, self.gammas, found, strict=True):
            within = (self.strength(opponent, batch) * (gamma / opponent.epsilon))[:, None].clamp_min(_TINY)
            near, wrong = ((1 - d / within).clamp_min(0) for d in (switches, decisions))
            costs.append(((counted * near).sum(1) / count + wrong.sum(1) / units[-1].shape[1]).mean())
        return costs

    def _switch_count(self, units: int, batch: Batch) -> int:
        """Return the number of switches of ReLUs that count in this epoch."""
        first, last = int(self.first * units), int(self.last * units)
        return max(1, int(first + (last - first) * (batch.epoch + 1) / batch.epochs))


class _Frozen(TorchFunctionMode):
    """Mode in which every ReLU switches, for each of ``count`` groups of a batch, as for the first input of the group.

    So the network is the affine function that it is around that input. ``kept`` are the inputs of all ReLUs,
    ``[count, group, U]``.
    """

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


def linearise(net: nn.Module, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Return the inputs of all ReLUs and the logits at ``x`` [B, ...], and their slopes in its D values.

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
    """Return the distances in the lp norm to switches and decisions, by the linear functions of :func:`linearise`.

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
