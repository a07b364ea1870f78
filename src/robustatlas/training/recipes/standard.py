"""Training on clean images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy


@dataclass(frozen=True)
class Standard(Recipe):
    """Mean cross-entropy on the images as they are."""

    name: ClassVar[str] = "standard"
    opponents: ClassVar[str] = "none"
    mixes: ClassVar[bool] = True

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        logits = net(batch.x)
        return Update(self.cross_entropy(logits, batch.targets), accuracy(logits, batch.labels))
