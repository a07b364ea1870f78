"""What runs through smoothed ReLUs found beyond those through the network's own gradients, as a finding."""

from collections.abc import Iterable

import numpy as np

from robustatlas.checks.advice import HIGH_EFFORT
from robustatlas.checks.verdict import Finding
from robustatlas.metrics.audit import LARGE
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.outcomes.outcome import Floats, Outcome, broken_within
from robustatlas.outcomes.readings import Reading


def piecewise_findings(outcomes: Iterable[Outcome]) -> list[Finding]:
    """A finding for each attack with runs of both kinds. It is flagged as an audit is: where one search, here that
    through the network's own gradients, surely leaves more than 5 points more in the mean over the strengths.
    """
    return [_finding(each, each.true_size) for each in outcomes if each.true_size is not None and each.monotone]


def _finding(outcome: Outcome, true: Floats) -> Finding:
    missed = outcome.broken() & ~broken_within(true, outcome.strengths)
    counts = missed.sum(0)
    low, high = proportion_bounds(counts, outcome.samples)
    share = Interval(float(100 * missed.mean()), float(low.mean()), float(high.mean()), 0.95)
    reading = Reading(
        name=f"piecewise {outcome.attack}",
        severity="doubtful",
        threshold=LARGE / 100,
        limit="broken at a strength through smoothed ReLUs alone",
        means=f"the gradient is all but piecewise constant: {outcome.attack} broke what only smoothed ReLUs lead to",
        remedy="Evaluate at high effort (effort='high'); attacks through the network's own gradient miss examples",
        code=HIGH_EFFORT,
        source="ours: runs of one plan through both gradients",
        values=tuple(map(float, missed.mean(1))),
        doubtful=tuple(np.flatnonzero(missed.any(1)).tolist()),
    )
    return Finding(reading.name, share.value, share, LARGE, share.low > LARGE, outcome.samples, reading, opens=False)
