"""Loops of public codes in plain torch, over the batches that the trainer drew."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.optimizers.crafting import Crafted, Opponent
from robustatlas.training import Settings, update
from robustatlas.training.recipes import ascending, base, e_at, msd, uniform, variation
from robustatlas.training.recipes.base import Batch, Memory

BOUND = 1e-6
PHASES = {"linf": 0.0, "l2": 1.0, "lpips": 2.0, "l1": 3.0}
PLAIN = Settings(epochs=1, optimizer="sgd", momentum=0.0, learning_rate=0.1, schedule="constant", held_out=0)
PRINTED = replace(PLAIN, epochs=4, momentum=0.9, weight_decay=5e-3, schedule="piecewise", batch_size=8)
"""As most papers train."""
RATES = [0.1] * 5 + [0.01] * 3 + [0.001] * 4
"""Of its twelve updates, three an epoch: .1 until half of the time is over, .01 until three quarters are, .001."""


def example(x: Tensor, name: str = "linf") -> Tensor:
    """What the attack of that name is taken to find."""
    return (x + 0.2 * torch.sin(40 * x + PHASES[name])).clamp(0, 1)


@dataclass
class Seen:
    """Batches that the trainer drew, for each the attacks that were asked for examples, and what the recipe remembered
    at first and after each."""

    batches: list[Batch] = field(default_factory=list)
    attacks: list[list[str]] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)

    def craft(self, net: nn.Module, opponent: Opponent, x: Tensor, *_: Any, **options: Any) -> Crafted:
        assert not net.training
        self.attacks[-1].append(opponent.name)
        return Crafted(example(x, opponent.name), torch.ones(len(x), dtype=torch.bool))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    found, made = Seen(), update._update

    def noted(run: Any, batch: Batch) -> tuple[Tensor, Tensor]:
        found.batches.append(batch)
        found.attacks.append([])
        found.memories = found.memories or [run.memory]
        done = made(run, batch)
        found.memories.append(run.memory)
        return done

    def union(net: nn.Module, opponents: tuple[Opponent, ...], x: Tensor, *_: Any) -> Tensor:
        return found.craft(net, opponents[0], x).x

    def pair(net: nn.Module, opponent: Opponent, x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
        return example(x, "l2"), example(x, "lpips")

    monkeypatch.setattr(update, "_update", noted)
    for module in (base, e_at, uniform, ascending):
        monkeypatch.setattr(module, "craft", found.craft)
    monkeypatch.setattr(msd, "craft_steepest", union)
    monkeypatch.setattr(variation, "craft_pair", pair)
    return found


Rule = Callable[[nn.Module, Batch, list[str]], Tensor]
"""From the network, a batch and the attacks that crafted to the loss. It may move the weights: the gradient there is
applied to those from before."""


def ce(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y)


def sgd(net: nn.Module, slopes: list[Tensor], velocity: list[Tensor], rate: float, settings: Settings) -> None:
    """SGD with momentum and an l2 penalty."""
    with torch.no_grad():
        for k, (p, g) in enumerate(zip(net.parameters(), slopes, strict=True)):
            decay = settings.weight_decay if p.dim() > 1 or settings.decay_vectors else 0.0
            g = g + decay * p
            velocity[k] = settings.momentum * velocity[k] + g
            p -= rate * (g + settings.momentum * velocity[k] if settings.nesterov else velocity[k])


def followed(net: nn.Module, seen: Seen, settings: Settings, rates: list[float], rule: Rule) -> None:
    """The loop of a public code over the batches that the trainer drew."""
    velocity = [torch.zeros_like(p) for p in net.parameters()]
    net.train()
    for batch, attacks, rate in zip(seen.batches, seen.attacks, rates, strict=True):
        before = [p.detach().clone() for p in net.parameters()]
        slopes = list(torch.autograd.grad(rule(net, batch, attacks), list(net.parameters())))
        with torch.no_grad():
            for p, kept in zip(net.parameters(), before, strict=True):
                p.copy_(kept)
        sgd(net, slopes, velocity, rate, settings)


def same(found: nn.Module, expected: nn.Module) -> None:
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value, rtol=0, atol=BOUND, msg=name)
