"""Does the gradient tell what the model does? Its directional derivatives against finite differences."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from robustatlas.bundle import flat
from robustatlas.indicators.base import Indicator, LookedAt, Measured

DIRECTIONS = 8
STEP, LENGTH = 0.01, 0.08
"""Of each value, in [0, 1] (at the border of [0, 1] towards its inside or not at all), and so that the step is no
longer than this: what 0.01 is on 8x8 pixels. The longer steps of larger images leave where networks are linear: of a
sound one on CIFAR-10, whose adversarial examples are as near, steps of 0.01 doubt 17 of 40 samples."""
_ULPS = 4
"""Units in the last place by which logits vary with the order of additions."""
_LEAST = torch.finfo(torch.float64).tiny
AGREES = 0.5
"""Cosine from which on a gradient is believed. An unrelated one passes with probability .085."""


class DirectionalDerivative(Indicator):
    """Cosine of the changes of the margin that are measured at 8 random steps and those that its gradient claims."""

    name = "gradient"
    severity = "masked"
    means = "the gradient does not tell how the margin changes"
    remedy = (
        "Find what the gradient passes through and replace its backward (straight_through, surrogate); "
        "'diagnose --repair' tries that, and attacks that need no gradient"
    )
    source = "finite differences against autograd; direction by direction, as torch.autograd.gradcheck does"
    limit = f"cosine below {AGREES:g}"

    def measure(self, look: LookedAt) -> Measured:
        """9 forward passes and 1 backward pass a sample, or one more of each for every further way back."""
        steps = torch.stack([self._step(look, number) for number in range(DIRECTIONS)])
        with torch.no_grad():
            changes = torch.stack([look.lead(look.logits(look.x + step)) for step in steps]) - look.margin
        best = torch.stack([cosine(changes, steps, slope) for slope in look.slopes]).amax(0)
        return Measured.of(best, best < AGREES, self._beyond_rounding(look, changes))

    @staticmethod
    def _step(look: LookedAt, number: int) -> Tensor:
        signs = look.noise.child(1000 + number).sign(*look.x.shape[1:], dtype=look.x.dtype)
        return (look.x + step_of(look.x) * signs).clamp(0, 1) - look.x

    @staticmethod
    def _beyond_rounding(look: LookedAt, changes: Tensor) -> Tensor:
        """[B] whether anything changes, or should, by more than rounding of the logits explains."""
        claimed = torch.stack([flat(slope).norm(dim=1) for slope in look.slopes]).amax(0).nan_to_num() * step_of(look.x)
        relative = max(look.model.rounding, _ULPS * torch.finfo(look.clean.dtype).eps)
        rounding = (2 * relative * look.clean.abs().amax(1)).clamp_min(torch.finfo(look.clean.dtype).tiny)
        return torch.maximum(changes.square().mean(0).sqrt(), claimed) >= rounding


def step_of(x: Tensor) -> float:
    """The change of each value of inputs [B, ...].

    Example:
        >>> round(step_of(torch.zeros(1, 1, 8, 8)), 4), round(step_of(torch.zeros(1, 3, 32, 32)), 4)
        (0.01, 0.0014)
    """
    return min(STEP, LENGTH / math.sqrt(max(1, flat(x).shape[1])))


def cosine(changes: Tensor, steps: Tensor, slope: Tensor) -> Tensor:
    """[B]: the cosine of what was measured [K, B] and what ``slope`` [B, ...] claims of ``steps`` [K, B, ...]; 0 where
    either is nothing or no number."""
    claims = torch.stack([flat(step * slope).double().sum(1) for step in steps])
    found = changes.double()
    claims, found = (values / values.abs().amax(0).clamp_min(_LEAST) for values in (claims, found))
    lengths = (claims.square().sum(0) * found.square().sum(0)).sqrt()
    return ((claims * found).sum(0) / lengths.clamp_min(_LEAST)).nan_to_num(0.0)
