"""Indicators of changing outputs: does an input give the same output in another call, in another batch, under noise?"""

import torch
from torch import Tensor

from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement
from robustatlas.models.classifier import seeded
from robustatlas.models.objectives import cross_entropy

SAME = 1e-3
"""Largest difference, relative to the largest logit, that rounding explains."""


def differences(one: Tensor, other: Tensor) -> Tensor:
    """Return the largest difference [B] of two logits [B, C], relative to the largest logit."""
    scale = one.abs().amax(1).clamp_min(torch.finfo(one.dtype).tiny)
    return (one - other).abs().amax(1).nan_to_num(torch.inf) / scale


def tolerance(samples: DiagnosedSamples) -> float:
    """Return the largest relative difference that counts as equal, by the precision of the network."""
    return max(SAME, 4 * torch.finfo(samples.model.network_dtype).eps)


def varying(samples: DiagnosedSamples) -> Tensor:
    """Return the difference [B] of the logits between calls; 0 for a model that is said to draw random numbers."""
    if samples.model.draws is not None:
        return torch.zeros_like(samples.margin)
    return torch.maximum(differences(samples.clean, samples.second_logits), differences(samples.clean, samples.redrawn))


class Randomness(Indicator):
    """Difference of the logits between two calls, of a model that was not said to draw random numbers."""

    name = "random"
    needs = "scores"
    means = "the same input gives different outputs"
    remedy = "Take dropout out (net.eval()); where noise is the defense, take means over draws"
    code = "model = ra.Classifier(net, draws=20)"
    source = "AutoAttack's flags (Croce et al.), per sample"
    limit = f"more than {SAME:g} of the largest logit"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        values = varying(samples)
        return Measurement.from_values(values, values > tolerance(samples))


class BatchDependence(Indicator):
    """Difference of the logits between two batches that hold other samples beside this one."""

    name = "batch"
    needs = "scores"
    means = "a sample's output depends on the other samples of its batch"
    remedy = "Put normalisation over the batch into eval mode, or evaluate one sample at a time"
    code = "ra.evaluate(model, data, batch_size=1)"
    source = "ours"
    limit = "more than 0.001 of the largest logit, where the same batch gives the same"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        half, others = -(-len(samples.x) // 2), []
        with torch.no_grad(), seeded(0, samples.model.device):
            for rows in torch.split(torch.arange(len(samples.x), device=samples.x.device), half):
                x, labels = samples.x[rows], samples.labels[rows]
                company = torch.cat([x, x.flip(-1) if x.dim() > 2 else 1 - x])
                streams = samples.noise.child(0).take(torch.cat([rows, rows]))
                logits = samples.model.logits(company, labels=labels.repeat(2), noise=streams, verifying=True)
                others.append(logits[: len(rows)])
        values = differences(samples.clean, torch.cat(others))
        return Measurement.from_values(values, values > tolerance(samples), varying(samples) <= tolerance(samples))


_DRAWS = 100
_RADIUS = 4 / 255
_LIMIT = 0.1


class UnstablePredictions(Indicator):
    """Mean relative change of the cross-entropy under uniform noise of 4/255, at most 1.

    It flags many sound networks: the cross-entropy of a sure network is small, so its relative changes are large.
    """

    name = "unstable-predictions"
    needs = "scores"
    decides = False
    means = "the cross-entropy changes under small noise"
    remedy = "None: as published it raises false alarms, and decides nothing"
    source = "Pintor et al. 2022, indicator 2 (which has no threshold; that of a tenth is ours)"
    limit = f"above {_LIMIT:g}"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        clean = cross_entropy(samples.clean, samples.labels, None).abs()
        scale = torch.where(clean == 0, torch.ones_like(clean), clean)
        total = torch.zeros_like(clean)
        with torch.no_grad():
            for draw in range(_DRAWS):
                total += (self._noisy(samples, draw) - clean).abs() / scale
        values = (total / _DRAWS).clamp_max(1)
        return Measurement.from_values(values, values > _LIMIT)

    @staticmethod
    def _noisy(samples: DiagnosedSamples, draw: int) -> Tensor:
        noise = samples.noise.child(3000 + draw).symmetric(*samples.x.shape[1:], dtype=samples.x.dtype)
        return cross_entropy(samples.logits(samples.x + _RADIUS * noise), samples.labels, None).abs()
