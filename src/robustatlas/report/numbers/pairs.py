"""Pairs of models on the same samples: differences, p-values, and who is ahead."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from robustatlas.metrics.bootstrap import SampleStatistic
from robustatlas.metrics.comparison import Difference, difference_intervals
from robustatlas.report.numbers.definitions import REPLICATES, SIGNIFICANCE

MOST_COMPARED = 10
"""Number of models up to which every p-value is computed; of more models only those of intervals that exclude 0."""


@dataclass(frozen=True)
class Pair:
    """One model against another one.

    Attributes:
        first, second: positions of the models.
        differences: name of a number -> first less second, with its interval and p-value. Both are corrected for all
            pairs of models (Bonferroni), for each number by itself, and the interval excludes 0 exactly where the
            p-value is below 0.05.
    """

    first: int
    second: int
    differences: Mapping[str, Difference]

    @property
    def p_values(self) -> dict[str, float]:
        """Name of a number -> corrected p-value of no difference."""
        return {name: difference.p_value for name, difference in self.differences.items()}

    def leader(self, number: str) -> int | None:
        """Return the model that is ahead in a number; None where neither is, or where they may not be compared.

        A model is ahead if the corrected p-value of the difference is below 0.05.
        """
        difference = self.differences.get(number)
        if difference is None or difference.p_value >= SIGNIFICANCE:
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
    return tuple(
        Pair(first, second, _differences(statistics, first, second, {*barred[first], *barred[second]}, len(chosen)))
        for first, second in chosen
    )


def _differences(
    statistics: Sequence[Mapping[str, SampleStatistic]], first: int, second: int, left_out: Collection[str], pairs: int
) -> dict[str, Difference]:
    """Return the differences of one pair of models, corrected for the number of pairs."""
    ours, theirs = (
        {name: number for name, number in statistics[model].items() if name not in left_out}
        for model in (first, second)
    )
    tested = len(statistics) <= MOST_COMPARED
    found = difference_intervals(ours, theirs, 1 - SIGNIFICANCE / pairs, REPLICATES, tested=tested)
    return {name: replace(one, p_value=min(1.0, pairs * one.p_value)) for name, one in found.items()}
