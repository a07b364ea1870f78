"""Interval bound propagation: boxes, layer by layer; the cheapest bound, tight on networks trained for it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import (
    MARGIN_OF_SIZES,
    ROUNDING,
    Certificate,
    Samples,
    Subject,
    in_ball,
    norm_of,
)
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.sizes import largest


@dataclass(frozen=True)
class InBalls(Certificate):
    """A bound on the margins over a ball of linf, l2 or l1, and the largest ball on which it is positive."""

    def fits(self, attack: Attack) -> bool:
        return in_ball(attack)

    def check(self, subject: Subject, attack: Attack) -> None:
        super().check(subject, attack)
        _ = subject.network

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        return self.largest(subject, attack, samples, None)

    def largest(self, subject: Subject, attack: Attack, samples: Samples, start: Tensor | None) -> Tensor:
        """The largest sizes, above those of a ``start`` [B] that are certified already."""
        p = norm_of(attack)
        assert p is not None
        first = attack.strengths[len(attack.strengths) // 2]

        def margin(size: Tensor, rows: Tensor) -> Tensor:
            ball = NormBall(samples.x[rows], size.to(samples.x.device) * MARGIN_OF_SIZES, p)
            return self.margins(subject, ball, samples.labels[rows]).amin(1).cpu()

        return largest(margin, len(samples.x), first, whole(p, samples.x[0].numel()), start)

    def holds(self, subject: Subject, attack: Attack, samples: Samples, sizes: Tensor) -> Tensor:
        """As of every certificate; here by the bound at the very size."""
        p = norm_of(attack)
        assert p is not None
        radius = sizes.clamp_max(whole(p, samples.x[0].numel())) * (1 - ROUNDING)
        ball = NormBall(samples.x, radius.to(samples.x.device) * MARGIN_OF_SIZES, p)
        return self.margins(subject, ball, samples.labels).amin(1).cpu() > 0

    @abstractmethod
    def margins(self, subject: Subject, ball: NormBall, labels: Tensor) -> Tensor:
        """``[B, C]``: lower bounds of the margins on a ball, inf at the label."""


def whole(p: float, numbers: int) -> float:
    """The size of the ball that holds all of [0, 1]^n, wherever it is."""
    return 1.0 if p == torch.inf else float(numbers) ** (1 / p)


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

    def margins(self, subject: Subject, ball: NormBall, labels: Tensor) -> Tensor:
        return Bounds.of(subject.network, ball, backwards=False).margins(labels, backwards=False)
