"""Defenses whose outputs jump or wave at a scale that a gradient does not see past.

``arguments={"attacked": True}`` gives the network as an adaptive attack sees it: with the gradient that it has
without its jumps and waves.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

import robustatlas as ra
from digits_networks import Wrapped, attackable, shipped_network, trained_network
from robustatlas.models.architectures import digits_cnn

Model = nn.Module | ra.Classifier


class WinnersTakeAll(nn.Module):
    """Keep the largest tenth of a layer, and set the other values to zero."""

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
    """A ReLU with teeth: between its jumps the slope points the other way."""

    def forward(self, x: Tensor) -> Tensor:
        teeth = x / 0.05
        return x.relu() - 0.1 * (teeth - teeth.detach().floor())


def _with_activation(net: nn.Sequential, activation: Callable[[], nn.Module]) -> nn.Sequential:
    """Return the network with another activation in place of its first two, and the same weights."""
    layers = list(net)
    layers[1], layers[3] = activation(), activation()
    return nn.Sequential(*layers)


def _train_network(activation: Callable[[], nn.Module], seed: int) -> nn.Sequential:
    net = trained_network(seed, lambda: _with_activation(digits_cnn(), activation))
    assert isinstance(net, nn.Sequential)
    return net


def k_winners() -> Model:
    """Keep the k largest units of each layer; they change from step to step (Xiao et al. 2020, k-winners-take-all).

    Tramèr et al. 2020 attack it with gradients averaged over a neighbourhood, by antithetic finite differences. No
    function has that gradient, so this defense takes no `attacked`.
    """
    return _train_network(WinnersTakeAll, 21)


def jumping_activation(attacked: bool = False) -> Model:
    """Activations jump at zero, and a gradient does not see jumps (selfstudy-adversarial-robustness, jump).

    The adaptive attack goes back through the activation without its jump.
    """
    net = _train_network(Jump, 22)
    return attackable(net, _with_activation(net, lambda: nn.LeakyReLU(0.5)), attacked)


def sawtooth_activation(attacked: bool = False) -> Model:
    """Between its teeth the activation falls where it rises as a whole (Athalye, Carlini and Wagner 2018).

    The adaptive attack goes back through the activation without its teeth.
    """
    net = _train_network(Sawtooth, 23)
    return attackable(net, _with_activation(net, nn.ReLU), attacked)


def _add_wave(x: Tensor) -> Tensor:
    return x + 0.01 * (2 * math.pi * x / 0.004).sin()


def wave_on_pixels(attacked: bool = False) -> Model:
    """A steep wave on the pixels, small in height, has a gradient of its own (Athalye, Carlini and Wagner 2018).

    The adaptive attack goes back as if there were no wave.
    """
    net = shipped_network()
    return attackable(Wrapped(_add_wave, net=net), net, attacked)


def _add_keyed_noise(x: Tensor) -> Tensor:
    phase = x.detach().flatten(1).mul(torch.arange(1, 65) * 977.0).sum(1, keepdim=True)
    waves = (phase * torch.arange(1, 65)).sin().view_as(x)
    return x + 0.1 * waves + 0.1 * (waves * 1e3 * x).sin()


def keyed_noise(attacked: bool = False) -> Model:
    """Noise is a hash of the pixels: it changes with each step of an attack and repeats at each call.

    No check for randomness sees it. The adaptive attack goes back as if there were no noise (Athalye, Carlini and
    Wagner 2018).
    """
    net = shipped_network()
    return attackable(Wrapped(_add_keyed_noise, net=net), net, attacked)
