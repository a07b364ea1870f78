"""Joint training by multi steepest descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from robustatlas.training.crafting import craft_steepest, in_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, entropy_of, require_balls


@dataclass(frozen=True)
class Msd(Recipe):
    """One attack on the union of lp balls, each of whose steps is the best of all norms' (Maini et al. 2020)."""

    name: ClassVar[str] = "msd"
    source: ClassVar[str] = "Maini et al. 2020 (MSD)"
    opponents: ClassVar[str] = "several"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_balls(self.name, self.against)

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """Craft in the union, then one pass."""
        with in_mode(net, batch.mode):
            strengths = [self.strength(opponent, batch) for opponent in self.against]
            value = entropy_of(batch.labels)
            x = craft_steepest(net, self.against, batch.x, batch.labels, strengths, batch.noise, value)
        logits = net(x)
        return Update(self.cross_entropy(logits, batch.labels), accuracy(logits, batch.labels))
