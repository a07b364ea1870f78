"""Updates of the trainer made again by hand: the public codes' loops in plain torch, on the same batches and examples.

What a recipe crafts is another matter (test_training_recipes): here every attack gives a fixed function of the image.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.datasets import Dataset
from robustatlas.training import RECIPES, Settings, recipe_named, train, update
from robustatlas.training.crafting import Crafted, Opponent
from robustatlas.training.recipes import ascending, base, e_at, msd, uniform, variation
from robustatlas.training.recipes.base import Batch

BOUND = 1e-6
PHASES = {"linf": 0.0, "l2": 1.0, "lpips": 2.0}
PLAIN = Settings(epochs=1, optimizer="sgd", momentum=0.0, learning_rate=0.1, schedule="constant", held_out=0)
PRINTED = replace(PLAIN, epochs=4, momentum=0.9, weight_decay=5e-3, schedule="piecewise", batch_size=32)
"""As most papers train: one update an epoch, at rates .1, .01 from the second (the half is reached then) and .001."""


@pytest.fixture(scope="module")
def data() -> Dataset:
    return ra.load_dataset("digits", "train").take(24)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 10)
    )  # fmt: skip


def example(x: Tensor, name: str = "linf") -> Tensor:
    """What the attack of that name is taken to find."""
    return (x + 0.2 * torch.sin(40 * x + PHASES[name])).clamp(0, 1)


@dataclass
class Seen:
    """Batches that the trainer drew, and for each the attacks that were asked for examples."""

    batches: list[Batch] = field(default_factory=list)
    attacks: list[list[str]] = field(default_factory=list)

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
        return made(run, batch)

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


# --- the losses, as the public codes compute them, forward passes in their order


def ce(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y)


def kl(clean: Tensor, attacked: Tensor) -> Tensor:
    return F.kl_div(attacked.log_softmax(1), clean.softmax(1), reduction="batchmean")


def trades(net: nn.Module, x: Tensor, x_adv: Tensor, y: Tensor, beta: float) -> Tensor:
    clean, attacked = net(x), net(x_adv)
    return F.cross_entropy(clean, y) + beta * kl(clean, attacked)


def averaged(net: nn.Module, b: Batch, attacks: list[str]) -> Tensor:
    return sum(ce(net, example(b.x, name), b.labels) for name in attacks) / len(attacks)


def drawn(net: nn.Module, b: Batch, attacks: list[str]) -> Tensor:
    assert len(attacks) == 1
    return ce(net, example(b.x, attacks[0]), b.labels)


def worst(net: nn.Module, b: Batch, attacks: list[str]) -> Tensor:
    assert attacks == ["linf", "l2"]
    first, second = (example(b.x, name) for name in attacks)
    net.eval()
    with torch.no_grad():
        low, high = (F.cross_entropy(net(x), b.labels, reduction="none") for x in (first, second))
    net.train()
    return ce(net, torch.where((high > low).view(-1, 1, 1, 1), second, first), b.labels)


def mart(net: nn.Module, b: Batch, _: list[str]) -> Tensor:
    clean, attacked = net(b.x), net(example(b.x))
    p, q = clean.softmax(1), attacked.softmax(1)
    order = q.argsort(1)
    other = torch.where(order[:, -1] == b.labels, order[:, -2], order[:, -1])
    boosted = F.cross_entropy(attacked, b.labels) + F.nll_loss((1.0001 - q + 1e-12).log(), other)
    apart = (p * (p.log() - (q + 1e-12).log())).sum(1)
    return boosted + 6 * (apart * (1.0000001 - p[torch.arange(len(p)), b.labels])).mean()


def hat(net: nn.Module, b: Batch, _: list[str]) -> Tensor:
    x_adv = example(b.x)
    with torch.no_grad():
        helped = ra.load_model("builtin:digits-standard").net(x_adv).argmax(1)
    clean, attacked, beyond = net(b.x), net(x_adv), net(b.x + 3.5 * (x_adv - b.x))
    loss = F.cross_entropy(clean, b.labels) + 2.5 * kl(clean, attacked)
    return loss + 0.5 * F.cross_entropy(beyond, helped)


def union(net: nn.Module, b: Batch, _: list[str]) -> Tensor:
    low = example(b.x)
    return trades(net, torch.cat([b.x, low]), torch.cat([low, example(low)]), b.labels.repeat(2), 5.0)


def perceptual(net: nn.Module, b: Batch, _: list[str]) -> Tensor:
    net.eval()
    with torch.no_grad():
        right = net(b.x).argmax(1) == b.labels
    net.train()
    return ce(net, torch.where(right.view(-1, 1, 1, 1), example(b.x, "lpips"), b.x), b.labels)


def varied(net: nn.Module, b: Batch, _: list[str]) -> Tensor:
    base = ce(net, example(b.x), b.labels)
    return base + 0.1 * (net(example(b.x, "l2")) - net(example(b.x, "lpips"))).norm(dim=1).mean()


Rule = Callable[[nn.Module, Batch, list[str]], Tensor]
ONE, TWO = {"linf": 0.2}, {"linf": 0.2, "l2": 0.5}
RULES: dict[str, tuple[Rule, dict[str, float] | None, dict[str, Any]]] = {
    "standard": (lambda net, b, _: ce(net, b.x, b.labels), None, {}),
    "pgd": (drawn, ONE, {}),
    "uniform": (drawn, ONE, {}),
    "msd": (drawn, TWO, {}),
    "sat": (drawn, TWO, {}),
    "e-at": (drawn, TWO, {}),
    "avg": (averaged, TWO, {"sequential": False}),
    "avg in turn": (averaged, TWO, {"sequential": True}),
    "max": (worst, TWO, {}),
    "trades": (lambda net, b, _: trades(net, b.x, example(b.x), b.labels, 6.0), ONE, {}),
    "mart": (mart, ONE, {}),
    "hat": (hat, ONE, {"helper": "builtin:digits-standard"}),
    "ascending": (union, ONE, {}),
    "pat": (perceptual, {"lpips": 0.5}, {}),
    "variation": (varied, ONE, {}),
}


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
        slopes = list(torch.autograd.grad(rule(net, batch, attacks), list(net.parameters())))
        sgd(net, slopes, velocity, rate, settings)


def same(found: nn.Module, expected: nn.Module) -> None:
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value, rtol=0, atol=BOUND, msg=name)


@pytest.mark.parametrize("name", RULES)
def test_updates_are_those_of_the_public_code(name: str, data: Dataset, seen: Seen) -> None:
    """Weights and running statistics after four updates whose rate falls."""
    rule, against, options = RULES[name]
    recipe = recipe_named(name.split(" ")[0], against, **options)
    found = train(network(), data, recipe, settings=PRINTED).net
    assert len(seen.batches) == 4 * recipe.updates
    rates = [rate for rate in (0.1, 0.01, 0.001, 0.001) for _ in range(recipe.updates)]
    expected = network()
    followed(expected, seen, PRINTED, rates, rule)
    same(found, expected)
    asked = {attack for attacks in seen.attacks for attack in attacks}
    assert asked <= set(against or {})


def test_recipes_that_are_followed() -> None:
    """Left out are those with regularisers or bounds of their own, whose gradients test_training_recipes checks."""
    others = {"awp", "mng-ac", "manifold", "mmr", "ibp", "crown-ibp", "kw"}
    assert {name.split(" ")[0] for name in RULES} | others == set(RECIPES)


def test_weights_are_moved_before_the_gradient_and_back_after_it(data: Dataset, seen: Seen) -> None:
    """AWP with a copy that looks for the move, so that running statistics see nothing of it (csdongxian/AWP)."""
    settings = replace(PLAIN, epochs=2)
    found = train(network(), data, recipe_named("awp", ONE), settings=settings).net
    expected = network()
    for batch in seen.batches:
        expected.train()
        copied, x = copy.deepcopy(expected), example(batch.x)
        slopes = torch.autograd.grad(ce(copied, x, batch.labels), list(copied.parameters()))
        moves = [
            0.01 * p.norm() / g.norm() * g if p.dim() > 1 else torch.zeros_like(p)
            for p, g in zip(expected.parameters(), slopes, strict=True)
        ]
        with torch.no_grad():
            for p, move in zip(expected.parameters(), moves, strict=True):
                p += move
        slopes = torch.autograd.grad(ce(expected, x, batch.labels), list(expected.parameters()))
        with torch.no_grad():
            for p, move, g in zip(expected.parameters(), moves, slopes, strict=True):
                p -= move + 0.1 * g
    same(found, expected)


# --- what all recipes share


CHANGES: dict[str, dict[str, Any]] = {
    "nesterov": {"nesterov": True},
    "vectors do not decay": {"decay_vectors": False, "weight_decay": 0.1},
    "clipped together": {"clip_norm": 0.5},
    "clipped by value": {"clip_value": 0.01},
    "warm-up": {"warmup_epochs": 2.0, "schedule": "constant"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_sgd(change: str, data: Dataset, seen: Seen) -> None:
    settings = replace(PRINTED, **CHANGES[change])
    found = train(network(), data, "standard", settings=settings).net
    rates = [0.05, 0.1, 0.1, 0.1] if change == "warm-up" else [0.1, 0.01, 0.001, 0.001]
    expected = network()
    velocity = [torch.zeros_like(p) for p in expected.parameters()]
    expected.train()
    for batch, rate in zip(seen.batches, rates, strict=True):
        slopes = list(torch.autograd.grad(ce(expected, batch.x, batch.labels), list(expected.parameters())))
        if settings.clip_norm:
            length = math.sqrt(sum(float(g.square().sum()) for g in slopes))
            assert length > settings.clip_norm
            slopes = [g * settings.clip_norm / (length + 1e-6) for g in slopes]
        if settings.clip_value:
            slopes = [g.clamp(-settings.clip_value, settings.clip_value) for g in slopes]
        sgd(expected, slopes, velocity, rate, settings)
    same(found, expected)


@pytest.mark.parametrize("method", ["adam", "adamw"])
def test_adam(method: str, data: Dataset, seen: Seen) -> None:
    """Kingma and Ba 2015; an l2 penalty enters the moments, decoupled decay (Loshchilov and Hutter 2019) does not."""
    settings = replace(PRINTED, epochs=3, optimizer=method, learning_rate=0.01, schedule="constant")
    found = train(network(), data, "standard", settings=settings).net
    expected = network()
    mean, square = ([torch.zeros_like(p) for p in expected.parameters()] for _ in range(2))
    expected.train()
    for t, batch in enumerate(seen.batches, 1):
        slopes = torch.autograd.grad(ce(expected, batch.x, batch.labels), list(expected.parameters()))
        with torch.no_grad():
            for k, (p, g) in enumerate(zip(expected.parameters(), slopes, strict=True)):
                if method == "adamw":
                    p *= 1 - 0.01 * settings.weight_decay
                else:
                    g = g + settings.weight_decay * p
                mean[k] = 0.9 * mean[k] + 0.1 * g
                square[k] = 0.999 * square[k] + 0.001 * g.square()
                p -= 0.01 * mean[k] / (1 - 0.9**t) / ((square[k] / (1 - 0.999**t)).sqrt() + 1e-8)
    torch.testing.assert_close(found[4].weight, expected[4].weight, rtol=0, atol=10 * BOUND)


def test_running_mean_of_the_weights(data: Dataset, seen: Seen) -> None:
    """Rebuffi et al. 2021: none for the first fortieth of the updates, then, counted from there, with decay
    (1 + k) / (10 + k) at most."""
    settings = replace(PLAIN, epochs=5, ema=0.3)
    found = train(network(), data, "standard", settings=settings).net
    expected = network()
    mean = [p.detach().clone() for p in expected.parameters()]
    expected.train()
    for number, batch in enumerate(seen.batches):
        slopes = torch.autograd.grad(ce(expected, batch.x, batch.labels), list(expected.parameters()))
        k = number - 0.025 * 5
        decay = min(0.3, (1 + k) / (10 + k)) if k >= 0 else 0.0
        with torch.no_grad():
            for i, (p, g) in enumerate(zip(expected.parameters(), slopes, strict=True)):
                p -= 0.1 * g
                mean[i] = decay * mean[i] + (1 - decay) * p
    for value, p in zip(mean, found.parameters(), strict=True):
        torch.testing.assert_close(p.detach(), value, rtol=0, atol=BOUND)
    torch.testing.assert_close(found[1].running_mean, expected[1].running_mean, rtol=0, atol=BOUND)


def test_mixed_images_have_the_loss_of_both_labels(data: Dataset, seen: Seen) -> None:
    """CutMix as its authors compute it: the share of the own label's loss, and the rest of the other's."""
    found = train(network(), data, "avg", TWO, settings=replace(PLAIN, cutmix=1.0)).net
    (batch,), expected = seen.batches, network()
    assert batch.mixed is not None
    share, own = batch.mixed.max(1)
    other = (batch.mixed - F.one_hot(own, 10) * share[:, None]).argmax(1)
    expected.train()
    loss = torch.zeros(())
    for name in TWO:
        logits = expected(example(batch.x, name))
        each = (F.cross_entropy(logits, y, reduction="none") for y in (own, other))
        loss = loss + (share * next(each) + (1 - share) * next(each)).mean() / 2
    slopes = torch.autograd.grad(loss, list(expected.parameters()))
    sgd(expected, list(slopes), [torch.zeros_like(g) for g in slopes], 0.1, PLAIN)
    same(found, expected)
