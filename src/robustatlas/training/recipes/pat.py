"""Perceptual adversarial training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from robustatlas.bundle import per_sample
from robustatlas.errors import UserError
from robustatlas.objectives import margin
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.lpa import FastLPA
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.perceptual import Perceptual
from robustatlas.training.against import ascent
from robustatlas.training.crafting import in_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy


@dataclass(frozen=True)
class Pat(Recipe):
    """Mean cross-entropy at the examples of the fast Lagrangian perceptual attack (Laidlaw et al. 2021, App. A.3).

    The distance is that of the activations of the network being trained, unless the threat model brings its own.
    Images that the network gets wrong already enter as they are. Nothing is projected, so examples may leave the set.
    """

    name: ClassVar[str] = "pat"
    source: ClassVar[str] = "Laidlaw et al. 2021 (PAT, Fast-LPA)"

    def __post_init__(self) -> None:
        super().__post_init__()
        for opponent in self.against:
            if not isinstance(opponent.threat, Perceptual):
                raise UserError(
                    f"The recipe 'pat' trains against the perceptual distance lpips, given: {opponent.name}; take pgd "
                    "for other threat models."
                )

    @classmethod
    def optimizer(cls, threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
        """Fast-LPA."""
        return FastLPA(steps) if isinstance(threat, Perceptual) else ascent(threat, steps, rate)

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """Craft where the network is right, then one pass."""
        labels = batch.labels
        with in_mode(net, batch.mode):
            with torch.no_grad():
                right = net(batch.x).argmax(1) == labels
            found = self.craft(net, batch, value=lambda logits: margin(logits, labels, None)).x
        logits = net(torch.where(per_sample(right, batch.x), found, batch.x))
        return Update(self.cross_entropy(logits, labels), accuracy(logits, labels))
