"""UAR's training: targeted attacks at strengths drawn uniformly up to the largest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.threats.base import ThreatModel
from robustatlas.training.against import ascent
from robustatlas.training.crafting import craft, in_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, entropy_of


@dataclass(frozen=True)
class Uniform(Recipe):
    """Each image at its own strength s x epsilon, s uniform in [0, 1), towards a random wrong class (Kang et al. 2019).

    Steps are epsilon / sqrt(steps), scaled by the same s as the set. Sets with a linear oracle (l1, jpeg-l1) are
    searched by Frank-Wolfe. The loss is the cross-entropy of the true class at the examples; no clean images.
    """

    name: ClassVar[str] = "uniform"
    source: ClassVar[str] = "Kang et al. 2019 (UAR)"

    @classmethod
    def optimizer(cls, threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
        """Frank-Wolfe where it can be."""
        return FrankWolfe(steps) if hasattr(threat, "linear_oracle") else ascent(threat, steps, rate)

    @classmethod
    def rate_of(cls, steps: int) -> float:
        """1 / sqrt(steps)."""
        return 1 / math.sqrt(steps)

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """Draw targets and strengths, craft, then one pass."""
        (opponent,) = self.against
        scale = batch.noise.child(1).uniform(dtype=batch.x.dtype)
        with in_mode(net, batch.mode):
            classes = net(batch.x[:1]).shape[1]
            targets = (batch.labels + 1 + batch.noise.child(2).integers(classes - 1)) % classes
            x = craft(
                net,
                opponent,
                batch.x,
                batch.labels,
                scale * self.strength(opponent, batch),
                batch.noise.child(0),
                entropy_of(batch.labels, targets),
                targets=targets,
            ).x
        logits = net(x)
        return Update(self.cross_entropy(logits, batch.labels), accuracy(logits, batch.labels))
