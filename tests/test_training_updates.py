"""Updates of the trainer made again by hand: the public codes' loops in plain torch, on the same batches and examples.

What a recipe crafts is another matter (test_training_recipes): here every attack gives a fixed function of the image.
"""

import copy
import math
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustatlas as ra
from robustatlas.data import Dataset
from robustatlas.training import RECIPES, recipe_named, train
from robustatlas.training.recipes.base import Batch, Memory
from training_loops import BOUND, PLAIN, PRINTED, RATES, Rule, Seen, ce, example, followed, same, seen, sgd

__all__ = ["seen"]


@pytest.fixture(scope="module")
def data() -> Dataset:
    return ra.load_dataset("digits", "train").take(24)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 10)
    )  # fmt: skip


# --- the losses, as the public codes compute them, forward passes in their order


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


def perturbed(net: nn.Module, b: Batch, _: list[str], loss: Rule, gamma: float, first: int = 1) -> Tensor:
    """AWP with a copy that looks for the move, so that running statistics see nothing of it (csdongxian/AWP)."""
    if b.epoch + 1 < first:
        return loss(net, b, [])
    copied = copy.deepcopy(net)
    slopes = torch.autograd.grad(loss(copied, b, []), list(copied.parameters()))
    with torch.no_grad():
        for p, g in zip(net.parameters(), slopes, strict=True):
            if p.dim() > 1:
                p += gamma * p.norm() / g.norm() * g
    return loss(net, b, [])


def trades_beyond(net: nn.Module, b: Batch, _: list[str]) -> Tensor:
    """TRADES as AWP has it: the examples first."""
    attacked, clean = net(example(b.x)), net(b.x)
    return F.cross_entropy(clean, b.labels) + 6 * kl(clean, attacked)


def manifold(net: nn.Module, b: Batch, _: list[str]) -> Tensor:
    """Three passes, and what goes into the ReLUs of the last two."""
    move, logits = 0.2 * b.noise.sign(*b.x.shape[1:]), net(b.x)
    into, outputs = zip(
        *((u, net[2:](u)) for u in (net[:2]((b.x + s * move).clamp(0, 1)) for s in (1, -1))), strict=True
    )
    flips = (torch.tanh(5 * into[0]) - torch.tanh(5 * into[1])).abs().mean() / 2
    return F.cross_entropy(logits, b.labels) + (outputs[0] - outputs[1]).square().sum(1).mean() + flips


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
    "awp": (partial(perturbed, loss=lambda net, b, _: ce(net, example(b.x), b.labels), gamma=0.01), ONE, {}),
    "awp on trades": (
        partial(perturbed, loss=trades_beyond, gamma=0.005, first=2),
        ONE,
        {"base": "trades", "gamma": 0.005, "first_epoch": 2},
    ),
    "manifold": (manifold, ONE, {}),
    "pat": (perceptual, {"lpips": 0.5}, {}),
    "variation": (varied, ONE, {}),
}


@pytest.mark.parametrize("name", RULES)
def test_updates_are_those_of_the_public_code(name: str, data: Dataset, seen: Seen) -> None:
    """Weights and running statistics after four epochs of three batches, whose rate falls."""
    rule, against, options = RULES[name]
    recipe = recipe_named(name.split(" ")[0], against, **options)
    found = train(network(), data, recipe, settings=PRINTED).net
    assert len(seen.batches) == 12 * recipe.updates
    expected = network()
    followed(expected, seen, PRINTED, [rate for rate in RATES for _ in range(recipe.updates)], rule)
    same(found, expected)
    asked = {attack for attacks in seen.attacks for attack in attacks}
    assert asked <= set(against or {})


BALLS = {"linf": 0.1, "l2": 1.0, "l1": 6.0}


def sized(name: str, x: Tensor, noise: Tensor) -> Tensor:
    """The image with the generator's noise, brought to the ball as MNG-AC does, and into [0, 1]."""
    epsilon, size = BALLS[name], noise.abs().flatten(1)
    if name == "linf":
        noise = noise.clamp(-epsilon, epsilon)
    elif name == "l1":
        ordered = size.sort(1, descending=True).values
        shrink = (ordered.cumsum(1) - epsilon) / torch.arange(1, ordered.shape[1] + 1)
        shrink = shrink.gather(1, (ordered > shrink).sum(1, keepdim=True) - 1).clamp_min(0).view(-1, 1, 1, 1)
        noise = noise.sign() * (noise.abs() - shrink).clamp_min(0)
    else:
        room, low, high = (
            torch.where(noise > 0, 1 - x, x).flatten(1),
            torch.zeros(len(x), 1),
            torch.full((len(x), 1), 1e3),
        )
        for _ in range(60):
            eta = (low + high) / 2
            far = torch.minimum(eta * size.detach(), room).norm(dim=1, keepdim=True) > epsilon
            low, high = torch.where(far, low, eta), torch.where(far, eta, high)
        full = (room < eta * size).detach()
        eta = ((epsilon**2 - (full * room**2).sum(1)) / (~full * size**2).sum(1)).sqrt()
        noise = eta.view(-1, 1, 1, 1) * noise
    return (x + noise).clamp(0, 1)


class Generated:
    """The loop of divyam3897/MNG_AC, whose generator has an optimizer of its own."""

    def __init__(self, first: Memory) -> None:
        leaky = nn.LeakyReLU(0.01)
        self.net = nn.Sequential(
            nn.Conv2d(1, 20, 1), leaky, nn.Conv2d(20, 20, 3), leaky, nn.Conv2d(20, 20, 1), leaky, nn.Conv2d(20, 1, 1)
        )  # fmt: skip
        for k in range(4):
            state = {name: first[f"generator.{k + 1}.{name}"] for name in ("weight", "bias")}
            self.net[2 * k].load_state_dict(state)
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)

    def augmented(self, b: Batch, attack: str, stream: int) -> Tensor:
        z = b.noise.child(len(BALLS)).child(stream).normal(1, 10, 10)
        return sized(attack, b.x, self.net(z) + z[..., 1:-1, 1:-1])

    def __call__(self, net: nn.Module, b: Batch, attacks: list[str]) -> Tensor:
        (attack,) = attacks
        x_adv, meta = example(b.x, attack), copy.deepcopy(net)
        weights = dict(meta.named_parameters())
        trial = ce(meta, self.augmented(b, attack, 0), b.labels)
        slopes = torch.autograd.grad(trial, list(weights.values()), create_graph=True)
        ahead = {name: p - b.learning_rate * g for (name, p), g in zip(weights.items(), slopes, strict=True)}
        self.optimizer.param_groups[0]["lr"] = b.learning_rate
        self.optimizer.zero_grad()
        F.cross_entropy(torch.func.functional_call(meta, ahead, (x_adv,)), b.labels).backward()
        self.optimizer.step()
        with torch.no_grad():
            x_aug = self.augmented(b, attack, 1)
        clean, augmented, attacked = net(b.x), net(x_aug), net(x_adv)
        p = [logits.softmax(1) for logits in (clean, attacked, augmented)]
        mean = (sum(p) / 3).clamp(1e-7, 1).log()
        return F.cross_entropy(attacked, b.labels) + 12 * sum(F.kl_div(mean, q, reduction="batchmean") for q in p) / 3


def test_generator_and_network_are_those_of_the_public_code(data: Dataset, seen: Seen) -> None:
    """MNG-AC: the generator's weights move with the network's, by momentum of their own."""
    found = train(network(), data, recipe_named("mng-ac", BALLS), settings=PRINTED).net
    assert {attack for attacks in seen.attacks for attack in attacks} == set(BALLS)
    expected, generated = network(), Generated(seen.memories[0])
    followed(expected, seen, PRINTED, RATES, generated)
    same(found, expected)
    for k in range(4):
        for name, value in generated.net[2 * k].named_parameters():
            kept = seen.memories[-1][f"generator.{k + 1}.{name}"]
            torch.testing.assert_close(kept, value.detach(), rtol=0, atol=BOUND)
            assert not torch.equal(kept, seen.memories[0][f"generator.{k + 1}.{name}"])


def test_recipes_that_are_followed() -> None:
    """Here, or where bounds and distances are what is minimised (test_training_updates_bounds)."""
    others = {"mng-ac", "mmr", "ibp", "crown-ibp", "kw"}
    assert {name.split(" ")[0] for name in RULES} | others == set(RECIPES)


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
    rates = [0.1 * min(1.0, k / 6) for k in range(1, 13)] if change == "warm-up" else RATES
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
