"""What a sample costs under each attack: what was measured, and until then what its plan says."""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_TYPICAL = 500
"""Forward and backward pairs of a sample that nothing is known of, on average over the tasks that may take so many."""


_FIXED = (0, 8, 16, 32, 64, 128, 256)
"""What a part may cost, in samples, beside its own: its last searches take steps that are as long as full ones."""


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
        >>> costs.of(0), costs.of(1), costs.fixed
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
        """A sample of a task took so long before, perhaps elsewhere; what is learned here replaces it."""
        if seconds > 0:
            self._expected[task], self._known[task] = seconds, True

    def learn(self, task: int, seconds: float, samples: int) -> None:
        """A part of so many samples took so long."""
        if seconds > 0:
            self._parts[task].append((samples, seconds))
            begun = {number: np.array(parts, float) for number, parts in enumerate(self._parts) if parts}
            largest = max(parts[:, 0].max() for parts in begun.values())
            tried = [fixed for fixed in _FIXED if 2 * fixed <= largest]  # more would rest on chance
            self.fixed = min(tried, key=lambda fixed: sum(_misfit(parts, fixed) for parts in begun.values()))
            self._measured = {number: _per_sample(parts, self.fixed) for number, parts in begun.items()}

    @property
    def measured(self) -> bool:
        """Whether anything was learned."""
        return bool(self._measured)

    def planned(self, task: int) -> bool:
        """Whether what is said of a task is no more than what its plan allows."""
        return not self.measured and not self._known[task]

    def of(self, task: int) -> float:
        """Seconds a sample; of tasks that have not begun as expected, in proportion to those that have."""
        known = self._measured
        if task in known:
            return known[task]
        return self._expected[task] * (
            sum(known.values()) / sum(self._expected[number] for number in known) if known else 1.0
        )


def _per_sample(parts: NDArray[np.float64], fixed: int) -> float:
    """Of a task's ``parts`` [P, 2], samples and seconds."""
    samples, seconds = parts.sum(0)
    return float(seconds / (samples + fixed * len(parts)))


def _misfit(parts: NDArray[np.float64], fixed: int) -> float:
    """Sum of the squares of how far they are from what they should take, as shares."""
    samples, seconds = parts.T
    return float(np.square(1 - _per_sample(parts, fixed) * (samples + fixed) / seconds).sum())
