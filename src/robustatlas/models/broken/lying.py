"""Backward passes that do not belong to their forward passes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.models.broken.defense import BrokenDefense, Net, digits


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


class Falsified(nn.Module):
    """A network behind an identity whose backward is false: ``"zero"``, ``"random"`` (signs that depend on the pixels),
    ``"bright"`` (turned round for the half of the samples that are brighter) or ``"half"`` (turned round for the left
    half of each image)."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.net = kind, digits()

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the network, unchanged."""
        outputs: Tensor = self.net(_Falsified.apply(x, self._factor(x.detach())))  # type: ignore[no-untyped-call]
        return outputs

    def _factor(self, x: Tensor) -> Tensor:
        if self.kind == "zero":
            return torch.zeros_like(x)
        if self.kind == "random":
            return torch.where((x * 7919 + torch.arange(64).view(1, 1, 8, 8) * 0.37).sin() > 0, 1.0, -1.0)
        if self.kind == "bright":
            return torch.where(x.mean((1, 2, 3), keepdim=True) > 0.3, -1.0, 1.0)
        left = torch.where(torch.arange(8) < 4, -1.0, 1.0)
        return left.expand_as(x)


class DetachedBranch(nn.Module):
    """Two networks added up, of which the one that decides is detached: a gradient leaks through the weak one."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.other = digits(), digits("l2")

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 10]."""
        outputs: Tensor = self.net(x.detach()) + 0.02 * self.other(1 - x)
        return outputs


class Clipped(nn.Module):
    """A network behind a ReLU on its pixels, which changes none of them and has no gradient where they are 0."""

    def __init__(self) -> None:
        super().__init__()
        self.net = digits("linf")

    def forward(self, x: Tensor) -> Tensor:
        """Outputs of the network, unchanged."""
        outputs: Tensor = self.net(x.relu())
        return outputs


def _plain(net: nn.Module) -> Net:
    plain = net.net
    assert isinstance(plain, nn.Module)
    return plain


_ADAPTIVE = "replace the backward by that of the network itself"
_OBFUSCATED = "Athalye, Carlini and Wagner 2018 (obfuscated gradients)"

LYING = (
    BrokenDefense("zero-backward", lambda: Falsified("zero"), "no gradient arrives", _OBFUSCATED, _ADAPTIVE, _plain),
    BrokenDefense(
        "random-backward",
        lambda: Falsified("random"),
        "the gradient has the signs of a hash of the pixels",
        _OBFUSCATED,
        _ADAPTIVE,
        _plain,
    ),
    BrokenDefense(
        "lies-for-some",
        lambda: Falsified("bright"),
        "the gradient of brighter images points downhill",
        _OBFUSCATED,
        _ADAPTIVE,
        _plain,
    ),
    BrokenDefense(
        "lies-in-part",
        lambda: Falsified("half"),
        "the gradient of one half of each image points downhill",
        _OBFUSCATED,
        _ADAPTIVE,
        _plain,
    ),
    BrokenDefense(
        "detached-branch",
        DetachedBranch,
        "a branch that does not matter carries the only gradient",
        "Carlini 2020 (a partial attack on a defense with a detached part)",
        _ADAPTIVE,
        _plain,
    ),
    BrokenDefense(
        "clipped", Clipped, "pixels that are 0 have no gradient, and most are 0", _OBFUSCATED, _ADAPTIVE, _plain
    ),
)
