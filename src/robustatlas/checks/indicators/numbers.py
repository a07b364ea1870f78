"""Numbers that nobody can tell apart: gradients lost in float32, inputs that a network rounds, saturated outputs."""

import math
from collections.abc import Collection
from copy import deepcopy

import torch
from torch import Tensor, nn

from robustatlas.checks.advice import HONEST_GRADIENT, MARGIN_OF_LOGITS
from robustatlas.checks.indicators.base import ULPS, Indicator, LookedAt, Measured
from robustatlas.checks.indicators.gradients import AGREES
from robustatlas.common.bundle import flatten
from robustatlas.common.errors import UserError
from robustatlas.models.classifier import Classifier
from robustatlas.models.objectives import Objective
from robustatlas.outcomes.readings import Severity

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

    def measure(self, look: LookedAt) -> Measured:
        double, nobody = _in_float64(look.model, look.x), torch.zeros_like(look.labels, dtype=torch.bool)
        if double is None:
            return Measured.of(torch.ones_like(look.margin), nobody)
        precise = LookedAt(double, look.x.double(), look.labels, look.noise, look.ways).slopes[-1]
        cosine = torch.cosine_similarity(flatten(look.slopes[-1]).double(), flatten(precise), dim=1, eps=1e-300)
        there = flatten(precise).abs().amax(1) > 0
        return Measured.of(torch.where(there, cosine, 1.0), there & (cosine < AGREES))


def _in_float64(model: Classifier, x: Tensor) -> Classifier | None:
    """The model with its network in float64; None where that cannot compute ``x`` [B, ...], or is in it already."""
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
    """Whether the logits are the very same after a random tenth of all values moved by an eighth of a grey level, or as
    far as the network's numbers can tell."""

    name = "quantised"
    part = "full"
    needs = "scores"
    severity = "note"
    means = "inputs that differ by an eighth of a grey level give the very same outputs"
    remedy = "Let gradients pass the rounding (straight_through), where they do not"
    code = HONEST_GRADIENT
    source = "ours"
    limit = "no change at all"

    def measure(self, look: LookedAt) -> Measured:
        shift = max(_SHIFT, ULPS * torch.finfo(look.model.network_dtype).eps)
        random = look.noise.child(8000).symmetric(*look.x.shape[1:], dtype=look.x.dtype)
        moved = (look.x + shift * random.sign() * (random.abs() < _MOVED)).clamp(0, 1)
        with torch.no_grad():
            same = (look.logits(moved) == look.clean).all(1)
        return Measured.of(same.float(), same)


_BLIND: frozenset[Objective] = frozenset({"cross-entropy", "probability-margin", "log-margin"})
_FLAT = 4 * torch.finfo(torch.float32).eps
"""Differences of logits below this vanish in a loss of order 1."""
_VANISHES = -math.log(2.0**-149)
"""Margin from which on softmax is exactly 0 in float32 for the class that comes second."""


class LogitScale(Indicator):
    """Difference between the label's logit and the next: so large that softmax is exactly 0 and 1, or so small that a
    loss of order 1 does not change with it."""

    name = "logit-scale"
    needs = "scores"
    severity = "note"
    means = "softmax and cross-entropy do not see the margin: it is beyond what float32 tells apart"
    remedy = "Use attacks by margins of logits, which are not concerned, as linf is by default"
    code = MARGIN_OF_LOGITS
    source = "Carlini and Wagner 2016 on defensive distillation; the limits are those of float32"
    limit = f"margin above {_VANISHES:.0f} or below {_FLAT:.1g}"

    def measure(self, look: LookedAt) -> Measured:
        return Measured.of(look.margin, (look.margin > _VANISHES) | (look.margin.abs() < _FLAT))

    def severity_of(self, objectives: Collection[Objective]) -> Severity:
        """Numbers are doubtful where no attack climbs a margin of logits."""
        return self.severity if set(objectives) - _BLIND else "doubtful"


_ROUNDING = 1e-5


class Probabilities(Indicator):
    """Sum of the outputs, where all of them lie in [0, 1]."""

    name = "probabilities"
    needs = "scores"
    means = "the outputs are probabilities: where they saturate, gradients vanish"
    remedy = "Return logits, or say that the outputs are probabilities"
    code = 'model = ra.Classifier(net, outputs="probabilities")'
    source = "AutoAttack's flags (Croce et al.)"
    limit = f"all within [0, 1], and a sum within {_ROUNDING:g} of 1"

    def measure(self, look: LookedAt) -> Measured:
        values = look.clean.sum(1)
        within = ((look.clean >= -_ROUNDING) & (look.clean <= 1 + _ROUNDING)).all(1)
        return Measured.of(values, within & ((values - 1).abs() < _ROUNDING))
