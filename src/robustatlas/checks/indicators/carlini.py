"""Carlini et al. 2019: what every evaluation should show, asked of each sample."""

from abc import abstractmethod

import torch
from torch import Tensor

from robustatlas.checks.advice import HIGH_EFFORT, HONEST_GRADIENT, MISLEADING, WITHOUT_GRADIENTS
from robustatlas.checks.indicators.attack_failures import STEPS, path
from robustatlas.checks.indicators.base import Indicator, LookedAt, Measured
from robustatlas.models.objectives import margin_of

_SOURCE = "Carlini et al. 2019"
_DRAWS = 1000
_RESTARTS = 5
_GREY = 0.5
_WINS = 0.05
"""Share of the samples: black-box attacks win on no more of sound networks."""


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

    def measure(self, look: LookedAt) -> Measured:
        found = look.searched
        black = [found.sizes[kind] for kind in found.black_box]
        best = torch.stack(black).amin(0) if black else torch.full_like(look.margin, torch.inf)
        wins = (best <= found.strength) & (found.white_box() > found.strength)
        return Measured.of(best.clamp_max(1e6), wins, torch.full_like(wins, bool(black)))


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

    def measure(self, look: LookedAt) -> Measured:
        epsilon = look.searched.epsilon
        lowest = torch.full_like(look.margin, torch.inf)
        with torch.no_grad():
            for draw in range(_DRAWS):
                noise = look.noise.child(7000 + draw).symmetric(*look.x.shape[1:], dtype=look.x.dtype)
                lowest = lowest.minimum(margin_of(look.logits((look.x + epsilon * noise).clamp(0, 1)), look.labels))
        return Measured.of(lowest, (lowest < 0) & ~path(look, epsilon).wrong.any(0))


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

    def measure(self, look: LookedAt) -> Measured:
        with torch.no_grad():
            grey = margin_of(look.logits(torch.full_like(look.x, _GREY)), look.labels)
        return Measured.of(grey, (grey < 0) & ~path(look, _GREY, 100).wrong.any(0))


class _Noted(Indicator):
    part = "full"
    decides = False
    source = _SOURCE
    remedy = "More steps or starts (effort='high'); a note"
    code = HIGH_EFFORT

    def measure(self, look: LookedAt) -> Measured:
        epsilon = look.searched.epsilon
        doubtful = self.won(look, epsilon)
        return Measured.of(doubtful.float(), doubtful)

    @abstractmethod
    def won(self, look: LookedAt, epsilon: float) -> Tensor:
        """[B] whether the attack that should not win did."""


class SingleStep(_Noted):
    """Whether a single step succeeds where 30 fail."""

    name = "single-step"
    means = "a single step succeeds where an iterated attack fails"
    limit = "wrong after one step alone"

    def won(self, look: LookedAt, epsilon: float) -> Tensor:
        return path(look, epsilon, 1).wrong[-1] & ~path(look, epsilon).wrong.any(0)


class MoreSteps(_Noted):
    """Whether twice the steps succeed where 30 fail."""

    name = "more-steps"
    means = "twice the steps succeed where the attack fails"
    limit = "wrong with twice the steps alone"

    def won(self, look: LookedAt, epsilon: float) -> Tensor:
        return path(look, epsilon, 2 * STEPS).wrong.any(0) & ~path(look, epsilon).wrong.any(0)


class Restarts(_Noted):
    """Whether five random starts succeed where the attack from the sample fails."""

    name = "restarts"
    means = "random starts succeed where the attack from the sample fails"
    limit = "wrong from a random start alone"

    def won(self, look: LookedAt, epsilon: float) -> Tensor:
        starts = torch.stack([path(look, epsilon, start=number).wrong.any(0) for number in range(_RESTARTS)])
        return starts.any(0) & ~path(look, epsilon).wrong.any(0)


class LargerBudget(_Noted):
    """Whether an attack fails at twice the strength at which it succeeds."""

    name = "larger-budget"
    means = "an attack fails at twice the strength at which it succeeds"
    limit = "wrong at the smaller strength alone"

    def won(self, look: LookedAt, epsilon: float) -> Tensor:
        return path(look, epsilon).wrong.any(0) & ~path(look, 2 * epsilon).wrong.any(0)
