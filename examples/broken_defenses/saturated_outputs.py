"""Defenses whose outputs or hidden layers saturate: gradients vanish in float32, or losses do not see them.

An adaptive attack uses the logits before what saturates. ``arguments={"attacked": True}`` gives the network as that
attack sees it.
"""

import torch
from torch import Tensor, nn

import robustatlas as ra
from digits_networks import Function, Wrapped, attackable, shipped_network, trained_network

Model = nn.Module | ra.Classifier


def _defense(after: Function, attacked: bool) -> Model:
    net = shipped_network()
    return attackable(Wrapped(after=after, net=net), net, attacked)


def large_logits(attacked: bool = False) -> Model:
    """Logits a thousand times as large saturate the softmax (Papernot et al. 2016; Carlini and Wagner 2016)."""
    return _defense(lambda logits: 1000 * logits, attacked)


def tiny_logits(attacked: bool = False) -> Model:
    """Logits so small that losses are constant in float32 (Carlini and Wagner 2016)."""
    return _defense(lambda logits: 1e-12 * logits, attacked)


class Scale(nn.Module):
    """Multiply by a constant."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * x


def distillation(attacked: bool = False) -> Model:
    """Training ends with logits a hundred times as large (Papernot et al. 2016; Carlini and Wagner 2016)."""
    net = trained_network(31, epochs=60)
    return attackable(nn.Sequential(net, Scale(100.0)), net, attacked)


def double_softmax(attacked: bool = False) -> Model:
    """Probabilities of probabilities are flat (Zimmermann et al. 2022, several final softmaxes)."""
    return _defense(lambda logits: (50 * (10 * logits).softmax(1)).softmax(1), attacked)


def tanh_margins(attacked: bool = False) -> Model:
    """A tanh of the logits is exactly 1 where the network is sure (Athalye, Carlini and Wagner 2018)."""
    return _defense(lambda logits: (1.5 * (logits - logits.amax(1, keepdim=True).detach() + 2)).tanh(), attacked)


def _move_against_slope(logits: Tensor) -> Tensor:
    likely = (10 * logits).softmax(1).clamp(1e-12, 1 - 1e-7)
    return (likely - 0.5 * ((0.1 * likely.logit()).sigmoid() - 0.5)).clamp_min(0)


def reverse_sigmoid(attacked: bool = False) -> Model:
    """Probabilities are moved against their slope where the network is sure (Lee et al. 2019; Tramèr et al. 2020)."""
    return _defense(_move_against_slope, attacked)


class BinaryEnsemble(nn.Module):
    """The softmax of the sums, over three networks, of steep sigmoids of differences of logits."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList([shipped_network(), shipped_network("l2"), shipped_network("linf")])

    def forward(self, x: Tensor) -> Tensor:
        votes = torch.zeros(len(x), 10, dtype=x.dtype)
        for net in self.nets:
            logits = net(x)
            votes = votes + (20 * (logits[:, :, None] - logits[:, None])).sigmoid().sum(2)
        return votes.softmax(1)

    def mean_logits(self, x: Tensor) -> Tensor:
        return torch.stack([net(x) for net in self.nets]).mean(0)


def binary_ensemble(attacked: bool = False) -> Model:
    """Steep sigmoids of differences of logits saturate (selfstudy-adversarial-robustness, binary ensemble).

    The adaptive attack climbs the mean of the logits.
    """
    defense = BinaryEnsemble()
    return attackable(defense, defense.mean_logits, attacked)


class Steep(nn.Module):
    """A sigmoid of a thousand times its input: 0 or 1, and flat, nearly everywhere."""

    def forward(self, x: Tensor) -> Tensor:
        return (2000 * x).sigmoid() * x.detach().clamp_min(0)


def saturated_layers(attacked: bool = False) -> Model:
    """Hidden gates are flat in float32 (Athalye, Carlini and Wagner 2018, vanishing gradients).

    The adaptive attack goes back through ReLUs in their place.
    """
    net = shipped_network()
    return attackable(nn.Sequential(net[0], Steep(), net[2], Steep(), *list(net)[4:]), net, attacked)
