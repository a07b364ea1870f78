"""CROWN-IBP: linear bounds of the margins over intervals of the hidden layers; cheap, and looser than CROWN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.certificates.base import Subject
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.interval import InBalls
from robustatlas.certificates.regions import NormBall


@dataclass(frozen=True)
class CrownIBP(InBalls):
    """Bounds of the margins backwards by lines, of the hidden layers by intervals; never below the intervals alone.

    Source: Zhang et al. 2020, Towards Stable and Efficient Training of Verifiably Robust Neural Networks, section 4.

    Example:
        >>> CrownIBP().name
        'crown-ibp'
    """

    name: ClassVar[str] = "crown-ibp"
    source: ClassVar[str] = "Zhang et al. 2020 (CROWN-IBP)"

    def margins(self, subject: Subject, ball: NormBall, labels: Tensor) -> Tensor:
        bounds = Bounds.of(subject.network, ball, backwards=False)
        return torch.maximum(bounds.margins(labels, backwards=True), bounds.margins(labels, backwards=False))
