"""Are the outputs probabilities rather than logits?"""

from __future__ import annotations

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured

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
