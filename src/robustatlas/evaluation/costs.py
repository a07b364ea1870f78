"""The cost of a sample under each task: as measured, and until then as its plan says."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_TYPICAL = 500
"""Forward and backward pairs of a sample that nothing is known of, on average over the tasks that may take so many."""


_FIXED = (0, 8, 16, 32, 64, 128, 256)
"""Cost of a chunk beside its samples, in samples: its last searches take steps that are as long as those of a full
batch. The value that fits the measured times best is taken."""


_LATEST = 64
"""Parts of a task that are looked at: work on many machines has too many to look at all of them each time."""


class Costs:
    """Seconds a sample of each task, and what a part costs whatever its length.

    A part of n samples takes b (n + f) seconds, with one b for each task and one f for all: they share a network and a
    loop. f is the one that fits the latest parts best.

    Args:
        weights: passes that a sample of each task takes at most.
        pair: seconds that the forward and backward pass of one sample take.

    Example:
        >>> costs = Costs([1.0, 2.0], pair=0.01)
        >>> costs.learn(0, seconds=30.0, samples=14)
        >>> costs.learn(0, seconds=50.0, samples=34)
        >>> costs.seconds_per_sample(0), costs.seconds_per_sample(1), costs.fixed
        (1.0, 2.0, 16)
    """

    def __init__(self, weights: Sequence[float], pair: float) -> None:
        share = min(1.0, _TYPICAL * len(weights) / max(sum(weights), 1.0))
        self._expected = [max(pair, 2e-12) * share * weight for weight in weights]
        self._known = [False] * len(weights)
        self._parts = [deque[tuple[int, float]](maxlen=_LATEST) for _ in weights]
        self._measured: dict[int, float] = {}
        self.fixed = 0

    def expect(self, task: int, seconds: float) -> None:
        """Expect seconds that a sample of a task took before, perhaps elsewhere; what is measured here replaces it."""
        if seconds > 0:
            self._expected[task], self._known[task] = seconds, True

    def learn(self, task: int, seconds: float, samples: int) -> None:
        """Learn the seconds of a chunk."""
        if seconds > 0:
            self._parts[task].append((samples, seconds))
            begun = {number: np.array(parts, float) for number, parts in enumerate(self._parts) if parts}
            largest = max(parts[:, 0].max() for parts in begun.values())
            tried = [fixed for fixed in _FIXED if 2 * fixed <= largest]  # more would rest on chance
            self.fixed = min(tried, key=lambda fixed: sum(_misfit(parts, fixed) for parts in begun.values()))
            self._measured = {number: _per_sample(parts, self.fixed) for number, parts in begun.items()}

    @property
    def measured(self) -> bool:
        """True if a chunk was measured."""
        return bool(self._measured)

    def planned(self, task: int) -> bool:
        """Return if nothing but its plan is known of a task."""
        return not self.measured and not self._known[task]

    def seconds_per_sample(self, task: int) -> float:
        """Return the seconds of a sample. Tasks that have not begun keep their expected ratio to those that have."""
        known = self._measured
        if task in known:
            return known[task]
        return self._expected[task] * (
            sum(known.values()) / sum(self._expected[number] for number in known) if known else 1.0
        )


def _per_sample(parts: NDArray[np.float64], fixed: int) -> float:
    """Return the seconds of a sample from the samples and seconds of measured chunks [P, 2]."""
    samples, seconds = parts.sum(0)
    return float(seconds / (samples + fixed * len(parts)))


def _misfit(parts: NDArray[np.float64], fixed: int) -> float:
    """Return the sum of squared relative errors of a fixed cost."""
    samples, seconds = parts.T
    return float(np.square(1 - _per_sample(parts, fixed) * (samples + fixed) / seconds).sum())
