"""AutoAttack's flags that are not read of every model anyway."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured

_TARGETS = 9


class SquareLowers(Indicator):
    """Whether Square breaks what all attacks by gradients left standing, at any strength asked for."""

    name = "square-lowers"
    part = "published"
    decides = False
    needs = "scores"
    threshold = 0.002
    means = "Square lowers the robust accuracy"
    remedy = "None: as published, .2 points, a single sample of 60 is a flag"
    source = "AutoAttack's flags (Croce et al.)"
    limit = "broken by Square alone"

    def measure(self, look: LookedAt) -> Measured:
        found = look.searched
        square = [sizes for kind, sizes in found.sizes.items() if kind.startswith("square-")]
        if not square:
            return Measured.of(torch.zeros_like(look.margin), look.labels < 0, look.labels < 0)
        alone = (square[0] <= found.strength) & (found.white_box() > found.strength)
        return Measured.of(square[0].clamp_max(1e6), alone)


class GradientInForward(Indicator):
    """Whether a forward pass takes gradients itself: a defense that optimises at test time."""

    name = "gradient-in-forward"
    part = "full"
    needs = "scores"
    means = "the forward pass takes gradients itself"
    remedy = "A defense that optimises at test time needs an attack made for it: keep its own gradients differentiable"
    code = "(slope,) = torch.autograd.grad(loss, x, create_graph=True)"
    source = "AutoAttack's flags (Croce et al.)"
    limit = "torch.autograd.grad or backward is called"

    def measure(self, look: LookedAt) -> Measured:
        calls: list[int] = []
        with _told_of_gradients(calls), torch.enable_grad():
            look.logits(look.x)
        values = torch.full_like(look.margin, float(len(calls)))
        return Measured.of(values, values > 0)


@contextmanager
def _told_of_gradients(calls: list[int]) -> Iterator[None]:
    grad, backward = torch.autograd.grad, torch.autograd.backward

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            return function(*args, **kwargs)

        return call

    torch.autograd.grad, torch.autograd.backward = watched(grad), watched(backward)
    try:
        yield
    finally:
        torch.autograd.grad, torch.autograd.backward = grad, backward


class FewClasses(Indicator):
    """Whether there are too few classes for AutoAttack's own losses and targets."""

    name = "few-classes"
    part = "published"
    decides = False
    needs = "scores"
    means = "there are fewer classes than AutoAttack's targeted attacks take"
    remedy = "None: attacks of this package take as many targets as there are"
    source = "AutoAttack's flags (Croce et al.)"
    limit = f"fewer than {_TARGETS + 1} classes"

    def measure(self, look: LookedAt) -> Measured:
        values = torch.full_like(look.margin, float(look.clean.shape[1]))
        return Measured.of(values, values < _TARGETS + 1)
