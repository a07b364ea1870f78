"""Joint training on the average over several attacks."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from robustatlas.optimizers.crafting import network_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy


@dataclass(frozen=True)
class Avg(Recipe):
    """The mean of the losses at the examples of every attack (Tramèr and Boneh 2019).

    ``sequential`` makes one update of the weights for each attack in turn instead, so that each sees the network the
    last one left, as the public code of Maini et al. (2020) does on CIFAR-10.
    """

    name: ClassVar[str] = "avg"
    source: ClassVar[str] = "Tramèr and Boneh 2019; Maini et al. 2020"
    opponents: ClassVar[str] = "any"
    mixes: ClassVar[bool] = True

    sequential: bool = False

    @property
    def updates(self) -> int:
        return len(self.against) if self.sequential else 1

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        which = [batch.part] if self.sequential else range(len(self.against))
        with network_mode(net, batch.mode):
            examples = [self.craft(net, batch, k).x for k in which]
        logits = [net(x) for x in examples]
        loss = torch.stack([self.cross_entropy(z, batch.targets) for z in logits]).mean()
        return Update(loss, torch.stack([accuracy(z, batch.labels) for z in logits]).mean())
