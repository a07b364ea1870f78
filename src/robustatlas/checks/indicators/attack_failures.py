"""Pintor's indicators of attack failure that look at an attack's path (3 to 6): PGD in L-inf on the margin."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.checks.advice import HIGH_EFFORT, HONEST_GRADIENT, MISLEADING
from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.models.classifier.probing import input_gradient
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
        slope = input_gradient(margin, leaf)
    return margin.detach(), torch.zeros_like(leaf) if slope is None else slope.nan_to_num(0.0)


_LAST = 10
_CHANGE = 0.05
_UNBOUNDED = 100


class SilentSuccess(Indicator):
    """Whether the last point of an attack fails where an earlier one succeeded."""

    name = "silent-success"
    part = "published"
    decides = False
    means = "the last point of an attack fails where an earlier one succeeded"
    remedy = "None: searches of this package keep the best point"
    source = "Pintor et al. 2022, indicator 3"
    limit = "an earlier success"

    def measure(self, look: LookedAt) -> Measured:
        wrong = path(look, look.searched.epsilon).wrong
        silent = wrong.any(0) & ~wrong[-1]
        return Measured.of(silent.float(), silent)


class IncompleteOptimisation(Indicator):
    """By how much of its range the running minimum of the loss still falls in the last ten steps."""

    name = "incomplete-optimisation"
    part = "published"
    decides = False
    means = "the loss still falls at the end of an attack"
    remedy = "More steps (effort='high'); masking is seldom a want of steps"
    code = HIGH_EFFORT
    source = "Pintor et al. 2022, indicator 4"
    limit = f"more than {_CHANGE:g} of the range of the loss"

    def measure(self, look: LookedAt) -> Measured:
        loss = path(look, look.searched.epsilon).margins
        span = (loss.amax(0) - loss.amin(0)).clamp_min(torch.finfo(loss.dtype).tiny)
        running = ((loss - loss.amin(0)) / span).cummin(0).values[-_LAST:]
        change = running.amax(0) - running.amin(0)
        return Measured.of(change, change > _CHANGE)


class TransferFailure(Indicator):
    """Whether what breaks a network that was distilled from the model leaves the model as it is."""

    name = "transfer-failure"
    part = "published"
    decides = False
    needs = "scores"
    means = "examples against a distilled network do not transfer"
    remedy = "None: of sound networks it flags nearly all"
    source = "Pintor et al. 2022, indicator 5, with a network distilled from the model as the surrogate"
    limit = "wrong on the surrogate, right on the model"

    def measure(self, look: LookedAt) -> Measured:
        found = look.searched.transferred
        return Measured.of(found.float(), found > 0, found >= 0)


class UnconstrainedFailure(Indicator):
    """Whether an attack that only [0, 1] bounds leaves the sample as it is."""

    name = "unconstrained"
    part = "full"
    severity = "masked"
    means = "an attack that nothing bounds but [0, 1] fails"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = "Pintor et al. 2022, indicator 6, per sample; Carlini et al. 2019 (an unbounded attack reaches 100 %)"
    limit = "still right at the end, and never wrong before"

    def measure(self, look: LookedAt) -> Measured:
        margins = path(look, torch.inf, _UNBOUNDED).margins
        return Measured.of(margins.amin(0), ~(margins < 0).any(0))
