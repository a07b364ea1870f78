"""Does the same input give the same output?"""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured

SAME = 1e-3
"""Largest difference, relative to the largest logit, that rounding explains."""


def differences(one: Tensor, other: Tensor) -> Tensor:
    """[B] the largest difference of two logits [B, C], relative to the largest logit."""
    scale = one.abs().amax(1).clamp_min(torch.finfo(one.dtype).tiny)
    return (one - other).abs().amax(1).nan_to_num(torch.inf) / scale


def tolerance(look: LookedAt) -> float:
    """The largest such difference that is none."""
    return max(SAME, 4 * torch.finfo(look.model.network_dtype).eps)


def varying(look: LookedAt) -> Tensor:
    """[B] by how much the logits differ from call to call."""
    if look.model.draws is not None:
        return torch.zeros_like(look.margin)
    return torch.maximum(differences(look.clean, look.again), differences(look.clean, look.redrawn))


class Randomness(Indicator):
    """Difference of the logits between two calls, of a model that was not said to draw random numbers."""

    name = "random"
    needs = "scores"
    means = "the same input gives different outputs"
    remedy = "Take dropout out (net.eval()); where noise is the defense, give Classifier(net, draws=20)"
    source = "AutoAttack's flags (Croce et al.), per sample"
    limit = f"more than {SAME:g} of the largest logit"

    def measure(self, look: LookedAt) -> Measured:
        values = varying(look)
        return Measured.of(values, values > tolerance(look))
