"""Indicators of lost precision: gradients lost in float32, inputs that a network rounds, saturated outputs."""

import math
from collections.abc import Collection
from copy import deepcopy

import torch
from torch import Tensor, nn

from robustatlas.checks.advice import HONEST_GRADIENT, MARGIN_OF_LOGITS
from robustatlas.checks.indicators.base import ULPS, DiagnosedSamples, Indicator, Measurement
from robustatlas.checks.indicators.gradients import AGREES
from robustatlas.common.bundle import flatten
from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier
from robustatlas.models.objectives import Objective
from robustatlas.outcomes.records import Severity

_SHIFT = 1 / 2040
_MOVED = 0.1


class FloatSaturation(Indicator):
    """Cosine of the gradient of the margin and the one in float64."""

    name = "float-saturation"
    part = "full"
    severity = "masked"
    means = "the gradient in float32 is another than in float64"
    remedy = "Evaluate the network in float64"
    code = "model = ra.Classifier(net.double())"
    source = "ours; Athalye et al. 2018 (vanishing gradients)"
    limit = f"cosine below {AGREES:g}"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        double, nobody = _float64_model(samples.model, samples.x), torch.zeros_like(samples.labels, dtype=torch.bool)
        if double is None:
            return Measurement.from_values(torch.ones_like(samples.margin), nobody)
        precise = DiagnosedSamples(double, samples.x.double(), samples.labels, samples.noise, samples.rules).slopes[-1]
        cosine = torch.cosine_similarity(flatten(samples.slopes[-1]).double(), flatten(precise), dim=1, eps=1e-300)
        there = flatten(precise).abs().amax(1) > 0
        return Measurement.from_values(torch.where(there, cosine, 1.0), there & (cosine < AGREES))


def _float64_model(model: Classifier, x: Tensor) -> Classifier | None:
    """Return the model in float64; None if it cannot compute ``x`` [B, ...] in float64, or is in it already."""
    if not isinstance(model.net, nn.Module) or model.network_dtype == torch.float64:
        return None
    settings = {"prepare": model.prepare, "outputs": model.outputs, "rejection": model.rejection}
    double = Classifier(deepcopy(model.net).double(), model.mean, model.std, **settings)  # type: ignore[arg-type]
    try:
        with torch.no_grad():
            double.logits(x[:1].double(), verifying=True)
    except UserError:
        return None
    return double


class QuantisedInputs(Indicator):
    """1 if the logits are equal after a random tenth of all values moved by an eighth of a grey level, else 0.

    The move is larger if the precision of the network cannot tell such inputs apart.
    """

    name = "quantised"
    part = "full"
    needs = "scores"
    severity = "note"
    means = "inputs that differ by an eighth of a grey level give the very same outputs"
    remedy = "Let gradients pass the rounding (straight_through), where they do not"
    code = HONEST_GRADIENT
    source = "ours"
    limit = "no change at all"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        shift = max(_SHIFT, ULPS * torch.finfo(samples.model.network_dtype).eps)
        random = samples.noise.child(8000).symmetric(*samples.x.shape[1:], dtype=samples.x.dtype)
        moved = (samples.x + shift * random.sign() * (random.abs() < _MOVED)).clamp(0, 1)
        with torch.no_grad():
            same = (samples.logits(moved) == samples.clean).all(1)
        return Measurement.from_values(same.float(), same)


_BLIND: frozenset[Objective] = frozenset({"cross-entropy", "probability-margin", "log-margin"})
_FLAT = 4 * torch.finfo(torch.float32).eps
"""Differences of logits below this vanish in a loss of order 1."""
_VANISHES = -math.log(2.0**-149)
"""Margin above which softmax is exactly 0 in float32 for the class that comes second."""


class LogitScale(Indicator):
    """Margin of logits. It may be so large that softmax is exactly 0 and 1, or so small that a loss of order 1 does not
    change with it."""

    name = "logit-scale"
    needs = "scores"
    severity = "note"
    means = "softmax and cross-entropy do not see the margin: it is beyond what float32 tells apart"
    remedy = "Use attacks by margins of logits, which are not concerned, as linf is by default"
    code = MARGIN_OF_LOGITS
    source = "Carlini and Wagner 2016 on defensive distillation; the limits are those of float32"
    limit = f"margin above {_VANISHES:.0f} or below {_FLAT:.1g}"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        return Measurement.from_values(samples.margin, (samples.margin > _VANISHES) | (samples.margin.abs() < _FLAT))

    def severity_of(self, objectives: Collection[Objective]) -> Severity:
        """Return "doubtful" if no attack climbs a margin of logits."""
        return self.severity if set(objectives) - _BLIND else "doubtful"


_ROUNDING = 1e-5


class Probabilities(Indicator):
    """Sum of the outputs, which is 1 if they are probabilities."""

    name = "probabilities"
    needs = "scores"
    means = "the outputs are probabilities: where they saturate, gradients vanish"
    remedy = "Return logits, or say that the outputs are probabilities"
    code = 'model = ra.Classifier(net, outputs="probabilities")'
    source = "AutoAttack's flags (Croce et al.)"
    limit = f"all within [0, 1], and a sum within {_ROUNDING:g} of 1"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        values = samples.clean.sum(1)
        within = ((samples.clean >= -_ROUNDING) & (samples.clean <= 1 + _ROUNDING)).all(1)
        return Measurement.from_values(values, within & ((values - 1).abs() < _ROUNDING))
