"""Does the gradient see what lies inside [0, 1], at values that are exactly 0 or 1?"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.checks.indicators.differences import Differences

_DIRECTIONS = 4
_SEEN = _MATTERS = 0.1
"""Part of the mean square of the changes, of steps by which every value moves by the same (at the border half of them
move, elsewhere all, there and back): where values at the border make less of it, an attack that cannot move them finds
sizes by about a tenth too large at most."""


class BorderGradient(Indicator):
    """What the gradient claims of random steps of the values that are 0, and of those that are 1, towards the inside of
    [0, 1], relative to the changes of the margin that are measured there; the lower of both, at most 1, and 1 where
    these values hardly matter. A ReLU as the first layer has no gradient at 0, and one at each value inside. Whether
    claims point the right way is what the indicator ``gradient`` looks at."""

    name = "border-gradient"
    severity = "masked"
    means = "the gradient does not see values that are exactly 0 or 1"
    remedy = (
        "Take the derivative of one side there (a leaky or smooth activation by surrogate), or start attacks inside; "
        "'diagnose --repair' takes gradients a quarter of a grey level inside"
    )
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
