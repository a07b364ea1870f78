"""Defenses whose backward pass does not belong to their forward pass.

Athalye, Carlini and Wagner 2018 call them obfuscated gradients. An adaptive attack replaces the backward pass by that
of the network itself. ``arguments={"attacked": True}`` gives the network as that attack sees it.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

import robustatlas as ra
from digits_networks import Wrapped, attackable, shipped_network

Model = nn.Module | ra.Classifier


class FalseGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


def _gradient_factor(pixels: Tensor, kind: str) -> Tensor:
    if kind == "zero":
        return torch.zeros_like(pixels)
    if kind == "random":
        return torch.where((pixels * 7919 + torch.arange(64).view(1, 1, 8, 8) * 0.37).sin() > 0, 1.0, -1.0)
    if kind == "bright":
        return torch.where(pixels.mean((1, 2, 3), keepdim=True) > 0.3, -1.0, 1.0)
    return torch.where(torch.arange(8) < 4, -1.0, 1.0).expand_as(pixels)


def _falsify(x: Tensor, kind: str) -> Tensor:
    falsified: Tensor = FalseGradient.apply(x, _gradient_factor(x.detach(), kind))  # type: ignore[no-untyped-call]
    return falsified


def _defense(kind: str, attacked: bool) -> Model:
    net = shipped_network()
    return attackable(Wrapped(partial(_falsify, kind=kind), net=net), net, attacked)


def zero_gradient(attacked: bool = False) -> Model:
    """No gradient arrives at the pixels."""
    return _defense("zero", attacked)


def random_signs(attacked: bool = False) -> Model:
    """The gradient has the signs of a hash of the pixels."""
    return _defense("random", attacked)


def reversed_for_bright_images(attacked: bool = False) -> Model:
    """The gradient of brighter images points downhill."""
    return _defense("bright", attacked)


def reversed_in_left_half(attacked: bool = False) -> Model:
    """The gradient of the left half of each image points downhill."""
    return _defense("half", attacked)


class DetachedBranch(nn.Module):
    """The sum of two networks, of which the one that decides is detached."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.other = shipped_network(), shipped_network("l2")

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.net(x.detach()) + 0.02 * self.other(1 - x)
        return outputs


def detached_branch(attacked: bool = False) -> Model:
    """A branch that does not matter carries the only gradient (Carlini 2020, a partial attack on such a defense)."""
    defense = DetachedBranch()
    return attackable(defense, defense.net, attacked)


def relu_on_pixels(attacked: bool = False) -> Model:
    """A ReLU on the pixels changes none of them, but has no gradient where they are 0, as most are."""
    net = shipped_network("linf")
    return attackable(Wrapped(torch.relu, net=net), net, attacked)
