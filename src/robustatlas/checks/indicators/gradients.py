"""Is there a gradient, does it tell what the model does, and is a step along it better than random ones?"""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.common.bundle import flat
from robustatlas.models.classifier.failing import slope_of
from robustatlas.models.objectives import cross_entropy

AGREES = 0.5
"""Cosine from which on a gradient is believed. An unrelated one passes with probability .085."""


class DirectionalDerivative(Indicator):
    """Cosine of the changes of the margin that are measured at 8 random steps there and back, and those that its
    gradient claims."""

    name = "gradient"
    severity = "masked"
    threshold = 0.15
    """Sound networks whose gradient tells little have up to 14.5 % of such samples, overestimated ones 30 % at least
    (see docs/research/trust.md)."""
    means = "the gradient does not tell how the margin changes"
    remedy = (
        "Find what the gradient passes through and replace its backward (straight_through, surrogate); "
        "'diagnose --repair' tries that, and attacks that need no gradient"
    )
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
        "Repair the gradient (straight_through, surrogate), or use attacks without one (square-linf); "
        "'diagnose --repair' does"
    )
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
    remedy = "As of the indicator gradient"
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
    remedy = "Use margins of logits, as the default search does"
    source = "Pintor et al. 2022, indicator 1"
    limit = "no entry other than 0"

    def measure(self, look: LookedAt) -> Measured:
        x = look.x.detach().clone().requires_grad_()
        with torch.enable_grad():
            logits = look.logits(x)
            loss = cross_entropy(logits, look.clean.argmax(1), None).sum()
            slope = slope_of(loss, x)
        values = flat(torch.zeros_like(x) if slope is None else slope).abs().amax(1)
        return Measured.of(values, values == 0)
