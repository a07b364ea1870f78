"""Pairs of models on the same samples: differences, p-values, and who is ahead."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from robustatlas.metrics.bootstrap import SampleStatistic
from robustatlas.metrics.comparison import holm
from robustatlas.metrics.differences import chance_of_difference, difference_intervals
from robustatlas.metrics.intervals import Interval
from robustatlas.report.facts.numbers import CONFIDENCE, REPLICATES

MOST_COMPARED = 10
"""Of more models, the first is held against each of the others, and these not against one another."""


@dataclass(frozen=True)
class Pair:
    """One model against another one. ``differences``: name of a number -> first less second; intervals hold for all
    pairs at once (Bonferroni), for each number by itself. ``p_values``: name of a number -> of no difference, corrected
    for all pairs (Holm), for each number by itself."""

    first: int
    second: int
    differences: Mapping[str, Interval]
    p_values: Mapping[str, float]

    def ahead(self, number: str) -> int | None:
        """The place of the one that is ahead in a number: its interval excludes 0; None where neither is."""
        difference = self.differences[number]
        return None if not difference.excludes(0) else self.first if difference.value > 0 else self.second


def pairs_of(
    statistics: Sequence[Mapping[str, SampleStatistic]], barred: Sequence[Collection[str]]
) -> tuple[Pair, ...]:
    """Every pair of models, or the first with each of the others where there are more than :data:`MOST_COMPARED`.
    ``statistics``: of each model, the same numbers on the same samples. ``barred``: of each model, the numbers that may
    not compete."""
    models = range(len(statistics))
    chosen = list(combinations(models, 2)) if len(models) <= MOST_COMPARED else [(0, other) for other in models[1:]]
    differences, chances = [], []
    for first, second in chosen:
        left_out = {*barred[first], *barred[second]}
        ours, theirs = (
            {name: number for name, number in statistics[one].items() if name not in left_out}
            for one in (first, second)
        )
        differences.append(difference_intervals(ours, theirs, 1 - (1 - CONFIDENCE) / len(chosen), REPLICATES))
        chances.append({name: chance_of_difference(ours[name], theirs[name]) for name in ours})
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
