"""Interval bound propagation: boxes, layer by layer; the cheapest bound, tight on networks trained for it."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import MARGIN_OF_SIZES, ROUNDING, Certificate, Samples, Subject, in_ball
from robustatlas.certificates.bounds import Beyond, Bounds, most_seconds
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.sizes import largest
from robustatlas.threats.lp import Lp, whole

_BOUNDS = 6
"""Bounds that a sample takes, about: 4 to 6 on the digits, 6 to 7 on residual networks of CIFAR-10."""


@dataclass(frozen=True)
class InBalls(Certificate):
    """A bound on the margins over a ball of linf, l2 or l1, and the largest ball on which it is positive."""

    backwards: ClassVar[bool] = True
    """Whether hidden layers are bounded backwards."""

    def fits(self, attack: Attack) -> bool:
        return in_ball(attack)

    def check(self, subject: Subject, attack: Attack) -> None:
        super().check(subject, attack)
        _ = subject.network

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        return self.largest(subject, attack, samples, None)

    def largest(self, subject: Subject, attack: Attack, samples: Samples, start: Tensor | None) -> Tensor:
        """The largest sizes, above those of a ``start`` [B] that are certified already."""
        p = cast(Lp, attack.threat).p
        first = attack.strengths[len(attack.strengths) // 2]
        beyond = Beyond()

        def margin(size: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            at = rows.to(samples.x.device)
            ball = NormBall(samples.x[at], size.to(samples.x.device) * MARGIN_OF_SIZES, p)
            bounds = Bounds.of(subject.network, ball, backwards=self.backwards, known=beyond.of(at))
            found, reach = (each.amin(1) for each in self.reaches(bounds, samples.labels[at]))
            if self.backwards:
                beyond.learn(at, found <= 0, bounds.sides, len(samples.x))
            return found.cpu(), reach.cpu() * (1 - ROUNDING) / MARGIN_OF_SIZES

        return largest(margin, len(samples.x), first, whole(p, samples.x[0].numel()), start)

    def most(self, subject: Subject, attack: Attack, x: Tensor) -> float:
        return _BOUNDS * most_seconds(subject.network, x) if self.backwards else 0.0

    def holds(self, subject: Subject, attack: Attack, samples: Samples, sizes: Tensor) -> Tensor:
        """As of every certificate; here by the bound at the very size, and only where that fails, which may be as
        larger sets told more of the layers, by certifying again."""
        p = cast(Lp, attack.threat).p
        radius = sizes.clamp_max(whole(p, samples.x[0].numel())) * (1 - ROUNDING)
        ball = NormBall(samples.x, radius.to(samples.x.device) * MARGIN_OF_SIZES, p)
        held = self.margins(subject, ball, samples.labels).amin(1).cpu() > 0
        if len(left := (~held).nonzero().squeeze(1)):
            held[left] = super().holds(subject, attack, samples.take(left), sizes[left])
        return held

    def margins(self, subject: Subject, ball: NormBall, labels: Tensor) -> Tensor:
        """``[B, C]``: lower bounds of the margins on a ball, inf at the label."""
        return self.reaches(Bounds.of(subject.network, ball, backwards=self.backwards), labels)[0]

    @abstractmethod
    def reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        """The margins [B, C], and the radii [B, C] up to which the same lines keep each above 0; 0: nothing is said."""


@dataclass(frozen=True)
class IntervalBounds(InBalls):
    """Bounds by intervals; the last affine layers are multiplied into the margins first.

    Source: Gowal et al. 2018, On the Effectiveness of Interval Bound Propagation, section 3.

    Example:
        >>> IntervalBounds().name
        'interval'
    """

    name: ClassVar[str] = "interval"
    source: ClassVar[str] = "Gowal et al. 2018 (IBP)"
    backwards: ClassVar[bool] = False

    def reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        margins = bounds.margins(labels, backwards=False)
        return margins, torch.zeros_like(margins)
