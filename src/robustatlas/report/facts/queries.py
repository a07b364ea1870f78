"""How soon a model that can only be asked is broken: success over the number of queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.queries import success_over_queries
from robustatlas.outcomes.outcome import Integers, Outcome
from robustatlas.report.facts.numbers import CONFIDENCE

LIMITS = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
"""Numbers of queries at which success is told, about a third of a decade apart."""


@dataclass(frozen=True)
class QuerySuccess:
    """One attack at one strength.

    Attributes:
        limits: [Q] numbers of queries, up to what was asked.
        success: [Q] percent of all samples broken within them.

    Example:
        >>> QuerySuccess("square-linf", 0.1, (10,), (proportion_interval(3, 10),)).success[0].value
        30.0
    """

    attack: str
    strength: float
    limits: tuple[int, ...]
    success: tuple[Interval, ...]


def query_successes(outcome: Outcome) -> tuple[QuerySuccess, ...]:
    """What one attack found at its middle and its largest strength.

    Returns:
        none where gradients were used, or queries were not counted.

    Example:
        >>> import robustatlas as ra
        >>> ask = ra.from_predictions(lambda x: (x.sum((1, 2, 3)) > 2).astype(int), "labels", classes=2, queries=60)
        >>> data = (np.full((2, 1, 2, 2), 0.6, np.float32), np.array([1, 1]))
        >>> result = ra.evaluate(ask, data, strengths={"hop-skip-jump-l2": [0.5, 1.0]})
        >>> [(found.strength, found.limits) for found in query_successes(result.outcome("hop-skip-jump-l2"))]
        [(0.5, (10, 30, 60)), (1.0, (10, 30, 60))]
    """
    if outcome.queries is None:
        return ()
    asked, last = int(outcome.forward.max()), len(outcome.strengths) - 1
    limits = (*(limit for limit in LIMITS if limit < asked), asked)
    return tuple(_at(outcome, outcome.queries[:, level], level, limits) for level in sorted({last // 2, last}))


def _at(outcome: Outcome, queries: Integers, level: int, limits: tuple[int, ...]) -> QuerySuccess:
    shares = success_over_queries(queries, limits)
    counts = np.rint(shares / 100 * outcome.samples).astype(int).tolist()
    success = tuple(proportion_interval(count, outcome.samples, CONFIDENCE) for count in counts)
    return QuerySuccess(outcome.attack, float(outcome.strengths[level]), limits, success)
