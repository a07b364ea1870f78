"""Pintor's first indicator, as published: has the cross-entropy a gradient?"""

from __future__ import annotations

import torch

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.common.bundle import flat
from robustatlas.models.classifier.failing import slope_of
from robustatlas.models.objectives import cross_entropy


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
