"""The path of a plain attack, step by step: PGD in L-inf on the margin."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import LookedAt
from robustatlas.models.classifier.failing import slope_of
from robustatlas.models.objectives import margin_of

STEPS = 30
RATE = 2.5
"""Of the strength, over the number of steps: the length of a step (Madry et al. 2018)."""
_BOX = 0.05
"""Length of a step where only [0, 1] bounds the attack."""


@dataclass(frozen=True)
class Path:
    """Margins [n + 1, B] along the way, the clean one first, and the last point [B, ...]."""

    margins: Tensor
    end: Tensor

    @property
    def wrong(self) -> Tensor:
        """[n + 1, B] whether each point is misclassified."""
        return self.margins < 0


def path(look: LookedAt, epsilon: float, steps: int = STEPS, start: int | None = None) -> Path:
    """``steps`` of PGD within ``epsilon`` (infinite: within [0, 1] alone), from the sample or a random ``start``."""
    low, high = (look.x - epsilon).clamp_min(0), (look.x + epsilon).clamp_max(1)
    length = _BOX if epsilon >= 1 else min(epsilon, RATE * epsilon / steps)
    x = look.x
    if start is not None:
        x = low + look.noise.child(6000 + start).uniform(*x.shape[1:], dtype=x.dtype) * (high - low)
    margins = []
    for _ in range(steps):
        margin, slope = _margin_and_slope(look, x)
        margins.append(margin)
        x = torch.minimum(torch.maximum(x - length * slope.sign(), low), high)
    with torch.no_grad():
        margins.append(margin_of(look.logits(x), look.labels))
    return Path(torch.stack(margins), x)


def _margin_and_slope(look: LookedAt, x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        margin = margin_of(look.logits(leaf, back=look.ways[-1]), look.labels)
        slope = slope_of(margin, leaf)
    return margin.detach(), torch.zeros_like(leaf) if slope is None else slope.nan_to_num(0.0)
