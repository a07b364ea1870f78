"""Pairs of models on the same samples: differences, p-values, and who is ahead."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from robustatlas.metrics.bootstrap import SampleStatistic
from robustatlas.metrics.comparison import chance_of_difference, difference_intervals, holm
from robustatlas.metrics.intervals import Interval
from robustatlas.report.numbers.definitions import CONFIDENCE, REPLICATES, SIGNIFICANCE

MOST_COMPARED = 10
"""Number of models up to which every p-value is computed; of more models only those of intervals that exclude 0."""


@dataclass(frozen=True)
class Pair:
    """One model against another one.

    Attributes:
        first, second: positions of the models.
        differences: name of a number -> first less second; the intervals hold for all pairs at once (Bonferroni), for
            each number by itself.
        p_values: name of a number -> p-value of no difference, corrected for all pairs (Holm), for each number by
            itself.
    """

    first: int
    second: int
    differences: Mapping[str, Interval]
    p_values: Mapping[str, float]

    def leader(self, number: str) -> int | None:
        """Return the model that is ahead in a number; None where neither is, or where they may not be compared.

        A model is ahead if the corrected p-value of the difference is below 0.05 and the interval excludes 0.
        """
        difference = self.differences.get(number)
        if difference is None or not difference.excludes(0) or self.p_values[number] >= SIGNIFICANCE:
            return None
        return self.first if difference.value > 0 else self.second


def pairs_of(
    statistics: Sequence[Mapping[str, SampleStatistic]], barred: Sequence[Collection[str]]
) -> tuple[Pair, ...]:
    """Compare every model with every other one.

    Args:
        statistics: of each model the same numbers on the same samples.
        barred: of each model the numbers that may not compete.
    """
    chosen = list(combinations(range(len(statistics)), 2))
    confidence = 1 - (1 - CONFIDENCE) / max(len(chosen), 1)
    differences, chances = [], []
    for first, second in chosen:
        left_out = {*barred[first], *barred[second]}
        ours, theirs = (
            {name: number for name, number in statistics[one].items() if name not in left_out}
            for one in (first, second)
        )
        found = difference_intervals(ours, theirs, confidence, REPLICATES)
        tested = [name for name, gap in found.items() if len(statistics) <= MOST_COMPARED or gap.excludes(0)]
        differences.append(found)
        chances.append(
            dict.fromkeys(found, 1.0) | {name: chance_of_difference(ours[name], theirs[name]) for name in tested}
        )
    corrected = _corrected(chances)
    return tuple(
        Pair(first, second, difference, chance)
        for (first, second), difference, chance in zip(chosen, differences, corrected, strict=True)
    )


def _corrected(chances: Sequence[Mapping[str, float]]) -> list[dict[str, float]]:
    found: list[dict[str, float]] = [{} for _ in chances]
    for name in dict.fromkeys(name for each in chances for name in each):
        having = [place for place, each in enumerate(chances) if name in each]
        for place, value in zip(having, holm([chances[place][name] for place in having]), strict=True):
            found[place][name] = float(value)
    return found
