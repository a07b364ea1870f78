"""Indicators of the gradient: is there one, and does the margin change as it says, at the border of [0, 1] too?"""

from collections.abc import Iterator

import torch
from torch import Tensor

from robustatlas.checks.advice import HONEST_GRADIENT, MARGIN_OF_LOGITS, MISLEADING
from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement
from robustatlas.checks.indicators.differences import Differences
from robustatlas.common.bundle import flat
from robustatlas.models.classifier.probing import input_gradient
from robustatlas.models.objectives import cross_entropy

AGREES = 0.5
"""Cosine from which on a gradient is believed. An unrelated one passes with probability .085."""


class DirectionalDerivative(Indicator):
    """Cosine of the changes of the margin between 8 pairs of opposite random steps and the gradient's claims."""

    name = "gradient"
    severity = "masked"
    threshold = 0.15
    """Sound networks whose gradient tells little have up to 14.5 % of such samples, overestimated ones 30 % at
    least, of 52 networks on MNIST, digits, Fashion-MNIST and CIFAR-10."""
    means = "the gradient does not tell how the margin changes"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = "central differences against autograd; direction by direction, as torch.autograd.gradcheck does"
    limit = f"cosine below {AGREES:g}"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        found = samples.differences
        judged = found.size.maximum(found.claimed_size) >= samples.rounding
        return Measurement.from_values(found.agreement, found.agreement < AGREES, judged)


class EndGradient(DirectionalDerivative):
    """The indicator ``gradient``, at the points where searches of an attack ended instead of at the images."""

    name = "end-gradient"

    def __init__(self, attack: str) -> None:
        self.name = f"{self.name}-{attack}"  # type: ignore[misc]
        self.means = f"{self.means} where searches of {attack} end,"  # type: ignore[misc]


class ZeroGradient(Indicator):
    """Largest entry of the gradient of the margin. If it is zero or not finite, attacks have nothing to follow."""

    name = "zero-gradient"
    severity = "masked"
    means = "the margin has no gradient to follow"
    remedy = (
        "Give the step that has no gradient one (straight_through, or surrogate with a smooth function in its place), "
        "or add attacks that need none (square-linf)"
    )
    code = "model = ra.Classifier(net, prepare=ra.surrogate(step, smooth))"
    source = "Pintor et al. 2022 (indicator 1) and AutoAttack's flags, per sample instead of per batch"
    limit = "no entry other than 0"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        largest = torch.stack([flat(slope).abs().amax(1).nan_to_num(0.0, posinf=0.0) for slope in samples.slopes])
        value = largest.amax(0)
        return Measurement.from_values(value, value == 0)


_STEP = 0.1
_RANDOM = 24


class RandomStep(Indicator):
    """Margin after a step along the gradient minus the lowest one after 24 random steps, relative to the margin; all
    steps are 0.1 a pixel."""

    name = "random-step"
    decides = False
    means = "a random step lowers the margin more than one along the gradient"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = "ours; Carlini et al. 2019 (random noise must not beat gradients)"
    limit = "above 0"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        with torch.no_grad():
            steps = [
                samples.noise.child(4000 + k).sign(*samples.x.shape[1:], dtype=samples.x.dtype) for k in range(_RANDOM)
            ]
            best = torch.stack([self._margin_after_step(samples, step) for step in steps]).amin(0)
            downhill = [-slope.sign() for slope in samples.slopes]
            along = torch.stack([self._margin_after_step(samples, step) for step in downhill]).amin(0)
        values = (along - best) / samples.margin.abs().clamp_min(torch.finfo(samples.margin.dtype).tiny)
        return Measurement.from_values(values.nan_to_num(0.0), along > best)

    @staticmethod
    def _margin_after_step(samples: DiagnosedSamples, step: Tensor) -> Tensor:
        return samples.rival_margins(samples.logits((samples.x + _STEP * step).clamp(0, 1)))


class UnavailableGradients(Indicator):
    """Largest entry of the gradient of the cross-entropy for the predicted class, which vanishes where softmax
    saturates, also where the margin has a gradient."""

    name = "unavailable-gradients"
    decides = False
    means = "the cross-entropy has no gradient"
    remedy = "Use attacks by margins of logits, as linf is by default"
    code = MARGIN_OF_LOGITS
    source = "Pintor et al. 2022, indicator 1"
    limit = "no entry other than 0"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        x = samples.x.detach().clone().requires_grad_()
        with torch.enable_grad():
            logits = samples.logits(x)
            loss = cross_entropy(logits, samples.clean.argmax(1), None).sum()
            slope = input_gradient(loss, x)
        values = flat(torch.zeros_like(x) if slope is None else slope).abs().amax(1)
        return Measurement.from_values(values, values == 0)


_DIRECTIONS = 4
_SEEN = _MATTERS = 0.1
"""`_SEEN`: a gradient that claims a smaller share of the measured changes does not see them. `_MATTERS`: share of the
mean square of the changes under steps by which every value moves alike. If the values at the border make less of it, an
attack that cannot move them finds sizes that are about a tenth too large at most."""


class BorderGradient(Indicator):
    """Ratio of the changes that the gradient claims to the changes of the margin, at steps from the border into [0, 1].

    Steps of the values that are 0 and of the values that are 1 are looked at in turn. The lower ratio counts, at most
    1. It is 1 if these values hardly matter.

    A ReLU as the first layer has no gradient at 0, and one at each value inside. Whether claims point the right way is
    for the indicator ``gradient``.
    """

    name = "border-gradient"
    severity = "masked"
    means = "the gradient does not see values that are exactly 0 or 1"
    remedy = "Take the gradient a quarter of a grey level inside of [0, 1], where no value is exactly 0 or 1"
    code = "model = ra.Classifier(ra.surrogate(net, lambda x: net(0.998 * x + 0.001)))"
    source = "ours: one-sided differences at kinks, where autograd gives the derivative of one side"
    limit = "claims below a tenth of the changes, where these values make a tenth of all changes"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        values = torch.minimum(*(self._share_seen(samples, border) for border in (0, 1)))
        return Measurement.from_values(values, values < _SEEN)

    def _share_seen(self, samples: DiagnosedSamples, border: int) -> Tensor:
        found = Differences.from_pairs(self._pairs(samples, border), samples.rival_margins_at, samples.slopes)
        here, all_values = (2 * found.size).square(), (samples.differences.size / 2).square()
        matters = (here >= _MATTERS * (here + all_values)) & (found.size >= samples.rounding)
        return torch.where(matters, found.claimed_size / found.size, 1.0).clamp_max(1.0)

    @staticmethod
    def _pairs(samples: DiagnosedSamples, border: int) -> Iterator[tuple[Tensor, Tensor]]:
        inwards = (1 - 2 * border) * (samples.x == border).to(samples.x.dtype)
        for number in range(_DIRECTIONS):
            chosen = samples.noise.child(5000 + number).sign(*samples.x.shape[1:], dtype=samples.x.dtype) > 0
            yield samples.x + samples.step_size * inwards * chosen, samples.x
