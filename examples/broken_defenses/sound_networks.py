"""Sound networks beside the broken defenses, of several architectures, activations and trainings.

Besides, ``builtin:digits-standard``, ``builtin:digits-linf`` and ``builtin:digits-l2`` are sound.
"""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from digits_networks import Wrapped, trained_network
from robustatlas.models.architectures import digits_cnn


class Perceptron(nn.Sequential):
    """Two hidden layers."""

    def __init__(self, activation: Callable[[], nn.Module]) -> None:
        super().__init__(
            nn.Flatten(), nn.Linear(64, 96), activation(), nn.Linear(96, 96), activation(), nn.Linear(96, 10)
        )


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


class Attention(nn.Module):
    """One layer of attention over 16 patches of 2x2 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, 32, 2, stride=2)
        self.positions = nn.Parameter(0.1 * torch.randn(1, 16, 32))
        self.queries, self.mix = nn.Linear(32, 96), nn.Linear(32, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2) + self.positions
        query, key, value = self.queries(tokens).chunk(3, 2)
        tokens = tokens + F.scaled_dot_product_attention(query, key, value)
        logits: Tensor = self.last(F.gelu(self.mix(tokens)).mean(1))
        return logits


def _convolutional(activation: Callable[[], nn.Module], pool: nn.Module, has_norm: bool = False) -> nn.Module:
    """Return two convolutions, a pooling layer and a linear one."""
    first = [nn.Conv2d(1, 16, 3, padding=1), *([nn.BatchNorm2d(16)] if has_norm else []), activation()]
    second = [nn.Conv2d(16, 24, 3, padding=1), *([nn.BatchNorm2d(24)] if has_norm else []), activation()]
    return nn.Sequential(*first, *second, pool, nn.Flatten(), nn.Linear(24 * 16, 10))


def _blur(x: Tensor) -> Tensor:
    return F.avg_pool2d(F.pad(x, (1, 1, 1, 1), mode="replicate"), 3, stride=1)


def cnn() -> nn.Module:
    return trained_network(51)


def noise_augmented() -> nn.Module:
    return trained_network(52, transform=lambda x: x + 0.2 * torch.randn_like(x))


def perceptron() -> nn.Module:
    return trained_network(53, partial(Perceptron, nn.ReLU))


def perceptron_tanh() -> nn.Module:
    return trained_network(54, partial(Perceptron, nn.Tanh))


def max_pooled() -> nn.Module:
    return trained_network(55, partial(_convolutional, nn.ReLU, nn.MaxPool2d(2)))


def batch_normalised() -> nn.Module:
    return trained_network(56, partial(_convolutional, nn.SiLU, nn.AvgPool2d(2), has_norm=True))


def softplus() -> nn.Module:
    return trained_network(57, partial(_convolutional, nn.Softplus, nn.AvgPool2d(2)))


def residual() -> nn.Module:
    return trained_network(58, Residual)


def attention() -> nn.Module:
    return trained_network(59, Attention)


def blurred() -> nn.Module:
    """A network of blurred images, which is differentiable and honest."""
    return trained_network(60, lambda: Wrapped(_blur, net=digits_cnn()))
