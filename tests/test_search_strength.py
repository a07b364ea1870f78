"""The default is at least as strong as any attack of its norm that takes no more passes, and as any of its own runs, on
networks of four kinds; and it takes no more passes of a sample than its rule allows."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.definition import Attack, AttackRun
from robustatlas.attacks.search.rules import MostPasses
from robustatlas.models.architectures import resnet32
from robustatlas.models.classifier.randomness import seeded
from robustatlas.models.weights import load_weights
from robustatlas.optimizers.apgd_l1 import APGDL1

IMAGES = 100
STRENGTHS = {
    "linf": [round(0.01 * k, 2) for k in range(1, 21)],
    "l2": [round(0.05 * k, 2) for k in range(1, 21)],
    "elastic": [round(0.05 * k, 2) for k in range(1, 21)],
}


class Residual(nn.Module):
    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.first, self.head = nn.Conv2d(1, width, 3, 2, 1), nn.Linear(width * 16, 10)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, 1, 1) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.first(x))
        for block in self.blocks:
            x = x + functional.relu(block(x))
        out: Tensor = self.head(x.flatten(1))
        return out


class Attention(nn.Module):
    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.patches, self.head = nn.Conv2d(1, width, 2, stride=2), nn.Linear(width, 10)
        self.places = nn.Parameter(0.1 * torch.randn(1, 16, width))
        self.look, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.places
        query, key, value = self.look(tokens).chunk(3, -1)
        tokens = tokens + functional.gelu(self.out(functional.scaled_dot_product_attention(query, key, value)))
        out: Tensor = self.head(tokens.mean(1))
        return out


def convolutional() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 12, 3, 2, 1), nn.GELU(), nn.Conv2d(12, 24, 3, 2, 1), nn.GELU(), nn.Flatten(),
                         nn.Linear(96, 10))  # fmt: skip


def fully_connected() -> nn.Module:
    hidden = [layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(64, 10))


def squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    return 10 * functional.mse_loss(logits, functional.one_hot(labels, 10).to(logits))


KINDS: dict[str, tuple[Callable[[], nn.Module], Callable[[Tensor, Tensor], Tensor]]] = {
    "convolutional": (convolutional, functional.cross_entropy),
    "residual": (Residual, functional.cross_entropy),
    "attention": (Attention, functional.cross_entropy),
    "fully connected": (fully_connected, squared_error),
}


@cache
def trained(kind: str) -> ra.Classifier:
    """A network of that kind, trained on the digits for a second."""
    make, loss = KINDS[kind]
    data = ra.load_dataset("digits", "train")
    images, labels = data.images[torch.arange(len(data))], data.labels
    with seeded(0):
        net = make()
        optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
        for _ in range(20):
            for rows in torch.randperm(len(images)).split(64):
                optimizer.zero_grad()
                loss(net(images[rows]), labels[rows]).backward()
                optimizer.step()
    return ra.Classifier(net.eval(), name=kind)


def rivals(norm: str, passes: float) -> list[str]:
    """Published attacks in the same set whose runs at one strength take no more passes than that."""
    threat = attack_named(norm).threat
    return [
        name
        for name, attack in catalogue().items()
        if name != norm and attack.threat == threat and "descent" in attack.searches
        and all(run.count * run.maximal_passes() <= passes for run in attack.plan("descent").runs)
    ]  # fmt: skip


def alone(attack: Attack) -> Iterator[Attack]:
    """The attack by each run that needs no other's example to begin."""
    plan = attack.plan("descent")
    for run in plan.runs_in("bound", "ascend"):
        yield replace(attack, runs=(run,), search_order=("descent",))


def accuracies(kind: str, attack: Attack, strengths: list[float]) -> tuple[np.ndarray, float]:
    """Robust accuracies by the descent, and passes a sample."""
    data, name = ra.load_dataset("digits").take(IMAGES), attack.name
    result = ra.evaluate(
        trained(kind), data, attack, strengths={name: strengths}, search="descent", diagnose=False, progress=False
    )
    return result.outcome(name).accuracies(), sum(result.passes(name))


@pytest.mark.parametrize(
    ("name", "kind"),
    [*(("linf", kind) for kind in KINDS), *((name, "fully connected") for name in ("l2", "elastic")),
     ("l2", "attention"), ("elastic", "residual")],
)  # fmt: skip
def test_no_part_that_takes_no_more_passes_is_stronger_than_the_default(name: str, kind: str) -> None:
    attack, strengths = attack_named(name), STRENGTHS[name]
    default, passes = accuracies(kind, attack, strengths)
    assert default[0] > 50 and default[-1] < 50, "the strengths show the whole curve"
    held = []
    others = [attack_named(rival) for rival in rivals(name, 2 * passes)]  # many runs end before their last step
    for rival in (*others, *alone(attack)):
        theirs, cost = accuracies(kind, rival, strengths)
        if cost <= passes:
            held.append(rival)
            assert default.mean() <= theirs.mean(), (rival.runs, cost)
            assert (default <= theirs + 100 / IMAGES).all(), (rival.runs, default - theirs)
    assert held


def test_jpeg_in_l1_finds_what_auto_pgd_finds_from_random_starts() -> None:
    folder = Path(os.environ.get("ROBUSTATLAS_MODELS", ""))
    weights = folder / "cifar10_resnet32_recoloradv_stadv_delta.safetensors"
    if not weights.is_file() or "ROBUSTATLAS_DATA" not in os.environ:
        pytest.skip("ROBUSTATLAS_MODELS and ROBUSTATLAS_DATA do not name folders with these weights and images")
    net, mean, std = resnet32()
    load_weights(net, weights)
    model, data = ra.Classifier(net.eval(), mean, std), ra.load_dataset("cifar10").take(10)
    attack, strengths = attack_named("jpeg-l1"), {"jpeg-l1": [5.0, 10.0, 15.0, 20.0]}
    alone = replace(attack, runs=(AttackRun(APGDL1(steps=60, schedule=((1.0, 1.0),)), "margin", targets="distance"),))
    ours, theirs = (
        ra.evaluate(model, data, each, strengths=strengths, diagnose=False, progress=False).outcome("jpeg-l1")
        for each in (attack, alone)
    )
    assert (ours.accuracies() <= theirs.accuracies()).all()


@pytest.mark.parametrize("name", ["linf", "l1", "elastic", "affine"])
def test_no_sample_of_a_stubborn_network_takes_more_passes_than_the_rule_allows(name: str) -> None:
    data = ra.load_dataset("digits").take(40)
    usual, least = attack_named(name), MostPasses(300)
    rules = tuple(least if isinstance(rule, MostPasses) else rule for rule in usual.rules)
    fewer = replace(usual, rules=rules)
    assert least in fewer.plan("descent").rules and MostPasses() in usual.plan("descent").rules
    for attack, most in ((usual, MostPasses().passes), (fewer, least.passes)):
        outcome = ra.evaluate(trained("fully connected"), data, attack, diagnose=False, progress=False).outcome(name)
        spent = outcome.forward + outcome.backward
        assert spent.max() <= most, attack.runs
    assert spent.max() > least.passes / 2
