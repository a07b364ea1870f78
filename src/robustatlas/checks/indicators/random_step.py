"""Is a step along the gradient better than random ones?"""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured

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
