"""Pintor's indicators of attack failure that look at an attack's path (3 to 6): PGD in L-inf on the margin."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.checks.advice import HIGH_EFFORT, HONEST_GRADIENT, MISLEADING
from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement
from robustatlas.models.classifier.probing import input_gradient
from robustatlas.models.objectives import margin_of

STEPS = 30
RATE = 2.5
"""Length of a step, as a multiple of the strength over the number of steps (Madry et al. 2018)."""
_BOX = 0.05
"""Length of a step of an attack that only [0, 1] bounds."""


@dataclass(frozen=True)
class Path:
    """Path of an attack: margins [n + 1, B] at its points, the clean one first, and the last point [B, ...]."""

    margins: Tensor
    end: Tensor

    @property
    def wrong(self) -> Tensor:
        """[n + 1, B] True where a point is misclassified."""
        return self.margins < 0


def pgd_path(samples: DiagnosedSamples, epsilon: float, steps: int = STEPS, start: int | None = None) -> Path:
    """Return the path of PGD in L-inf on the margin.

    Args:
        samples: images to attack.
        epsilon: strength; infinite: only [0, 1] bounds the attack.
        steps: number of steps.
        start: number of a random start; None: the image itself.
    """
    low, high = (samples.x - epsilon).clamp_min(0), (samples.x + epsilon).clamp_max(1)
    length = _BOX if epsilon >= 1 else min(epsilon, RATE * epsilon / steps)
    x = samples.x
    if start is not None:
        x = low + samples.noise.child(6000 + start).uniform(*x.shape[1:], dtype=x.dtype) * (high - low)
    margins = []
    for _ in range(steps):
        margin, slope = _margin_and_slope(samples, x)
        margins.append(margin)
        x = torch.minimum(torch.maximum(x - length * slope.sign(), low), high)
    with torch.no_grad():
        margins.append(margin_of(samples.logits(x), samples.labels))
    return Path(torch.stack(margins), x)


def _margin_and_slope(samples: DiagnosedSamples, x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.detach().clone().requires_grad_()
    with torch.enable_grad():
        margin = margin_of(samples.logits(leaf, back=samples.rules[-1]), samples.labels)
        slope = input_gradient(margin, leaf)
    return margin.detach(), torch.zeros_like(leaf) if slope is None else slope.nan_to_num(0.0)


_LAST = 10
_CHANGE = 0.05
_UNBOUNDED = 100


class SilentSuccess(Indicator):
    """1 if the last point of an attack fails and an earlier one succeeded, else 0."""

    name = "silent-success"
    part = "published"
    decides = False
    means = "the last point of an attack fails where an earlier one succeeded"
    remedy = "None: searches of this package keep the best point"
    source = "Pintor et al. 2022, indicator 3"
    limit = "an earlier success"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        wrong = pgd_path(samples, samples.searched.epsilon).wrong
        silent = wrong.any(0) & ~wrong[-1]
        return Measurement.from_values(silent.float(), silent)


class IncompleteOptimisation(Indicator):
    """Fall of the running minimum of the loss in the last ten steps, as a share of the range of the loss."""

    name = "incomplete-optimisation"
    part = "published"
    decides = False
    means = "the loss still falls at the end of an attack"
    remedy = "More steps (effort='high'); masking is seldom a want of steps"
    code = HIGH_EFFORT
    source = "Pintor et al. 2022, indicator 4"
    limit = f"more than {_CHANGE:g} of the range of the loss"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        loss = pgd_path(samples, samples.searched.epsilon).margins
        span = (loss.amax(0) - loss.amin(0)).clamp_min(torch.finfo(loss.dtype).tiny)
        running = ((loss - loss.amin(0)) / span).cummin(0).values[-_LAST:]
        change = running.amax(0) - running.amin(0)
        return Measurement.from_values(change, change > _CHANGE)


class TransferFailure(Indicator):
    """1 if an example against a network distilled from the model does not fool the model, else 0."""

    name = "transfer-failure"
    part = "published"
    decides = False
    needs = "scores"
    means = "examples against a distilled network do not transfer"
    remedy = "None: of sound networks it flags nearly all"
    source = "Pintor et al. 2022, indicator 5, with a network distilled from the model as the surrogate"
    limit = "wrong on the surrogate, right on the model"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        found = samples.searched.transferred
        return Measurement.from_values(found.float(), found > 0, found >= 0)


class UnconstrainedFailure(Indicator):
    """Lowest margin of an attack that only [0, 1] bounds."""

    name = "unconstrained"
    part = "full"
    severity = "masked"
    means = "an attack that nothing bounds but [0, 1] fails"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = "Pintor et al. 2022, indicator 6, per sample; Carlini et al. 2019 (an unbounded attack reaches 100 %)"
    limit = "still right at the end, and never wrong before"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        margins = pgd_path(samples, torch.inf, _UNBOUNDED).margins
        return Measurement.from_values(margins.amin(0), ~(margins < 0).any(0))
