"""Does the same input give the same output: in another call, in another batch, under small noise?"""

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.models.classifier import seeded
from robustatlas.models.objectives import cross_entropy

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
    remedy = "Take dropout out (net.eval()); where noise is the defense, take means over draws"
    code = "model = ra.Classifier(net, draws=20)"
    source = "AutoAttack's flags (Croce et al.), per sample"
    limit = f"more than {SAME:g} of the largest logit"

    def measure(self, look: LookedAt) -> Measured:
        values = varying(look)
        return Measured.of(values, values > tolerance(look))


class BatchDependence(Indicator):
    """Difference of the logits between two batches, in which a sample has other company."""

    name = "batch"
    needs = "scores"
    means = "a sample's output depends on the other samples of its batch"
    remedy = "Put normalisation over the batch into eval mode, or evaluate one sample at a time"
    code = "ra.evaluate(model, data, batch_size=1)"
    source = "ours"
    limit = "more than 0.001 of the largest logit, where the same batch gives the same"

    def measure(self, look: LookedAt) -> Measured:
        half, others = -(-len(look.x) // 2), []
        with torch.no_grad(), seeded(0, look.model.device):
            for rows in torch.split(torch.arange(len(look.x), device=look.x.device), half):
                x, labels = look.x[rows], look.labels[rows]
                company = torch.cat([x, x.flip(-1) if x.dim() > 2 else 1 - x])
                streams = look.noise.child(0).take(torch.cat([rows, rows]))
                logits = look.model.logits(company, labels=labels.repeat(2), noise=streams, verifying=True)
                others.append(logits[: len(rows)])
        values = differences(look.clean, torch.cat(others))
        return Measured.of(values, values > tolerance(look), varying(look) <= tolerance(look))


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
