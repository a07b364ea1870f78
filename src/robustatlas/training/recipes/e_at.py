"""Extreme norm adversarial training."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from robustatlas.common.host import to_host
from robustatlas.common.noise import Noise
from robustatlas.optimizers.apgd import APGD
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.crafting import craft, network_mode
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L1
from robustatlas.training.against import default_ascent
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, cross_entropy_objective


@dataclass(frozen=True)
class EAt(Recipe):
    """One attack a batch, the more often the more it still fools the network (Croce and Hein 2022).

    Its probability is proportional to the share of all points so far that were misclassified at some iterate of it;
    until each attack has been used, all have the same. Examples are the best iterates of Auto-PGD from the clean point.
    Meant for linf and l1, between which the l2 ball lies.
    """

    name: ClassVar[str] = "e-at"
    source: ClassVar[str] = "Croce and Hein 2022 (E-AT)"
    opponents: ClassVar[str] = "several"
    mixes: ClassVar[bool] = True

    @classmethod
    def optimizer(cls, threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
        return default_ascent(threat, steps, rate) if isinstance(threat, L1) else APGD(steps)

    def remember(self, net: nn.Module, x: Tensor, noise: Noise) -> Memory:
        """Return counters of points seen and points never misclassified, for each attack."""
        zeros = torch.zeros(len(self.against), dtype=torch.float64, device=x.device)
        return {"seen": zeros, "survived": zeros.clone()}

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        drawn = batch.shared.uniform(dtype=torch.float64)
        (which,) = to_host((drawn > self.probabilities(memory).cumsum(0)[:-1]).sum())
        opponent = self.against[which]
        with network_mode(net, batch.mode):
            found = craft(
                net,
                opponent,
                batch.x,
                batch.labels,
                self.strength(opponent, batch),
                batch.noise,
                cross_entropy_objective(batch.targets),
                start="neutral",
                keep="best",
            )
        logits = net(found.x)
        here = torch.zeros_like(memory["seen"])
        here[which] = 1
        moved = {
            "seen": memory["seen"] + here * len(batch.x),
            "survived": memory["survived"] + here * found.survived.sum(),
        }
        return Update(self.cross_entropy(logits, batch.targets), accuracy(logits, batch.labels), moved)

    def probabilities(self, memory: Memory) -> Tensor:
        """Return ``[m]``: of each attack.

        Example:
            >>> from robustatlas.training.against import make_opponents
            >>> recipe = EAt(make_opponents({"linf": 0.1, "l1": 5.0}))
            >>> counts = {"seen": torch.tensor([100.0, 100.0]), "survived": torch.tensor([90.0, 70.0])}
            >>> [round(float(p), 6) for p in recipe.probabilities(counts)]
            [0.25, 0.75]
        """
        seen = memory["seen"]
        errors = 1 - memory["survived"] / seen.clamp_min(1)
        total = errors.sum()
        return torch.where((seen > 0).all() & (total > 0), errors / total, 1 / len(seen))
