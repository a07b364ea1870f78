"""Do losses on softmax outputs still see the logits, and are the outputs logits at all?"""

from __future__ import annotations

import math
from collections.abc import Collection

import torch

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.models.objectives import Objective
from robustatlas.outcomes.readings import Severity

_BLIND: frozenset[Objective] = frozenset({"cross-entropy", "probability-margin", "log-margin"})
_FLAT = 4 * torch.finfo(torch.float32).eps
"""Differences of logits below this vanish in a loss of order 1."""
_VANISHES = -math.log(2.0**-149)
"""Margin from which on softmax is exactly 0 in float32 for the class that comes second."""


class LogitScale(Indicator):
    """Difference between the label's logit and the next: so large that softmax is exactly 0 and 1, or so small that a
    loss of order 1 does not change with it."""

    name = "logit-scale"
    needs = "scores"
    severity = "note"
    means = "softmax and cross-entropy do not see the margin: it is beyond what float32 tells apart"
    remedy = "Attacks by margins of logits, as the default search, are not concerned; divide the logits for others"
    source = "Carlini and Wagner 2016 on defensive distillation; the limits are those of float32"
    limit = f"margin above {_VANISHES:.0f} or below {_FLAT:.1g}"

    def measure(self, look: LookedAt) -> Measured:
        return Measured.of(look.margin, (look.margin > _VANISHES) | (look.margin.abs() < _FLAT))

    def severity_of(self, objectives: Collection[Objective]) -> Severity:
        """Numbers are doubtful where no attack climbs a margin of logits."""
        return self.severity if set(objectives) - _BLIND else "doubtful"


_ROUNDING = 1e-5


class Probabilities(Indicator):
    """Sum of the outputs, where all of them lie in [0, 1]."""

    name = "probabilities"
    needs = "scores"
    means = "the outputs are probabilities: where they saturate, gradients vanish"
    remedy = "Return logits, or give Classifier(net, outputs='probabilities')"
    source = "AutoAttack's flags (Croce et al.)"
    limit = f"all within [0, 1], and a sum within {_ROUNDING:g} of 1"

    def measure(self, look: LookedAt) -> Measured:
        values = look.clean.sum(1)
        within = ((look.clean >= -_ROUNDING) & (look.clean <= 1 + _ROUNDING)).all(1)
        return Measured.of(values, within & ((values - 1).abs() < _ROUNDING))
