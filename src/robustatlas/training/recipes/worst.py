"""Joint training on the worst of several attacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn

from robustatlas.common.bundle import per_sample
from robustatlas.optimizers.crafting import in_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, entropy_of


@dataclass(frozen=True)
class Max(Recipe):
    """For each image the example, of all attacks', with the highest loss (Tramèr and Boneh 2019).

    The losses are compared in the mode of crafting; at equal ones the first attack is taken.
    """

    name: ClassVar[str] = "max"
    source: ClassVar[str] = "Tramèr and Boneh 2019; Maini et al. 2020"
    opponents: ClassVar[str] = "any"
    mixes: ClassVar[bool] = True

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """Craft with every attack, compare, then one pass."""
        value = entropy_of(batch.targets)
        with in_mode(net, batch.mode):
            x = self.craft(net, batch, 0).x
            if len(self.against) > 1:
                with torch.no_grad():
                    highest = value(net(x))
            for k in range(1, len(self.against)):
                other = self.craft(net, batch, k).x
                with torch.no_grad():
                    reached = value(net(other))
                x = torch.where(per_sample(reached > highest, x), other, x)
                highest = torch.maximum(highest, reached)
        logits = net(x)
        return Update(self.cross_entropy(logits, batch.targets), accuracy(logits, batch.labels))
