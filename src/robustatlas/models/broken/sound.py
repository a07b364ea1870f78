"""Sound networks beside the broken ones: of several architectures, activations and trainings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.models.architectures import digits_cnn
from robustatlas.models.broken.defense import Behind, digits, fitted


def perceptron(activation: Callable[[], nn.Module]) -> nn.Module:
    """Two hidden layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 96), activation(), nn.Linear(96, 96), activation(), nn.Linear(96, 10)
    )


def convolutional(activation: Callable[[], nn.Module], pool: nn.Module, normalised: bool = False) -> nn.Module:
    """Two convolutions, a pooling layer and a linear one."""
    first = [nn.Conv2d(1, 16, 3, padding=1), *([nn.BatchNorm2d(16)] if normalised else []), activation()]
    second = [nn.Conv2d(16, 24, 3, padding=1), *([nn.BatchNorm2d(24)] if normalised else []), activation()]
    return nn.Sequential(*first, *second, pool, nn.Flatten(), nn.Linear(24 * 16, 10))


class Residual(nn.Module):
    """Two residual blocks of convolutions, and the mean over the pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 24, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Conv2d(24, 24, 3, padding=1) for _ in range(4)])
        self.last = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for one, two in zip(self.blocks[::2], self.blocks[1::2], strict=True):
            x = x + two(one(x.relu()).relu())
        logits: Tensor = self.last(x.relu().mean((2, 3)))
        return logits


class Patches(nn.Module):
    """One layer of attention over 16 patches of 2x2 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.embedded = nn.Conv2d(1, 32, 2, stride=2)
        self.places = nn.Parameter(0.1 * torch.randn(1, 16, 32))
        self.queries, self.mixed = nn.Linear(32, 96), nn.Linear(32, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embedded(x).flatten(2).transpose(1, 2) + self.places
        query, key, value = self.queries(tokens).chunk(3, 2)
        tokens = tokens + F.scaled_dot_product_attention(query, key, value)
        logits: Tensor = self.last(F.gelu(self.mixed(tokens)).mean(1))
        return logits


def _blurred() -> nn.Module:
    """A network of blurred images, which is differentiable and honest."""
    return Behind(_blur, net=digits_cnn())


def _blur(x: Tensor) -> Tensor:
    return F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def _fitted(seed: int, make: Callable[[], nn.Module], transformed: Callable[[Tensor], Tensor] = lambda x: x) -> Made:
    return cache(lambda: fitted(seed, make, transformed))


Made = Callable[[], nn.Module]

SOUND: Mapping[str, Made] = {
    "standard": partial(digits, "standard"),
    "linf": partial(digits, "linf"),
    "l2": partial(digits, "l2"),
    "cnn": _fitted(51, digits_cnn),
    "noise-augmented": _fitted(52, digits_cnn, lambda x: x + 0.2 * torch.randn_like(x)),
    "perceptron": _fitted(53, partial(perceptron, nn.ReLU)),
    "perceptron-tanh": _fitted(54, partial(perceptron, nn.Tanh)),
    "max-pooled": _fitted(55, partial(convolutional, nn.ReLU, nn.MaxPool2d(2))),
    "batch-normalised": _fitted(56, partial(convolutional, nn.SiLU, nn.AvgPool2d(2), True)),
    "softplus": _fitted(57, partial(convolutional, nn.Softplus, nn.AvgPool2d(2))),
    "residual": _fitted(58, Residual),
    "attention": _fitted(59, Patches),
    "blurred": _fitted(60, _blurred),
}
"""Name behind ``sound:`` -> what makes it, the same each time."""
