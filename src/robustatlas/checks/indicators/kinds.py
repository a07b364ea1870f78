"""Indicators that compare kinds of attack with each other and with the data."""

import torch
from torch import Tensor

from robustatlas.checks.advice import AUDIT, WITHOUT_GRADIENTS
from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement
from robustatlas.checks.indicators.search_results import OWN, SEED

_SMALLEST, _NEVER = 1e-9, 1e6
"""Range to which sizes are clamped before their logarithms are compared."""


class KindsDiffer(Indicator):
    """Logarithm of the ratio of the size by two seeds of the search to the size by the best other kind of attack."""

    name = "kinds"
    part = "full"
    decides = False
    needs = "scores"
    means = "kinds of attack differ far more than seeds do"
    remedy = "Take the worst case over several kinds, or an audit"
    code = AUDIT
    source = "ours: seeds share blind spots, kinds do not"
    limit = "smaller by more than two seeds differ, with a strength that was asked for in between"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        found = samples.searched
        own, seed = found.sizes[OWN], found.sizes[SEED]
        others = [sizes for kind, sizes in found.sizes.items() if kind not in (OWN, SEED)]
        best = torch.stack(others).amin(0) if others else own
        both = torch.minimum(own, seed)
        between = ((best[None] <= found.strengths[:, None]) & (both[None] > found.strengths[:, None])).any(0)
        values = _log_ratio(both, best)
        return Measurement.from_values(values, between & (values > _log_ratio(own, seed).abs()))


def _log_ratio(one: Tensor, other: Tensor) -> Tensor:
    """Return the logarithm of the ratio of two sizes, [B]."""
    return one.clamp(_SMALLEST, _NEVER).log() - other.clamp(_SMALLEST, _NEVER).log()


class OneKindAlone(Indicator):
    """Number of kinds of attack that break the sample at the largest strength that was asked for."""

    name = "one-kind"
    part = "full"
    decides = False
    needs = "scores"
    means = "one kind of attack alone breaks samples that all others leave"
    remedy = "Add that kind to the evaluation, or an audit"
    code = AUDIT
    source = "ours"
    limit = "one of several kinds"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        found = samples.searched
        kinds = [sizes for kind, sizes in found.sizes.items() if kind != SEED]
        breaking = torch.stack([sizes <= found.largest for sizes in kinds]).sum(0)
        return Measurement.from_values(breaking.float(), (breaking == 1) & (len(kinds) > 1))


class NearestData(Indicator):
    """Distance to the nearest data point that the model puts into another class, relative to the size found."""

    name = "nearest-data"
    part = "full"
    needs = "scores"
    severity = "masked"
    threshold = 0.05
    means = "a data point of another class is nearer than the smallest example found"
    remedy = "The attack misses examples that the data hold: add attacks without gradients"
    code = WITHOUT_GRADIENTS
    source = "ours; inter-class distances (Goepfert et al.)"
    limit = "nearer than what was found"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        found = samples.searched
        own = torch.minimum(found.sizes[OWN], found.sizes[SEED])
        nearer = (found.nearest < own) & (found.nearest <= found.largest)
        return Measurement.from_values(
            (found.nearest / own.clamp_min(1e-9)).nan_to_num(1.0, posinf=1e6).clamp_max(1e6), nearer
        )
