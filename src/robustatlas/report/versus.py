"""Several runs against each other: which model is more robust against what, as far as the images can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from robustatlas.errors import UserError
from robustatlas.metrics.bootstrap import (
    AccuracyStatistics,
    SampleStatistic,
    bootstrap_intervals,
    paired_differences,
)
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.matching import CLEAN
from robustatlas.metrics.samples import SampleOutcomes, common_strengths, shared_samples
from robustatlas.report.facts import CONFIDENCE, judged_everywhere
from robustatlas.report.vocabulary import describe

if TYPE_CHECKING:
    from robustatlas.outcomes import Result

REPLICATES = 2000


@dataclass(frozen=True)
class Contest:
    """One line of the comparison.

    Attributes:
        label: "Clean images", the label of an attack, or "All attacks".
        attack: its name; empty for the clean images and for all attacks together.
        strengths: number of strengths that the mean goes over; 0 for the clean images.
        values: accuracy of each run in percent.
        leaders: positions of the runs that no other run is significantly ahead of.
    """

    label: str
    attack: str
    strengths: int
    values: tuple[Interval, ...]
    leaders: tuple[int, ...]


@dataclass(frozen=True)
class Versus:
    """Runs on the images and strengths that all of them have; `together` is None for a single attack."""

    names: tuple[str, ...]
    samples: int
    clean: Contest
    attacks: tuple[Contest, ...]
    together: Contest | None

    @property
    def contests(self) -> tuple[Contest, ...]:
        """The lines of a table: clean, every attack, all of them."""
        return (self.clean, *self.attacks, *([self.together] if self.together else []))


def compare(results: Sequence[Result], names: Sequence[str]) -> Versus | None:
    """Compare runs pair by pair on the images they share; None where they share no images or no strengths.

    A run is ahead of another where the interval of their difference excludes 0. The intervals hold for all pairs at
    once (Bonferroni), for each line of the comparison by itself.
    """
    data = {result.manifest.settings.data.name for result in results}
    if len(results) < 2 or len(data) > 1:
        return None
    try:
        outcomes = shared_samples([_judged(result, name) for result, name in zip(results, names, strict=True)])
    except UserError:
        return None
    grid = common_strengths(outcomes)
    if not grid:
        return None
    statistics = [_statistics(model.restrict(grid)) for model in outcomes]
    values = [bootstrap_intervals(of_run, CONFIDENCE, REPLICATES) for of_run in statistics]
    ahead = _ahead(statistics)

    def contest(key: str, label: str, attack: str, strengths: int) -> Contest:
        beaten = {second for found, _, second in ahead if found == key}
        leaders = tuple(run for run in range(len(results)) if run not in beaten)
        return Contest(label, attack, strengths, tuple(of_run[key] for of_run in values), leaders)

    return Versus(
        names=tuple(names),
        samples=outcomes[0].samples,
        clean=contest("clean", "Clean images", "", 0),
        attacks=tuple(contest(a, describe(a).label, a, len(kept)) for a, kept in grid.items()),
        together=contest("", "All attacks", "", sum(map(len, grid.values()))) if len(grid) > 1 else None,
    )


def _judged(result: Result, name: str) -> SampleOutcomes:
    outcomes = SampleOutcomes.from_result(result, name)
    kept = [attack for attack in result.attacks if judged_everywhere(result.outcome(attack))]
    return outcomes.restrict({attack: outcomes.strengths[attack] for attack in kept})


def _statistics(outcomes: SampleOutcomes) -> dict[str, SampleStatistic]:
    accuracies = AccuracyStatistics(outcomes)
    by_attack = {attack: accuracies.average([attack]) for attack in outcomes.attacks}
    return {"clean": accuracies.accuracy(CLEAN, 0), "": accuracies.average(), **by_attack}


def _ahead(statistics: Sequence[dict[str, SampleStatistic]]) -> set[tuple[str, int, int]]:
    """Triples (line, run, run that it is significantly ahead of)."""
    pairs = list(combinations(range(len(statistics)), 2))
    found = set()
    for first, second in pairs:
        differences = paired_differences(
            statistics[first], statistics[second], 1 - (1 - CONFIDENCE) / len(pairs), REPLICATES
        )
        for key, difference in differences.items():
            if difference.low > 0:
                found.add((key, first, second))
            elif difference.high < 0:
                found.add((key, second, first))
    return found
