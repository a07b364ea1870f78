"""Certificates on balls of linf, l2 and l1 by a bound of the margins: intervals, and lines (CROWN)."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import MARGIN_OF_SIZES, ROUNDING, Certificate, Samples, Subject, is_ball
from robustatlas.certificates.bounds import Bounds, LargerBounds, seconds_of_crown
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.sizes import is_certified, largest
from robustatlas.threats.lp import Lp, full_ball_size

_BOUNDS = 6
"""Bounds that a sample takes, about: 4 to 6 on the digits, 6 to 7 on residual networks of CIFAR-10."""


@dataclass(frozen=True)
class Verdicts:
    """Balls on which the model is proven right, and such in which an example was found; the others are not decided.

    Attributes:
        proven: ``[B]`` bool.
        refuted: ``[B]`` bool.
    """

    proven: Tensor
    refuted: Tensor


@dataclass(frozen=True)
class BallCertificate(Certificate):
    """A bound on the margins over a ball of linf, l2 or l1, and the largest ball on which it is positive.

    Attributes:
        strengths: at which alone balls are proven, one bound each. The certified size is then the largest of these that
            was proven, as the next number above it; NaN where none was proven and no example was found either. Empty:
            the largest size is searched.
    """

    strengths: tuple[float, ...] = ()

    backwards: ClassVar[bool] = True
    """If hidden layers are bounded backwards."""

    def supports(self, attack: Attack) -> bool:
        return is_ball(attack)

    def check(self, subject: Subject, attack: Attack) -> None:
        super().check(subject, attack)
        _ = subject.network

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        if not self.strengths:
            return self.largest_sizes(subject, attack, samples)
        sizes, refuted = torch.zeros(len(samples.x), dtype=torch.float64), torch.zeros(len(samples.x), dtype=torch.bool)
        rows = torch.arange(len(samples.x))
        for strength in sorted(each for each in self.strengths if each > 0):
            size = torch.nextafter(torch.tensor(strength, dtype=torch.float64), torch.tensor(torch.inf).double())
            verdicts = self.prove(subject, attack, samples.select(rows), size.expand(len(rows)))
            sizes[rows[verdicts.proven]] = size
            refuted[rows[verdicts.refuted]] = True
            rows = rows[verdicts.proven]
            if not len(rows):
                break
        return torch.where((sizes > 0) | refuted, sizes, torch.nan)

    def largest_sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        """Return the largest sizes [B] that the bound certifies."""
        p = cast(Lp, attack.threat).p
        first = attack.strengths[len(attack.strengths) // 2]
        larger = LargerBounds()

        def margin(size: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            at = rows.to(samples.x.device)
            ball = NormBall(samples.x[at], size.to(samples.x.device) * MARGIN_OF_SIZES, p)
            bounds = Bounds(subject.network, ball, backwards=self.backwards, known=larger.select(at))
            found, reach = (each.amin(1) for each in self.margins_and_reaches(bounds, samples.labels[at]))
            reach = reach * (1 - ROUNDING) / MARGIN_OF_SIZES
            if self.backwards:  # what a reach certifies did not fail: larger sets than this one will be tried
                failed = ~is_certified(size.to(found.device), found, reach)
                larger.store(at, failed, bounds.activation_inputs, len(samples.x))
            return found.cpu(), reach.cpu()

        return largest(margin, len(samples.x), first, full_ball_size(p, samples.x[0].numel()))

    def prove(self, subject: Subject, attack: Attack, samples: Samples, sizes: Tensor) -> Verdicts:
        """Bound the margins once, on the balls of the ``sizes`` [B]."""
        bounds = self.bounds_on_balls(subject, attack, samples, sizes)
        proven = self.proven_margins(bounds, samples.labels).all(1).cpu()
        return Verdicts(proven, torch.zeros_like(proven))

    def bounds_on_balls(self, subject: Subject, attack: Attack, samples: Samples, sizes: Tensor) -> Bounds:
        """Return bounds on the balls that the ``sizes`` [B] name."""
        p = cast(Lp, attack.threat).p
        radius = sizes.clamp_max(full_ball_size(p, samples.x[0].numel())).to(samples.x.device) * MARGIN_OF_SIZES
        return Bounds(subject.network, NormBall(samples.x, radius, p), backwards=self.backwards)

    def proven_margins(self, bounds: Bounds, labels: Tensor) -> Tensor:
        """Return which margins [B, C] are above 0 on the balls of the ``bounds``."""
        margins, reach = self.margins_and_reaches(bounds, labels)
        radius = cast(NormBall, bounds.region).radius
        return (margins > 0) | (reach > radius[:, None] * (1 + ROUNDING))

    def seconds_at_most(self, subject: Subject, attack: Attack, x: Tensor) -> float:
        bounds = len(self.strengths) or _BOUNDS
        return bounds * seconds_of_crown(subject.network, x) if self.backwards else 0.0

    def holds(self, subject: Subject, attack: Attack, samples: Samples, sizes: Tensor) -> Tensor:
        """Prove the very sizes, and certify again only where that fails, which may be as larger sets told more of the
        layers."""
        held = self.prove(subject, attack, samples, sizes * (1 - ROUNDING)).proven
        if len(left := (~held).nonzero().squeeze(1)):
            held[left] = super().holds(subject, attack, samples.select(left), sizes[left])
        return held

    @abstractmethod
    def margins_and_reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return lower bounds of the margins [B, C], and the radii [B, C] up to which the same lines keep each above 0;
        0: nothing is said."""


@dataclass(frozen=True)
class IntervalBounds(BallCertificate):
    """Bounds by intervals; the last affine layers are multiplied into the margins first.

    Source: Gowal et al. 2018, On the Effectiveness of Interval Bound Propagation, section 3.

    Example:
        >>> IntervalBounds().name
        'interval'
    """

    name: ClassVar[str] = "interval"
    source: ClassVar[str] = "Gowal et al. 2018 (IBP)"
    backwards: ClassVar[bool] = False

    def margins_and_reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        margins = bounds.margins(labels, backwards=False)
        return margins, torch.zeros_like(margins)


@dataclass(frozen=True)
class Crown(BallCertificate):
    """Bounds backwards by lines, those of the hidden layers too; intervals wherever they are better.

    Source: Zhang et al. 2018, Efficient Neural Network Robustness Certification with General Activation Functions,
    theorem 3.2, with the lower line of a ReLU of slope 1 or 0 (CROWN-Ada).

    Example:
        >>> Crown().name
        'crown'
    """

    name: ClassVar[str] = "crown"
    source: ClassVar[str] = "Zhang et al. 2018 (CROWN)"

    def margins_and_reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        margins, reach = bounds.margins_and_reaches(labels)
        return torch.maximum(margins, bounds.margins(labels, backwards=False)), reach
