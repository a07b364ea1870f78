"""Stability constants of a run, with intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from robustatlas.common.errors import UserError
from robustatlas.common.wording import list_names
from robustatlas.metrics.bootstrap import AccuracyStatistics
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.matching import restrict_training
from robustatlas.metrics.references.reference import read_points, select_shared_points
from robustatlas.metrics.stability import Difficulty, StabilityConstant, stability_constant
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers.against import Held
from robustatlas.report.numbers.statistics import intervals

ALPHA = 3.0
"""Largest difference of difficulty in the stability constant, in percentage points (MultiRobustBench)."""

FLOORS = (0.0, 0.5, 1.0)
"""Smallest differences of difficulty, in percentage points, of the stability constants that are given: the first as
published, the last by pairs of points that no few images decide."""


@dataclass(frozen=True)
class Steadiness:
    """Choice of stability constants. ``difficulty``: of a point, see
    :func:`robustatlas.metrics.stability_constant`; the strengths themselves are those of the one attack of the
    training.

    >>> Steadiness(alpha=0.01, difficulty="epsilon").floors
    (0.0,)
    """

    alpha: float = ALPHA
    difficulty: Difficulty = "reference"

    @property
    def floors(self) -> tuple[float, ...]:
        """Floors in percentage points; without a floor in another unit."""
        return tuple(floor for floor in FLOORS if floor < self.alpha) if self.difficulty == "reference" else (0.0,)

    def attacks(self, seen: Mapping[str, float]) -> list[str] | None:
        """Return the attacks that take part; None: all that the reference ranks."""
        if self.difficulty != "epsilon":
            return None
        if len(seen) != 1:
            raise UserError(
                "By strengths alone the stability constant is of the one attack of the training; "
                f"{list_names(seen) or 'none'} of those that are ranked {'is' if len(seen) == 1 else 'are'} named."
            )
        return [*seen]


def stability(
    table: OutcomeTable, held: Held, trained_on: Mapping[str, float], asked: Steadiness | None = None
) -> tuple[dict[float, StabilityConstant], dict[float, Interval]]:
    """Floor -> the stability constant of a model by its training, and its interval where some pair of points gives it;
    empty where the reference has no clean accuracy.

    Resampling mostly raises the steepest of many slopes: where it does so always, the interval begins at the constant.
    """
    if math.isnan(held.reference.clean) or not held.ranked:
        return {}, {}
    asked = asked or Steadiness()
    seen = restrict_training(trained_on, held.ranked)
    points = {attack: held.ranked[attack] for attack in asked.attacks(seen) or held.ranked}
    ours, reference = AccuracyStatistics(table.restrict_distances(points)), held.table(points)
    hard = asked.difficulty
    if not isinstance(hard, str):
        hard = select_shared_points(read_points(hard, "difficulties", held.reference.accuracies), reference)
    found = {
        floor: stability_constant(ours.table, reference, seen, asked.alpha, floor, difficulty=hard)
        for floor in asked.floors
    }
    known = {
        floor: ours.stability(reference, seen, asked.alpha, floor, difficulty=hard)
        for floor, one in found.items()
        if one.pair
    }
    ends = intervals({str(floor): one for floor, one in known.items()}) if known else {}
    around = {floor: ends[str(floor)] for floor in known}
    return found, {
        floor: replace(one, low=min(one.low, one.value), high=max(one.high, one.value)) for floor, one in around.items()
    }
