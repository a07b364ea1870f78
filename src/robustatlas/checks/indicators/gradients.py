"""Is there a gradient, does it tell what the model does, at the border of [0, 1] too, and better than random steps?"""

from collections.abc import Iterator

import torch
from torch import Tensor

from robustatlas.checks.advice import HONEST_GRADIENT, MARGIN_OF_LOGITS, MISLEADING
from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.checks.indicators.differences import Differences
from robustatlas.common.bundle import flat
from robustatlas.models.classifier.probing import input_gradient
from robustatlas.models.objectives import cross_entropy

AGREES = 0.5
"""Cosine from which on a gradient is believed. An unrelated one passes with probability .085."""


class DirectionalDerivative(Indicator):
    """Cosine of the measured changes of the margin at 8 random steps there and back, and those the gradient claims."""

    name = "gradient"
    severity = "masked"
    threshold = 0.15
    """Sound networks whose gradient tells little have up to 14.5 % of such samples, overestimated ones 30 % at
    least, of 52 networks on MNIST, digits, Fashion-MNIST and CIFAR-10."""
    means = "the gradient does not tell how the margin changes"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = "central differences against autograd; direction by direction, as torch.autograd.gradcheck does"
    limit = f"cosine below {AGREES:g}"

    def measure(self, look: LookedAt) -> Measured:
        found = look.differences
        judged = found.size.maximum(found.claimed) >= look.rounding
        return Measured.of(found.agreement, found.agreement < AGREES, judged)


class ZeroGradient(Indicator):
    """Largest entry of the gradient of the margin; zero, or no number, where attacks have nothing to follow."""

    name = "zero-gradient"
    severity = "masked"
    means = "the margin has no gradient to follow"
    remedy = (
        "Give the step that has no gradient one (straight_through, or surrogate with a smooth function in its place), "
        "or add attacks that need none (square-linf)"
    )
    code = "model = ra.Classifier(net, prepare=ra.surrogate(step, smooth))"
    source = "Pintor et al. 2022 (indicator 1) and AutoAttack's flags, per sample instead of per batch"
    limit = "no entry other than 0"

    def measure(self, look: LookedAt) -> Measured:
        largest = torch.stack([flat(slope).abs().amax(1).nan_to_num(0.0, posinf=0.0) for slope in look.slopes])
        value = largest.amax(0)
        return Measured.of(value, value == 0)


_STEP = 0.1
_RANDOM = 24


class RandomStep(Indicator):
    """How much lower the margin is after the best of 24 random steps than after one along the gradient, all of 0.1 a
    pixel, relative to the margin."""

    name = "random-step"
    decides = False
    means = "a random step lowers the margin more than one along the gradient"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = "ours; Carlini et al. 2019 (random noise must not beat gradients)"
    limit = "above 0"

    def measure(self, look: LookedAt) -> Measured:
        with torch.no_grad():
            steps = [look.noise.child(4000 + k).sign(*look.x.shape[1:], dtype=look.x.dtype) for k in range(_RANDOM)]
            best = torch.stack([self._after(look, step) for step in steps]).amin(0)
            led = torch.stack([self._after(look, -slope.sign()) for slope in look.slopes]).amin(0)
        values = (led - best) / look.margin.abs().clamp_min(torch.finfo(look.margin.dtype).tiny)
        return Measured.of(values.nan_to_num(0.0), led > best)

    @staticmethod
    def _after(look: LookedAt, step: Tensor) -> Tensor:
        return look.lead(look.logits((look.x + _STEP * step).clamp(0, 1)))


class UnavailableGradients(Indicator):
    """Largest entry of the gradient of the cross-entropy for the predicted class, which vanishes where softmax
    saturates, also where the margin has a gradient."""

    name = "unavailable-gradients"
    decides = False
    means = "the cross-entropy has no gradient"
    remedy = "Use attacks by margins of logits, as linf is by default"
    code = MARGIN_OF_LOGITS
    source = "Pintor et al. 2022, indicator 1"
    limit = "no entry other than 0"

    def measure(self, look: LookedAt) -> Measured:
        x = look.x.detach().clone().requires_grad_()
        with torch.enable_grad():
            logits = look.logits(x)
            loss = cross_entropy(logits, look.clean.argmax(1), None).sum()
            slope = input_gradient(loss, x)
        values = flat(torch.zeros_like(x) if slope is None else slope).abs().amax(1)
        return Measured.of(values, values == 0)


_DIRECTIONS = 4
_SEEN = _MATTERS = 0.1
"""`_SEEN`: share of the measured changes that the gradient claims at least where it sees them. `_MATTERS`: share of the
mean square of the changes under steps by which every value moves alike. Where the values at the border make less of it,
an attack that cannot move them finds sizes that are about a tenth too large at most."""


class BorderGradient(Indicator):
    """Compares what the gradient claims of random steps from the border into [0, 1] with the changes of the margin that
    are measured there. Steps of the values that are 0 and of those that are 1 are looked at in turn, and the lower
    ratio counts, at most 1. It is 1 where these values hardly matter.

    A ReLU as the first layer has no gradient at 0, and one at each value inside. Whether claims point the right way is
    for the indicator ``gradient``.
    """

    name = "border-gradient"
    severity = "masked"
    means = "the gradient does not see values that are exactly 0 or 1"
    remedy = "Take the gradient a quarter of a grey level inside of [0, 1], where no value is exactly 0 or 1"
    code = "model = ra.Classifier(ra.surrogate(net, lambda x: net(0.998 * x + 0.001)))"
    source = "ours: one-sided differences at kinks, where autograd gives the derivative of one side"
    limit = "claims below a tenth of the changes, where these values make a tenth of all changes"

    def measure(self, look: LookedAt) -> Measured:
        values = torch.minimum(*(self._seen(look, border) for border in (0, 1)))
        return Measured.of(values, values < _SEEN)

    def _seen(self, look: LookedAt, border: int) -> Tensor:
        found = Differences.between(self._pairs(look, border), look.lead_at, look.slopes)
        here, all_values = (2 * found.size).square(), (look.differences.size / 2).square()
        matters = (here >= _MATTERS * (here + all_values)) & (found.size >= look.rounding)
        return torch.where(matters, found.claimed / found.size, 1.0).clamp_max(1.0)

    @staticmethod
    def _pairs(look: LookedAt, border: int) -> Iterator[tuple[Tensor, Tensor]]:
        inwards = (1 - 2 * border) * (look.x == border).to(look.x.dtype)
        for number in range(_DIRECTIONS):
            chosen = look.noise.child(5000 + number).sign(*look.x.shape[1:], dtype=look.x.dtype) > 0
            yield look.x + look.reached * inwards * chosen, look.x
