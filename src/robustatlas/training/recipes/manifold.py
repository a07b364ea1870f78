"""Manifold regularisation: outputs and activation patterns that random perturbations do not change."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from robustatlas.common.errors import UserError
from robustatlas.training.recipes.base import Batch, Memory, Recipe, Update, accuracy, require_balls

RELUS = {F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_}


class _Activations(TorchFunctionMode):
    """Keeps ``map`` of the input of every ReLU, in modules or called as a function, in the order of computation."""

    def __init__(self, map: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.map = map
        self.kept: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in RELUS:
            self.kept.append(self.map(args[0] if args else kwargs["input"]))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Manifold(Recipe):
    """CE(f(x), y) + output x ||f(x+) - f(x-)||^2 + pattern x mean |tanh(b u+) - tanh(b u-)| / 2 (Jin and Rinard 2020).

    x+ and x- are x +- epsilon c, c random signs, clipped to [0, 1]. u are the inputs of all ReLUs, averaged within each
    layer and then over the layers; tanh(b u) stands for their signs. The paper's trainer is not public: the weights, b
    and that layers count equally are choices made here.
    """

    name: ClassVar[str] = "manifold"
    source: ClassVar[str] = "Jin and Rinard 2020 (manifold regularisation); weights are our choice"

    output: float = 1.0
    pattern: float = 1.0
    sharpness: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_balls(self.name, self.against)
        if self.against[0].name != "linf":
            raise UserError(
                f"The recipe 'manifold' perturbs every pixel by epsilon, so it takes linf; given: "
                f"{self.against[0].name}."
            )

    def update(self, net: nn.Module, batch: Batch, memory: Memory) -> Update:
        strength = self.strength(self.against[0], batch)
        signs = batch.noise.sign(*batch.x.shape[1:], dtype=batch.x.dtype)
        move = strength.view(-1, *(1,) * (batch.x.dim() - 1)) * signs
        logits = net(batch.x)
        outputs, patterns = [], []
        for x in (batch.x + move, batch.x - move):
            with _Activations(lambda u: torch.tanh(self.sharpness * u)) as activations:
                outputs.append(net(x.clamp(0, 1)))
            patterns.append(activations.kept)
        if not patterns[0]:
            raise UserError(
                "The recipe 'manifold' compares the signs at ReLUs, and this network calls none; choose one with ReLUs."
            )
        apart = (outputs[0] - outputs[1]).square().sum(1).mean()
        flips = [(a - b).abs().mean() / 2 for a, b in zip(*patterns, strict=True)]
        loss = self.cross_entropy(logits, batch.labels) + self.output * apart
        loss = loss + self.pattern * torch.stack(flips).mean()
        return Update(loss, accuracy(logits, batch.labels))
