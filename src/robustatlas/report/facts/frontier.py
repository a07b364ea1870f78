"""The margin that is left as the strength grows, as facts of a run."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.wording import UPPER_BOUND
from robustatlas.metrics.hypervolume import AdversarialHypervolume
from robustatlas.metrics.intervals import Interval


@dataclass(frozen=True)
class Frontier:
    """The margin that is left as the strength grows.

    Attributes:
        sizes: [L] strengths, and 0 before them where the clean margins are known.
        mean: [L] mean over the samples of the margin left, in [0, 1].
        volume: adversarial hypervolume, its mean over the samples.
        hypervolume: of every sample.
        searched: whether the lowest margins were searched for; otherwise the hypervolume is an upper bound.
    """

    sizes: NDArray[np.float64]
    mean: NDArray[np.float64]
    volume: Interval
    hypervolume: AdversarialHypervolume
    searched: bool

    @property
    def word(self) -> str:
        """What is to be said beside the hypervolume; empty where it was searched for."""
        return "" if self.searched else UPPER_BOUND
