"""Variation regularisation: predictions that differ little between any two points of a set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from robustatlas.errors import UserError
from robustatlas.training.crafting import craft_pair, in_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, divergence


def _distance(first: Tensor, second: Tensor) -> Tensor:
    """``[B]``: l2 distance of logits; its gradient is 0 where they are equal."""
    difference: Tensor = torch.linalg.vector_norm(first - second, dim=1)
    return difference


@dataclass(frozen=True)
class Variation(Recipe):
    """A base loss + weight x mean ||f(x1) - f(x2)||_2 (Dai et al. 2022).

    x1 and x2 are points of the set that ascent on that very distance finds from two independent random starts, with the
    steps of the base. The features compared are the logits. ``base``: "pgd" (cross-entropy at projected ascent) or
    "trades" with ``beta``.
    """

    name: ClassVar[str] = "variation"
    source: ClassVar[str] = "Dai et al. 2022 (variation regularisation)"

    weight: float = 0.1
    base: Literal["pgd", "trades"] = "pgd"
    beta: float = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base not in ("pgd", "trades"):
            raise UserError(f"base={self.base!r} is not known; expected pgd or trades.")

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        """Craft the base's examples and a pair, then a pass for each."""
        (opponent,) = self.against
        with in_mode(net, batch.mode):
            if self.base == "trades":
                with torch.no_grad():
                    natural = net(batch.x)
                x = self.craft(net, batch, value=lambda logits: divergence(natural, logits), start="near").x
            else:
                x = self.craft(net, batch).x
            strength = self.strength(opponent, batch)
            pair = craft_pair(net, opponent, batch.x, batch.labels, strength, batch.noise.child(1), _distance)
        logits = net(x)
        if self.base == "trades":
            clean = net(batch.x)
            loss = self.cross_entropy(clean, batch.labels) + self.beta * divergence(clean, logits).mean()
        else:
            loss = self.cross_entropy(logits, batch.labels)
        loss = loss + self.weight * _distance(net(pair[0]), net(pair[1])).mean()
        return Update(loss, accuracy(logits, batch.labels))
