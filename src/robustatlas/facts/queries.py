"""How soon a model that can only be asked is broken: success over the number of queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robustatlas.facts.numbers import CONFIDENCE
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.queries import success_over_queries
from robustatlas.result import Result

LIMITS = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000)
"""Numbers of queries at which success is told, about a third of a decade apart."""


@dataclass(frozen=True)
class QuerySuccess:
    """One attack at one strength.

    Attributes:
        attack: name.
        strength: at which samples are broken.
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


def query_successes(result: Result) -> list[QuerySuccess]:
    """Each attack of a model that could only be asked, at its middle and its largest strength.

    Args:
        result: of a run.

    Returns:
        none where gradients were used, or queries were not counted.

    Example:
        >>> import robustatlas as ra
        >>> ask = ra.from_predictions(lambda x: (x.sum((1, 2, 3)) > 2).astype(int), "labels", classes=2, queries=60)
        >>> data = (np.full((2, 1, 2, 2), 0.6, np.float32), np.array([1, 1]))
        >>> result = ra.evaluate(ask, data, strengths={"hop-skip-jump-l2": [0.5, 1.0]})
        >>> [(found.strength, found.limits) for found in query_successes(result)]
        [(0.5, (10, 30, 60)), (1.0, (10, 30, 60))]
    """
    found = []
    for attack in result.attacks:
        outcome = result.outcome(attack)
        if outcome.queries is None:
            continue
        asked = int(outcome.forward.max())
        limits = (*(limit for limit in LIMITS if limit < asked), asked)
        for level in sorted({(len(outcome.strengths) - 1) // 2, len(outcome.strengths) - 1}):
            shares = success_over_queries(outcome.queries[:, level], limits)
            counts = np.rint(shares / 100 * result.samples).astype(int).tolist()
            success = tuple(proportion_interval(count, result.samples, CONFIDENCE) for count in counts)
            found.append(QuerySuccess(attack, float(outcome.strengths[level]), limits, success))
    return found
