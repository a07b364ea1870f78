"""Sets of one parameter: brightness, contrast, saturation, hue; certified piece by piece along the curve of images."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import MARGIN_OF_SIZES, Certificate, Samples, Subject
from robustatlas.certificates.bounds import Bounds, seconds_of_crown
from robustatlas.certificates.regions import Segment
from robustatlas.common.bundle import per_sample
from robustatlas.threats.color import Line

_FIRST = 1 / 32
"""Length of the first piece, relative to the largest strength of an attack. Pieces double and halve from there, so that
another length costs or saves a piece or two."""
_ROUNDS = 200
"""Pieces in one direction, at most: four times what the digits take, so that none of them ends here."""
_PIECES = 40
"""Bounds that a sample takes, about: 33 to 47 on the digits."""


@dataclass(frozen=True)
class LineCertificate(Certificate):
    """A walk from the clean image in both directions, each piece bounded by CROWN along the chord between its ends.

    A piece that is certified is followed by one twice as long, another one is halved, until it is shorter than
    ``precision`` of the size. How far numbers leave the chord, where they are clipped or their hue turns, is known
    exactly.

    Attributes:
        precision: relative, of the certified size.

    Example:
        >>> LineCertificate().name
        'line'
    """

    name: ClassVar[str] = "line"
    source: ClassVar[str] = "CROWN (Zhang et al. 2018) on pieces of a curve; cf. Mohapatra et al. 2020 (Semantify-NN)"
    covers: ClassVar[str] = "it covers brightness, contrast, saturation and hue"

    precision: float = 1e-3

    def supports(self, attack: Attack) -> bool:
        return isinstance(attack.threat, Line)

    def check(self, subject: Subject, attack: Attack) -> None:
        super().check(subject, attack)
        _ = subject.network

    def seconds_at_most(self, subject: Subject, attack: Attack, x: Tensor) -> float:
        return _PIECES * seconds_of_crown(subject.network, x)

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        threat = attack.threat
        assert isinstance(threat, Line)
        count = len(samples.x)
        limit = torch.stack(threat.reach(samples.x), 1).flatten()
        sample = torch.arange(count, device=limit.device).repeat_interleave(2)
        sign = torch.tensor([-1.0, 1.0], dtype=torch.float64, device=limit.device).repeat(count)
        at = torch.zeros_like(limit)
        step = (attack.strengths[-1] * _FIRST * torch.ones_like(limit)).minimum(limit)
        stopped = torch.zeros_like(limit, dtype=torch.bool)
        for _ in range(_ROUNDS):
            end = self._ends(at, limit, stopped)
            rows = ((at < end) & ~stopped).nonzero().squeeze(1)
            if not len(rows):
                break
            to = torch.minimum(at[rows] + step[rows], limit[rows])
            of = sample[rows]
            piece = _piece(threat, samples.x[of], sign[rows] * at[rows], sign[rows] * to)
            good = _certified(subject, piece, samples.labels[of])
            at[rows] = torch.where(good, to, at[rows])
            step[rows] = torch.where(good, 2.0, 0.5) * step[rows]
            stopped[rows] = step[rows] < self.precision / 2 * at[rows].clamp_min(1e-6 * attack.strengths[-1])
        done = at >= limit
        found = torch.where(done, torch.inf, at).view(count, 2).amin(1)
        return (found / MARGIN_OF_SIZES).cpu()

    def _ends(self, at: Tensor, limit: Tensor, stopped: Tensor) -> Tensor:
        """Return how far to go in each direction: no further than where the other one has stopped."""
        own = torch.where(stopped, at, torch.inf).view(-1, 2)
        return torch.minimum(limit.view(-1, 2), own.flip(1)).flatten()


def _piece(threat: Line, x: Tensor, start: Tensor, end: Tensor) -> Segment:
    """Return the images between two thetas [P], as a chord and how far they leave it."""
    first, last = threat.transform(x, per_sample(start, x)), threat.transform(x, per_sample(end, x))
    low, high = torch.minimum(start, end), torch.maximum(start, end)
    below, above = torch.zeros_like(x), torch.zeros_like(x)
    for theta in threat.breaks(x):
        inside = torch.minimum(torch.maximum(theta, per_sample(low, x)), per_sample(high, x))
        share = (inside - per_sample(start, x)) / per_sample(end - start, x)
        off = threat.transform(x, inside) - (first + share * (last - first))
        below, above = torch.maximum(below, -off), torch.maximum(above, off)
    return Segment(first, last, below, above, threat.roundings)


def _certified(subject: Subject, piece: Segment, labels: Tensor) -> Tensor:
    bounds = Bounds(subject.network, piece, backwards=True)
    return bounds.margins(labels, backwards=True).amin(1) > 0
