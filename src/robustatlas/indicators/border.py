"""Does the gradient see what lies inside [0, 1], at values that are exactly 0 or 1?"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from robustatlas.indicators.base import Indicator, LookedAt, Measured
from robustatlas.indicators.differences import Differences
from robustatlas.indicators.directional import AGREES

_DIRECTIONS = 4
_MATTERS = 0.1
"""Part of the mean square of the changes, of steps by which every value moves by the same (at the border half of them
move, elsewhere all, there and back): where values at the border make less of it, an attack that cannot move them finds
sizes by about a tenth too large at most."""


class BorderGradient(Indicator):
    """Cosine of the changes of the margin that are measured at random steps of the values that are 0, and of those that
    are 1, towards the inside of [0, 1], and those that the gradient claims; the lower of both, and 1 where these values
    hardly matter. A ReLU as the first layer has no gradient at 0, and one at each value inside."""

    name = "border-gradient"
    severity = "masked"
    means = "the gradient does not see values that are exactly 0 or 1"
    remedy = (
        "Take the derivative of one side there (a leaky or smooth activation by surrogate), or start attacks inside; "
        "'diagnose --repair' takes gradients a quarter of a grey level inside"
    )
    source = "ours: one-sided differences at kinks, where autograd gives the derivative of one side"
    limit = f"cosine below {AGREES:g}, where these values make a tenth of the changes"

    def measure(self, look: LookedAt) -> Measured:
        """8 forward passes a sample."""
        values = torch.minimum(*(self._agreement(look, border) for border in (0, 1)))
        return Measured.of(values, values < AGREES)

    def _agreement(self, look: LookedAt, border: int) -> Tensor:
        found = Differences.between(self._pairs(look, border), look.lead_at, look.slopes)
        here, all_values = (2 * found.size).square(), (look.differences.size / 2).square()
        matters = (here >= _MATTERS * (here + all_values)) & (found.size >= look.rounding)
        return torch.where(matters, found.agreement, 1.0)

    @staticmethod
    def _pairs(look: LookedAt, border: int) -> Iterator[tuple[Tensor, Tensor]]:
        inwards = (1 - 2 * border) * (look.x == border).to(look.x.dtype)
        for number in range(_DIRECTIONS):
            chosen = look.noise.child(5000 + number).sign(*look.x.shape[1:], dtype=look.x.dtype) > 0
            yield look.x + look.reached * inwards * chosen, look.x
