"""Outputs that jump or wave at a scale that a gradient does not see past."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from robustatlas.models.architectures import digits_cnn
from robustatlas.models.broken.defense import BrokenDefense, Net, digits
from robustatlas.models.broken.fitting import fitted


class WinnersTakeAll(nn.Module):
    """Keeps the largest tenth of a layer, and sets the others to zero."""

    def __init__(self, share: float = 0.1) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """As large as ``x`` [B, ...]."""
        values = x.flatten(1)
        least = values.topk(max(1, int(self.share * values.shape[1])), dim=1).values[:, -1:]
        return torch.where(values >= least, values, 0).view_as(x)


class Jump(nn.Module):
    """A leaky ReLU that jumps at zero."""

    def forward(self, x: Tensor) -> Tensor:
        """As large as ``x``."""
        return nn.functional.leaky_relu(x, 0.1) + 2 * (x > 0)


class Sawtooth(nn.Module):
    """A ReLU with teeth: the slope between jumps points the other way."""

    def forward(self, x: Tensor) -> Tensor:
        """As large as ``x``."""
        teeth = x / 0.05
        return x.relu() - 0.1 * (teeth - teeth.detach().floor())


class Wave(nn.Module):
    """A wave on each pixel, small in height and steep."""

    def __init__(self) -> None:
        super().__init__()
        self.net = digits()

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 10]."""
        outputs: Tensor = self.net(x + 0.01 * (2 * math.pi * x / 0.004).sin())
        return outputs


class KeyedNoise(nn.Module):
    """Noise that is a hash of the pixels: the same for the same image, another one beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.net = digits()

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 10]."""
        phase = x.detach().flatten(1).mul(torch.arange(1, 65) * 977.0).sum(1, keepdim=True)
        waves = (phase * torch.arange(1, 65)).sin().view_as(x)
        outputs: Tensor = self.net(x + 0.1 * waves + 0.1 * (waves * 1e3 * x).sin())
        return outputs


def _trained(activation: Callable[[], nn.Module], seed: int) -> Callable[[], nn.Module]:
    """A network trained with this activation in place of its first two."""

    def fresh() -> nn.Module:
        layers = list(digits_cnn())
        layers[1], layers[3] = activation(), activation()
        return nn.Sequential(*layers)

    return cache(lambda: fitted(seed, fresh))


def _with(activation: Callable[[], nn.Module]) -> Callable[[nn.Module], Net]:
    """The same weights with another activation."""

    def exposed(net: nn.Module) -> Net:
        assert isinstance(net, nn.Sequential)
        layers = list(net)
        layers[1], layers[3] = activation(), activation()
        return nn.Sequential(*layers)

    return exposed


def _net(net: nn.Module) -> Net:
    inner = net.net
    assert isinstance(inner, nn.Module)
    return inner


_SELF_STUDY = "selfstudy-adversarial-robustness"

SHATTERED = (
    BrokenDefense(
        "k-winners",
        _trained(WinnersTakeAll, 21),
        "which units are kept changes from step to step",
        "Xiao et al. 2020 (k-winners-take-all); Tramèr et al. 2020",
        "gradients averaged over a neighbourhood, by antithetic finite differences",
    ),
    BrokenDefense(
        "jump",
        _trained(Jump, 22),
        "activations jump at zero, and a gradient does not see jumps",
        f"{_SELF_STUDY} (jump)",
        "go back through the activation without its jump",
        _with(lambda: nn.LeakyReLU(0.5)),
    ),
    BrokenDefense(
        "sawtooth",
        _trained(Sawtooth, 23),
        "between its teeth the activation falls where it rises as a whole",
        "Athalye, Carlini and Wagner 2018 (shattered gradients)",
        "go back through the activation without its teeth",
        _with(nn.ReLU),
    ),
    BrokenDefense(
        "wave",
        Wave,
        "a steep wave on the pixels has a gradient of its own",
        "Athalye, Carlini and Wagner 2018 (shattered gradients)",
        "go back as if there were no wave",
        _net,
    ),
    BrokenDefense(
        "keyed-noise",
        KeyedNoise,
        "noise that depends on the pixels changes with each step, and repeats at each call",
        "Athalye, Carlini and Wagner 2018; no check for randomness sees it",
        "go back as if there were no noise",
        _net,
    ),
)
