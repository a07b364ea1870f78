"""What a sample costs under each attack: what was measured, and until then what its plan says."""

from __future__ import annotations

from collections.abc import Sequence

from robustatlas.attacks.passes import most_passes
from robustatlas.evaluation.plan import Task

_TYPICAL = 500
"""Forward and backward pairs of a sample that nothing is known of, on average over the tasks that may take so many."""


class Costs:
    """Seconds a sample of each task.

    Args:
        weights: passes that a sample of each task takes at most.
        pair: seconds that the forward and backward pass of one sample take.

    Example:
        >>> costs = Costs([1.0, 2.0], pair=0.01)
        >>> costs.learn(0, seconds=30.0, samples=10)
        >>> costs.of(0), costs.of(1)
        (3.0, 6.0)
    """

    def __init__(self, weights: Sequence[float], pair: float) -> None:
        share = min(1.0, _TYPICAL * len(weights) / max(sum(weights), 1.0))
        self._expected = [max(pair, 2e-12) * share * weight for weight in weights]
        self._known = [False] * len(weights)
        self._seconds = [0.0] * len(weights)
        self._samples = [0] * len(weights)

    def expect(self, task: int, seconds: float) -> None:
        """A sample of a task took so long before, perhaps elsewhere; what is learned here replaces it."""
        if seconds > 0:
            self._expected[task], self._known[task] = seconds, True

    def learn(self, task: int, seconds: float, samples: int) -> None:
        """Samples of a task took so long."""
        self._seconds[task] += seconds
        self._samples[task] += samples

    @property
    def measured(self) -> bool:
        """Whether anything was learned."""
        return any(self._samples)

    def planned(self, task: int) -> bool:
        """Whether what is said of a task is no more than what its plan allows."""
        return not self.measured and not self._known[task]

    def of(self, task: int) -> float:
        """Seconds a sample; of tasks that have not begun as expected, in proportion to those that have."""
        begun = [number for number, seconds in enumerate(self._seconds) if seconds > 0]
        if task in begun:
            return self._seconds[task] / self._samples[task]
        measured = sum(self._seconds[number] / self._samples[number] for number in begun)
        return self._expected[task] * (measured / sum(self._expected[number] for number in begun) if begun else 1.0)


def weight_of(task: Task, classes: int) -> float:
    """How much work a task may be at most, in pairs of a forward and a backward pass of a sample on which every run
    comes to nothing."""
    attack, search, strengths = task.attack, task.search, len(task.attack.strengths)
    searched = most_passes(attack.plans[search], search, strengths, classes, attack.threat.chooses)
    return (searched + strengths * attack.typical) / 2
