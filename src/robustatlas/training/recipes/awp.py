"""Adversarial weight perturbation: a loss that is low also around the weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from robustatlas.common.errors import UserError
from robustatlas.optimizers.crafting import network_mode
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, divergence

Forward = Callable[[Tensor], Tensor]
_TINY = 1e-20


@dataclass(frozen=True)
class Awp(Recipe):
    """A base loss at weights moved by gamma ||w|| g / ||g||, where g is its gradient in w (Wu et al. 2020).

    Matrices and filters move, each by its own norm. ``base``: "pgd" or "trades" with ``beta``. The public code takes
    gamma .01 for pgd, and .005 from the tenth epoch (``first_epoch=10``) for trades. Weights decay from where they are;
    in the public code from where they were moved to.
    """

    name: ClassVar[str] = "awp"
    source: ClassVar[str] = "Wu et al. 2020 (AWP)"
    mixes: ClassVar[bool] = True

    gamma: float = 0.01
    base: Literal["pgd", "trades"] = "pgd"
    beta: float = 6.0
    first_epoch: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.base not in ("pgd", "trades"):
            raise UserError(f"base={self.base!r} is not known; expected pgd or trades.")
        if not self.gamma > 0 or self.first_epoch < 1:
            raise UserError("gamma must be a positive share of the weights, such as 0.01, and first_epoch at least 1.")

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        with network_mode(net, batch.mode):
            x = self.craft(net, batch).x if self.base == "pgd" else self.craft_apart(net, batch)
        if batch.epoch + 1 < self.first_epoch:
            return self._loss(net, batch, x)
        moved = self._perturb_weights(net, batch, x)
        return self._loss(lambda inputs: functional_call(net, moved, (inputs,)), batch, x)

    def _loss(self, forward: Forward, batch: Batch, x: Tensor) -> Update:
        attacked = forward(x)
        if self.base == "pgd":
            loss = self.cross_entropy(attacked, batch.targets)
        else:
            clean = forward(batch.x)
            loss = self.cross_entropy(clean, batch.targets) + self.beta * divergence(clean, attacked).mean()
        return Update(loss, accuracy(attacked, batch.labels))

    def _perturb_weights(self, net: nn.Module, batch: Batch, x: Tensor) -> dict[str, Tensor]:
        """Return the worst parameters nearby, as a differentiable function of the weights."""
        parameters = {name: p for name, p in net.named_parameters() if p.requires_grad}
        buffers = {
            name: buffer.clone() for name, buffer in net.named_buffers()
        }  # copies: this pass must not change them
        here: dict[str, Tensor] = {**parameters, **buffers}
        loss = self._loss(lambda inputs: functional_call(net, here, (inputs,)), batch, x).loss
        # Parameters that the loss does not reach stay where they are.
        slopes = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
        moved: dict[str, Tensor] = {}
        for (name, p), slope in zip(parameters.items(), slopes, strict=True):
            size = self.gamma * p.detach().norm() / (slope.norm() + _TINY)
            moved[name] = p + size * slope if p.dim() > 1 else p
        return moved
