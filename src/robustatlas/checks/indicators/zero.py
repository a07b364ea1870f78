"""Is there a gradient at all, at each sample?"""

from __future__ import annotations

import torch

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.common.bundle import flat


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
