"""The default is at least as strong as any attack of its norm that takes no more passes, on networks of four kinds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named, catalogue
from robustatlas.attacks.passes import passes_of_a_run
from robustatlas.classifier.randomness import seeded

IMAGES, STRENGTHS = 100, [round(0.005 * k, 3) for k in range(1, 41)]


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
    """Published attacks in the same set of which one run takes no more passes than that."""
    threat = attack_named(norm).threat
    return [
        name
        for name, attack in catalogue().items()
        if name != norm and attack.threat == threat and "descent" in attack.plans
        and all(passes_of_a_run(leg) <= passes for leg in attack.plans["descent"].legs)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_no_part_that_takes_no_more_passes_is_stronger_than_the_default(kind: str) -> None:
    model, data, norm = trained(kind), ra.load_dataset("digits").take(IMAGES), "linf"

    def accuracies(attack: str) -> tuple[np.ndarray, float]:
        result = ra.evaluate(model, data, attack, strengths={attack: STRENGTHS}, search="descent", progress=False)
        return result.outcome(attack).accuracies(), sum(result.passes(attack))

    default, passes = accuracies(norm)
    assert default[0] > 50 and default[-1] < 40, "the strengths show the whole curve"
    held = []
    for rival in rivals(norm, 2 * passes):  # many runs end before their last step
        theirs, cost = accuracies(rival)
        if cost <= passes:
            held.append(rival)
            assert default.mean() <= theirs.mean(), (rival, cost)
            assert (default <= theirs + 100 / IMAGES).all(), (rival, default - theirs)
    assert held
