"""Carlini et al. 2019: what every evaluation should show, asked of each sample."""

from abc import abstractmethod

import torch
from torch import Tensor

from robustatlas.checks.advice import HIGH_EFFORT, HONEST_GRADIENT, MISLEADING, WITHOUT_GRADIENTS
from robustatlas.checks.indicators.attack_failures import STEPS, pgd_path
from robustatlas.checks.indicators.base import DiagnosedSamples, Indicator, Measurement
from robustatlas.models.objectives import margin_of

_SOURCE = "Carlini et al. 2019"
_DRAWS = 1000
_RESTARTS = 5
_GREY = 0.5
_WINS = 0.05
"""Share of the samples at which attacks without gradients win, at most, if a network is sound."""


class BlackBoxWins(Indicator):
    """Size of the smallest example of an attack without gradients, where those with gradients found none."""

    name = "black-box"
    part = "full"
    needs = "scores"
    severity = "masked"
    threshold = _WINS
    means = "attacks without gradients break what those with gradients leave standing"
    remedy = "Add such attacks (square-linf, hop-skip-jump-linf)"
    code = WITHOUT_GRADIENTS
    source = f"{_SOURCE}: gradient-free attacks win on no example where white-box failed"
    limit = "broken without gradients alone"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        found = samples.searched
        black = [found.sizes[kind] for kind in found.black_box]
        best = torch.stack(black).amin(0) if black else torch.full_like(samples.margin, torch.inf)
        wins = (best <= found.strength) & (found.white_box() > found.strength)
        return Measurement.from_values(best.clamp_max(1e6), wins, torch.full_like(wins, bool(black)))


class RandomDraws(Indicator):
    """Lowest margin of 1,000 random points of the set, where an attack by gradients found nothing."""

    name = "random-draws"
    part = "full"
    severity = "masked"
    threshold = _WINS
    means = "random noise succeeds where gradients fail"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = f"{_SOURCE}: random draws win on no example where white-box failed"
    limit = "wrong at a random point, right at all of the attack's"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        epsilon = samples.searched.epsilon
        lowest = torch.full_like(samples.margin, torch.inf)
        with torch.no_grad():
            for draw in range(_DRAWS):
                noise = samples.noise.child(7000 + draw).symmetric(*samples.x.shape[1:], dtype=samples.x.dtype)
                points = (samples.x + epsilon * noise).clamp(0, 1)
                lowest = lowest.minimum(margin_of(samples.logits(points), samples.labels))
        return Measurement.from_values(lowest, (lowest < 0) & ~pgd_path(samples, epsilon).wrong.any(0))


class GreyImage(Indicator):
    """Margin of the grey image, which is within 0.5 of every image, where an attack at 0.5 found nothing."""

    name = "half"
    part = "full"
    severity = "masked"
    means = "an attack at 0.5, where every image can become grey, fails where the grey image does not"
    remedy = MISLEADING
    code = HONEST_GRADIENT
    source = f"{_SOURCE}: at linf .5 no model can beat guessing"
    limit = "wrong at the grey image, right at all points of the attack"

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        with torch.no_grad():
            grey = margin_of(samples.logits(torch.full_like(samples.x, _GREY)), samples.labels)
        return Measurement.from_values(grey, (grey < 0) & ~pgd_path(samples, _GREY, 100).wrong.any(0))


class _Noted(Indicator):
    part = "full"
    decides = False
    source = _SOURCE
    remedy = "More steps or starts (effort='high'); a note"
    code = HIGH_EFFORT

    def measure(self, samples: DiagnosedSamples) -> Measurement:
        epsilon = samples.searched.epsilon
        doubtful = self.has_won(samples, epsilon)
        return Measurement.from_values(doubtful.float(), doubtful)

    @abstractmethod
    def has_won(self, samples: DiagnosedSamples, epsilon: float) -> Tensor:
        """Return [B] True where the attack that should not win did."""


class SingleStep(_Noted):
    """1 if a single step succeeds and 30 fail, else 0."""

    name = "single-step"
    means = "a single step succeeds where an iterated attack fails"
    limit = "wrong after one step alone"

    def has_won(self, samples: DiagnosedSamples, epsilon: float) -> Tensor:
        return pgd_path(samples, epsilon, 1).wrong[-1] & ~pgd_path(samples, epsilon).wrong.any(0)


class MoreSteps(_Noted):
    """1 if twice the steps succeed and 30 fail, else 0."""

    name = "more-steps"
    means = "twice the steps succeed where the attack fails"
    limit = "wrong with twice the steps alone"

    def has_won(self, samples: DiagnosedSamples, epsilon: float) -> Tensor:
        return pgd_path(samples, epsilon, 2 * STEPS).wrong.any(0) & ~pgd_path(samples, epsilon).wrong.any(0)


class Restarts(_Noted):
    """1 if one of five random starts succeeds and the attack from the sample fails, else 0."""

    name = "restarts"
    means = "random starts succeed where the attack from the sample fails"
    limit = "wrong from a random start alone"

    def has_won(self, samples: DiagnosedSamples, epsilon: float) -> Tensor:
        starts = torch.stack([pgd_path(samples, epsilon, start=number).wrong.any(0) for number in range(_RESTARTS)])
        return starts.any(0) & ~pgd_path(samples, epsilon).wrong.any(0)


class LargerBudget(_Noted):
    """1 if an attack fails at twice the strength at which it succeeds, else 0."""

    name = "larger-budget"
    means = "an attack fails at twice the strength at which it succeeds"
    limit = "wrong at the smaller strength alone"

    def has_won(self, samples: DiagnosedSamples, epsilon: float) -> Tensor:
        return pgd_path(samples, epsilon).wrong.any(0) & ~pgd_path(samples, 2 * epsilon).wrong.any(0)
