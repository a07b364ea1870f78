"""Pintor's second indicator, as published: do predictions change under small noise?"""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.models.objectives import cross_entropy

_DRAWS = 100
_RADIUS = 4 / 255
_LIMIT = 0.1


class UnstablePredictions(Indicator):
    """Mean relative change of the cross-entropy under uniform noise of 4/255, at most 1. Of sound networks it flags
    many: the cross-entropy of a sure network is small, and its relative changes are large."""

    name = "unstable-predictions"
    needs = "scores"
    decides = False
    means = "the cross-entropy changes under small noise"
    remedy = "None: as published it raises false alarms, and decides nothing"
    source = "Pintor et al. 2022, indicator 2 (which has no threshold; that of a tenth is ours)"
    limit = f"above {_LIMIT:g}"

    def measure(self, look: LookedAt) -> Measured:
        clean = cross_entropy(look.clean, look.labels, None).abs()
        scale = torch.where(clean == 0, torch.ones_like(clean), clean)
        total = torch.zeros_like(clean)
        with torch.no_grad():
            for draw in range(_DRAWS):
                total += (self._noisy(look, draw) - clean).abs() / scale
        values = (total / _DRAWS).clamp_max(1)
        return Measured.of(values, values > _LIMIT)

    @staticmethod
    def _noisy(look: LookedAt, draw: int) -> Tensor:
        noise = look.noise.child(3000 + draw).symmetric(*look.x.shape[1:], dtype=look.x.dtype)
        return cross_entropy(look.logits(look.x + _RADIUS * noise), look.labels, None).abs()
