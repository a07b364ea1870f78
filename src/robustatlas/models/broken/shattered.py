"""Outputs that jump or wave at a scale that a gradient does not see past."""

import math
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from robustatlas.models.architectures import digits_cnn
from robustatlas.models.broken.defense import Behind, BrokenDefense, Net, fitted, inner


class WinnersTakeAll(nn.Module):
    """Keeps the largest tenth of a layer, and sets the others to zero."""

    def __init__(self, share: float = 0.1) -> None:
        super().__init__()
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        values = x.flatten(1)
        least = values.topk(max(1, int(self.share * values.shape[1])), dim=1).values[:, -1:]
        return torch.where(values >= least, values, 0).view_as(x)


class Jump(nn.Module):
    """A leaky ReLU that jumps at zero."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.leaky_relu(x, 0.1) + 2 * (x > 0)


class Sawtooth(nn.Module):
    """A ReLU with teeth: the slope between jumps points the other way."""

    def forward(self, x: Tensor) -> Tensor:
        teeth = x / 0.05
        return x.relu() - 0.1 * (teeth - teeth.detach().floor())


def _waved(x: Tensor) -> Tensor:
    """A wave on each pixel, small in height and steep."""
    return x + 0.01 * (2 * math.pi * x / 0.004).sin()


def _keyed(x: Tensor) -> Tensor:
    """Noise that is a hash of the pixels: the same for the same image, another one beside it."""
    phase = x.detach().flatten(1).mul(torch.arange(1, 65) * 977.0).sum(1, keepdim=True)
    waves = (phase * torch.arange(1, 65)).sin().view_as(x)
    return x + 0.1 * waves + 0.1 * (waves * 1e3 * x).sin()


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
        lambda: Behind(_waved),
        "a steep wave on the pixels has a gradient of its own",
        "Athalye, Carlini and Wagner 2018 (shattered gradients)",
        "go back as if there were no wave",
        inner,
    ),
    BrokenDefense(
        "keyed-noise",
        lambda: Behind(_keyed),
        "noise that depends on the pixels changes with each step, and repeats at each call",
        "Athalye, Carlini and Wagner 2018; no check for randomness sees it",
        "go back as if there were no noise",
        inner,
    ),
)
