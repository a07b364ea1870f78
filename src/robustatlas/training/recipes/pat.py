"""Perceptual adversarial training."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from robustatlas.common.bundle import per_sample
from robustatlas.models.objectives import margin
from robustatlas.optimizers.base import Optimizer
from robustatlas.optimizers.lpa import FastLPA
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.perceptual import Perceptual
from robustatlas.training.against import default_ascent
from robustatlas.training.recipes.base import Batch, Recipe, require_perceptual


@dataclass(frozen=True)
class Pat(Recipe):
    """Mean cross-entropy at the examples of the fast Lagrangian perceptual attack (Laidlaw et al. 2021, App. A.3).

    The distance is that of the activations of the network being trained, unless the threat model brings its own.
    Images that the network gets wrong already enter as they are. Nothing is projected, so examples may leave the set.
    How fast features move is measured ahead of a point, as algorithm 3 prints it; the public code looks behind it.
    """

    name: ClassVar[str] = "pat"
    source: ClassVar[str] = "Laidlaw et al. 2021 (PAT, Fast-LPA)"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_perceptual(self.name, self.against)

    @classmethod
    def optimizer(cls, threat: ThreatModel, steps: int, rate: float) -> Optimizer[Any]:
        return FastLPA(steps) if isinstance(threat, Perceptual) else default_ascent(threat, steps, rate)

    def make_examples(self, net: nn.Module, batch: Batch) -> tuple[Tensor, Tensor | None]:
        return perceptual_examples(self, net, batch), None


def perceptual_examples(recipe: Recipe, net: nn.Module, batch: Batch) -> Tensor:
    """Return examples of the only opponent by the margin; misclassified images are returned unchanged."""
    labels = batch.labels
    with torch.no_grad():
        right = net(batch.x).argmax(1) == labels
    found = recipe.craft(net, batch, value=lambda logits: margin(logits, labels, None)).x
    return torch.where(per_sample(right, batch.x), found, batch.x)
