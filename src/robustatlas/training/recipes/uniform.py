"""UAR's training: targeted attacks at strengths drawn uniformly up to the largest, against one attack or several."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import craft
from robustatlas.optimizers.frank_wolfe import FrankWolfe
from robustatlas.threats.base import ThreatModel
from robustatlas.training.against import default_ascent
from robustatlas.training.recipes.base import Batch, Recipe, cross_entropy_objective, select_worst

_STREAMS = 3
"""Number of random streams of each attack: start, strength and target."""


@dataclass(frozen=True)
class Uniform(Recipe):
    """Each image at its own strength s x epsilon, s uniform in [0, 1), towards a random wrong class (Kang et al. 2019).

    Steps are epsilon / sqrt(steps), scaled by the same s as the set. (In the public code those of fog, snow and gabor
    have lengths of their own.) Sets with a linear oracle (l1, jpeg-l1) are searched by Frank-Wolfe. The loss is the
    cross-entropy of the true class at the examples; no clean images.

    Against several attacks (the paper's joint training) each draws its own strengths and targets, and each image counts
    at the example of highest loss. The accuracy at the examples of each attack is recorded, of the batches and of
    held-out images: the paper's tables 4 and 5, figures 8 and 20.
    """

    name: ClassVar[str] = "uniform"
    source: ClassVar[str] = "Kang et al. 2019 (UAR)"
    opponents: ClassVar[str] = "any"
    measured: ClassVar[bool] = True

    @classmethod
    def optimizer(cls, threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
        return FrankWolfe(steps) if hasattr(threat, "linear_oracle") else default_ascent(threat, steps, rate)

    @classmethod
    def rate_of(cls, steps: int) -> float:
        return 1 / math.sqrt(steps)

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        return select_worst(net, batch, self.examples(net, batch), len(self.against))

    def examples(self, net: nn.Module, batch: Batch) -> Iterator[Tensor]:
        for which, opponent in enumerate(self.against):
            start, scale, choice = (batch.noise.child(_STREAMS * which + k) for k in range(_STREAMS))
            strength = scale.uniform(dtype=batch.x.dtype) * self.strength(opponent, batch)
            with torch.no_grad():
                classes = net(batch.x[:1]).shape[1]
            targets = (batch.labels + 1 + choice.integers(classes - 1)) % classes
            value = cross_entropy_objective(batch.labels, targets)
            yield craft(net, opponent, batch.x, batch.labels, strength, start, value, targets=targets).x
