"""Backward passes that do not belong to their forward passes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.models.broken.defense import Behind, BrokenDefense, digits, inner


class _Falsified(torch.autograd.Function):
    """The identity; its gradient is multiplied by what is given, whatever that is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


def _falsified(x: Tensor, kind: str) -> Tensor:
    """The pixels, with a false backward. ``"zero"``; ``"random"``: signs that depend on the pixels; ``"bright"``:
    turned round for the brighter samples; ``"half"``: turned round in the left half of each image."""
    pixels = x.detach()
    if kind == "zero":
        factor = torch.zeros_like(pixels)
    elif kind == "random":
        factor = torch.where((pixels * 7919 + torch.arange(64).view(1, 1, 8, 8) * 0.37).sin() > 0, 1.0, -1.0)
    elif kind == "bright":
        factor = torch.where(pixels.mean((1, 2, 3), keepdim=True) > 0.3, -1.0, 1.0)
    else:
        factor = torch.where(torch.arange(8) < 4, -1.0, 1.0).expand_as(pixels)
    falsified: Tensor = _Falsified.apply(x, factor)  # type: ignore[no-untyped-call]
    return falsified


class DetachedBranch(nn.Module):
    """Two networks added up, of which the one that decides is detached: a gradient leaks through the weak one."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.other = digits(), digits("l2")

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.net(x.detach()) + 0.02 * self.other(1 - x)
        return outputs


def _clipped() -> nn.Module:
    """Behind a ReLU on its pixels, which changes none of them and has no gradient where they are 0."""
    return Behind(torch.relu, net=digits("linf"))


def _lying(kind: str) -> Callable[[], nn.Module]:
    return lambda: Behind(partial(_falsified, kind=kind))


_ADAPTIVE = "replace the backward by that of the network itself"
_OBFUSCATED = "Athalye, Carlini and Wagner 2018 (obfuscated gradients)"

LYING = (
    BrokenDefense("zero-backward", _lying("zero"), "no gradient arrives", _OBFUSCATED, _ADAPTIVE, inner),
    BrokenDefense(
        "random-backward",
        _lying("random"),
        "the gradient has the signs of a hash of the pixels",
        _OBFUSCATED,
        _ADAPTIVE,
        inner,
    ),
    BrokenDefense(
        "lies-for-some",
        _lying("bright"),
        "the gradient of brighter images points downhill",
        _OBFUSCATED,
        _ADAPTIVE,
        inner,
    ),
    BrokenDefense(
        "lies-in-part",
        _lying("half"),
        "the gradient of one half of each image points downhill",
        _OBFUSCATED,
        _ADAPTIVE,
        inner,
    ),
    BrokenDefense(
        "detached-branch",
        DetachedBranch,
        "a branch that does not matter carries the only gradient",
        "Carlini 2020 (a partial attack on a defense with a detached part)",
        _ADAPTIVE,
        inner,
    ),
    BrokenDefense(
        "clipped", _clipped, "pixels that are 0 have no gradient, and most are 0", _OBFUSCATED, _ADAPTIVE, inner
    ),
)
