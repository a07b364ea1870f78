"""Constants that all numbers depend on: those of the engine, streams of random numbers, and a version.

The streams of a sample here are those that all of its runs share; the streams of its runs are numbered from 0 on.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from robustatlas.attacks.search.plan import NEAREST
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE


@dataclass(frozen=True)
class Numerics:
    """Recorded with every attack.

    Attributes:
        rounding: gradients smaller than this share of a sample's largest are zero. Float32 has no such floor: entries
            near its rounding still point somewhere, and sign steps along them decide on networks with masked gradients.
        gain: an example must be smaller than the last by this share: one that differs by rounding is the same.
        tolerance: a size is within a strength up to this share.
        nearest: how many classes are ordered by their distance.
    """

    version: ClassVar[int] = 1
    """Rises when the same settings give other numbers."""

    rounding: float = 16 * torch.finfo(torch.float64).eps
    gain: float = 1e-6
    tolerance: float = STRENGTH_TOLERANCE
    nearest: int = NEAREST


NUMERICS = Numerics()

TARGET = -2
"""For its random target."""

DRAWS = -3
"""For what a threat model chooses among draws."""

CLEAN = -4
"""From which a randomised model draws for clean inputs."""

SEARCH, JUDGED = -5, -6
"""From which a randomised model draws in the steps of a run, and to judge what it found."""

SWEPT = -8
"""For the random patterns of sweeps, the same at all strengths."""

TYPICAL, VERIFIED = -7, -9
"""For the draws that say what is typical, and for the second look at those that are misclassified."""
