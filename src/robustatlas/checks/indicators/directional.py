"""Does the gradient tell what the model does? Its directional derivatives against central differences."""

from __future__ import annotations

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured

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
