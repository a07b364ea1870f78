"""Misclassification-aware adversarial training."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from robustatlas.common.errors import UserError
from robustatlas.optimizers.crafting import network_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy

_TINY = 1e-12
_BELOW_ONE, _ABOVE_ONE = 1.0001, 1.0000001
"""Numbers from which the public code subtracts probabilities, so that no logarithm is of 0 and no weight is 0."""


@dataclass(frozen=True)
class Mart(Recipe):
    """BCE(f(x'), y) + beta KL(f(x) || f(x')) (1 - p_y(x)), where x' maximises the cross-entropy (Wang et al. 2020).

    BCE is the cross-entropy - log(1 - the largest probability of another class). The divergence counts the more, the
    less sure the network is of the clean image. Crafting begins next to x, as in the public code.
    """

    name: ClassVar[str] = "mart"
    source: ClassVar[str] = "Wang et al. 2020 (MART)"

    beta: float = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.beta > 0:
            raise UserError(f"beta={self.beta}; expected a positive weight of the divergence, such as 6.")

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        with network_mode(net, batch.mode):
            x = self.craft(net, batch, start="near").x
        natural, logits = net(batch.x).softmax(1), net(x)
        attacked = logits.softmax(1)
        own = torch.zeros_like(attacked, dtype=torch.bool).scatter(1, batch.labels[:, None], True)
        other = attacked.masked_fill(own, -1).amax(1)
        boosted = self.cross_entropy(logits, batch.labels) - (_BELOW_ONE - other + _TINY).log().mean()
        apart = (natural * (natural.clamp_min(_TINY).log() - (attacked + _TINY).log())).sum(1)
        weight = _ABOVE_ONE - natural.gather(1, batch.labels[:, None])[:, 0]
        return Update(boosted + self.beta * (apart * weight).mean(), accuracy(logits, batch.labels))
