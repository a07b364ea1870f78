"""AutoAttack's flags that are not read of every model anyway."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement

_TARGETS = 9


class SquareLowers(Indicator):
    """Size of the smallest example of Square, beside those of all attacks by gradients."""

    name = "square-lowers"
    part = "published"
    decides = False
    needs = "scores"
    threshold = 0.002
    means = "Square lowers the robust accuracy"
    remedy = "None: as published, .2 points, a single sample of 60 is a flag"
    source = "AutoAttack's flags (Croce et al.)"
    limit = "broken by Square alone"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        found = samples.searched
        square = [sizes for kind, sizes in found.sizes.items() if kind.startswith("square-")]
        if not square:
            return Measurement.from_values(torch.zeros_like(samples.margin), samples.labels < 0, samples.labels < 0)
        alone = (square[0] <= found.strength) & (found.white_box() > found.strength)
        return Measurement.from_values(square[0].clamp_max(1e6), alone)


class GradientInForward(Indicator):
    """Number of gradients that a forward pass takes itself, as a defense does that optimises at test time."""

    name = "gradient-in-forward"
    part = "full"
    needs = "scores"
    means = "the forward pass takes gradients itself"
    remedy = "A defense that optimises at test time needs an attack made for it: keep its own gradients differentiable"
    code = "(slope,) = torch.autograd.grad(loss, x, create_graph=True)"
    source = "AutoAttack's flags (Croce et al.)"
    limit = "torch.autograd.grad or backward is called"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        calls: list[int] = []
        with _count_gradient_calls(calls), torch.enable_grad():
            samples.logits(samples.x)
        values = torch.full_like(samples.margin, float(len(calls)))
        return Measurement.from_values(values, values > 0)


@contextmanager
def _count_gradient_calls(calls: list[int]) -> Iterator[None]:
    """Append to ``calls`` for each call of torch.autograd.grad or backward inside of the context."""
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
    """Number of classes, which may be too small for AutoAttack's own losses and targets."""

    name = "few-classes"
    part = "published"
    decides = False
    needs = "scores"
    means = "there are fewer classes than AutoAttack's targeted attacks take"
    remedy = "None: attacks of this package take as many targets as there are"
    source = "AutoAttack's flags (Croce et al.)"
    limit = f"fewer than {_TARGETS + 1} classes"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        values = torch.full_like(samples.margin, float(samples.clean.shape[1]))
        return Measurement.from_values(values, values < _TARGETS + 1)
