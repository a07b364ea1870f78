"""That a run stopped when enough was known, and what is known of all samples whenever one stops."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from robustatlas.common.wording import counted
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.sequences import known_accuracies
from robustatlas.outcomes.shared import rows_of
from robustatlas.report.facts.numbers import CONFIDENCE
from robustatlas.results.result import Result


@dataclass(frozen=True)
class Stopped:
    """A run whose samples were drawn at random until enough was known: ``samples`` of ``population``. ``clean`` and
    ``accuracies`` (attack -> robust accuracy at each strength) are of the whole population, in percent; all their
    intervals hold together, whenever one stops."""

    samples: int
    population: int
    why: str
    clean: Interval
    accuracies: Mapping[str, tuple[Interval, ...]]

    @property
    def sentence(self) -> str:
        """What a reader of other intervals has to know."""
        return (
            f"Stopped after {counted(self.samples, 'sample')} of {self.population:,}, drawn at random, {self.why}. "
            "Its other intervals are those of a number of samples that is fixed before; one that a run stops at, since "
            f"it looks narrow, promises less. What holds at {100 * CONFIDENCE:.0f} % whenever one stops, for all of "
            "them and all accuracies together:"
        )


def stopped(result: Result) -> Stopped | None:
    """What the last stop of a run guarantees, by what the run knows of its samples now; None where it did not stop, or
    went on until it had all samples."""
    stops = [] if result.run is None else result.run.stops()
    for stop in reversed(stops):
        there = set(stop.attacks) <= set(result.judged().attacks) and np.isin(stop.index, result.index).all()
        if there and result.samples < stop.population:
            drawn = result.select(rows_of(result.index, stop.index))
            clean, accuracies = known_accuracies(drawn, stop.population, stop.attacks, CONFIDENCE)
            return Stopped(len(stop.order), stop.population, _why(stop.until), clean, accuracies)
    return None


def _why(until: float | str) -> str:
    if until == "separated":
        return "when it was known which of two models is better on average"
    return f"when every accuracy was known to {until:g} points either way"
