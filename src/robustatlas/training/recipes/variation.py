"""Variation regularisation: predictions that differ little between any two points of a set."""

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from robustatlas.common.errors import UserError
from robustatlas.optimizers.crafting import craft_pair, network_mode
from robustatlas.optimizers.lpa import FastLPA
from robustatlas.training.recipes.base import (
    Batch,
    Memory,
    Recipe,
    Update,
    accuracy,
    divergence,
    require_perceptual,
)
from robustatlas.training.recipes.pat import perceptual_examples


def _distance(first: Tensor, second: Tensor) -> Tensor:
    """Return ``[B]``: l2 distance of logits; its gradient is 0 where they are equal."""
    difference: Tensor = torch.linalg.vector_norm(first - second, dim=1)
    return difference


@dataclass(frozen=True)
class Variation(Recipe):
    """A base loss + weight x mean ||f(x1) - f(x2)||_2 (Dai et al. 2022).

    x1 and x2 are points of the set that ascent on that very distance finds from two independent random starts, with the
    steps of the base. The features compared are the logits. ``base``: "pgd" (cross-entropy at projected ascent),
    "trades" with ``beta``, or "pat" (cross-entropy at Fast-LPA where the network is right, pairs in perceptual balls).
    """

    name: ClassVar[str] = "variation"
    source: ClassVar[str] = "Dai et al. 2022 (variation regularisation)"
    mixes: ClassVar[bool] = True

    weight: float = 0.1
    base: Literal["pgd", "trades", "pat"] = "pgd"
    beta: float = 6.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base not in ("pgd", "trades", "pat"):
            raise UserError(f"base={self.base!r} is not known; expected pgd, trades or pat.")
        if self.base == "pat":
            require_perceptual("variation with base=pat", self.against)

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        (opponent,) = self.against
        with network_mode(net, batch.mode):
            x = self._example(net, batch)
            strength = self.strength(opponent, batch)
            pair = craft_pair(net, opponent, batch.x, batch.labels, strength, batch.noise.child(1), _distance)
        logits = net(x)
        if self.base == "trades":
            clean = net(batch.x)
            loss = self.cross_entropy(clean, batch.targets) + self.beta * divergence(clean, logits).mean()
        else:
            loss = self.cross_entropy(logits, batch.targets)
        loss = loss + self.weight * _distance(net(pair[0]), net(pair[1])).mean()
        return Update(loss, accuracy(logits, batch.labels))

    def _example(self, net: nn.Module, batch: Batch) -> Tensor:
        if self.base == "trades":
            return self.craft_apart(net, batch)
        if self.base == "pgd":
            return self.craft(net, batch).x
        (opponent,) = self.against
        lagrangian = replace(opponent, optimizer=FastLPA(opponent.optimizer.steps))
        return perceptual_examples(replace(self, against=(lagrangian,)), net, batch)
