"""Several runs against each other: what they share, and which model is more robust against what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from robustatlas.errors import UserError
from robustatlas.facts import numbers
from robustatlas.facts.against import Held
from robustatlas.facts.numbers import CONFIDENCE, REPLICATES, hypervolume_of, intervals
from robustatlas.metrics.bootstrap import SampleStatistic, mean_statistic
from robustatlas.metrics.differences import paired_differences
from robustatlas.metrics.hypervolume import AdversarialHypervolume
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.points import different_points
from robustatlas.outcomes.shared import common_strengths, shared_samples
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.result import Result
from robustatlas.wording import marked, wording


def distinct_names(results: Sequence[Result]) -> list[str]:
    """Names of the models, marked where numbers are void; where they are the same, with the names of the run
    directories, or numbered.

    Example:
        >>> same = Result.from_arrays([0], [0], {"linf": [1.0]}, {"linf": [1.0]}, model="net")
        >>> distinct_names([same, same])
        ['net (1)', 'net (2)']
    """
    plain = [result.name for result in results]
    void = [result.suspect for result in results]
    names: list[str] = []
    for position, (name, result) in enumerate(zip(plain, results, strict=True), start=1):
        if plain.count(name) > 1:
            name = f"{name} ({result.path.name if result.path else position})"
        names.append(f"{name} #{position}" if name in names else name)
    return list(map(marked, names, void))


@dataclass(frozen=True)
class Shared:
    """Runs on what they share.

    Attributes:
        names: of the runs.
        tables: their outcomes of the shared samples under the shared attacks and strengths.
        whole: of the shared samples under everything that each of them has.
        grid: attack -> the shared strengths.
        left_out: names of attacks and points that not all of them have.
    """

    names: tuple[str, ...]
    tables: tuple[OutcomeTable, ...]
    whole: tuple[OutcomeTable, ...]
    grid: Mapping[str, list[float]]
    left_out: tuple[str, ...]

    @property
    def samples(self) -> int:
        """Number of shared samples."""
        return self.tables[0].samples

    def hypervolumes(self) -> list[dict[str, AdversarialHypervolume]]:
        """For each run attack -> its hypervolume over the shared strengths, of the attacks where all have one."""
        found = {
            attack: [hypervolume_of(table, attack, strengths) for table in self.whole]
            for attack, strengths in self.grid.items()
            if len(strengths) > 1
        }
        complete = {attack: volumes for attack, volumes in found.items() if None not in volumes}
        return [
            {attack: volume for attack, volumes in complete.items() if (volume := volumes[run]) is not None}
            for run in range(len(self.names))
        ]


def what_is_shared(results: Sequence[Result], names: Sequence[str]) -> Shared:
    """The samples, attacks and strengths that all runs have.

    Raises:
        UserError: where they are about different images, or share no samples or no attack at the same strength.
    """
    _check_same_data(results, names)
    tables = [_named(result, name) for result, name in zip(results, names, strict=True)]
    whole = shared_samples(tables)
    judged = [table.judged() for table in whole]
    grid = common_strengths(judged)
    if not grid:
        raise UserError(f"{' and '.join(names)} share no attack at the same strength; evaluate them alike to compare.")
    attacks = list(dict.fromkeys(attack for table in whole for attack in table.attacks))
    left_out = []
    for table in whole:
        own = {attack: table.strengths(attack).tolist() for attack in table.attacks if attack in grid}
        left_out += different_points(own, grid, own)[1]
    return Shared(
        names=tuple(names),
        tables=tuple(table.restrict(grid) for table in judged),
        whole=tuple(whole),
        grid=grid,
        left_out=tuple(dict.fromkeys([*(attack for attack in attacks if attack not in grid), *left_out])),
    )


def statistics_of(
    shared: Shared, run: int, held: Held | None = None, union: Mapping[str, float] | None = None
) -> dict[str, SampleStatistic]:
    """Every number in which runs are compared, of one of them.

    Args:
        shared: the runs.
        run: position of the one.
        held: what they share with a reference.
        union: see `robustatlas.facts.numbers.union_strengths`; None for no union.
    """
    table = shared.tables[run]
    found = _accuracies(table, union) | _volumes(shared, run)
    return found | (numbers.against(table, held) if held else {})


def _accuracies(table: OutcomeTable, union: Mapping[str, float] | None) -> dict[str, SampleStatistic]:
    found = numbers.overall(table, union)
    if len(table.attacks) > 1:
        found |= {f"average {attack}": statistic for attack, statistic in numbers.averages(table).items()}
    return found


def _volumes(shared: Shared, run: int) -> dict[str, SampleStatistic]:
    return {
        f"100 AH {attack}": mean_statistic(100 * volume.per_sample, 100.0)
        for attack, volume in shared.hypervolumes()[run].items()
    }


def intervals_of(
    shared: Shared, run: int, held: Held | None = None, union: Mapping[str, float] | None = None
) -> dict[str, Interval]:
    """The numbers of `statistics_of` with their intervals."""
    table = shared.tables[run]
    found = numbers.with_doubt(table, lambda table: intervals(_accuracies(table, union)))
    found |= intervals(_volumes(shared, run))
    return found | (numbers.intervals_against(table, held) if held else {})


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
class Standings:
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


def standings(results: Sequence[Result], names: Sequence[str]) -> Standings | None:
    """Compare runs pair by pair on the images they share; None where they share no images or no strengths.

    A run is ahead of another where the interval of their difference excludes 0. The intervals hold for all pairs at
    once (Bonferroni), for each line of the comparison by itself.
    """
    if len(results) < 2:
        return None
    try:
        shared = what_is_shared(results, names)
    except UserError:
        return None
    statistics = [numbers.overall(table) | numbers.averages(table) for table in shared.tables]
    values = [
        numbers.with_doubt(table, lambda table: intervals(numbers.overall(table) | numbers.averages(table)))
        for table in shared.tables
    ]
    ahead = _ahead(statistics)

    def contest(key: str, label: str, attack: str, strengths: int) -> Contest:
        beaten = {second for found, _, second in ahead if found == key}
        leaders = tuple(run for run in range(len(results)) if run not in beaten)
        return Contest(label, attack, strengths, tuple(of_run[key] for of_run in values), leaders)

    points = sum(map(len, shared.grid.values()))
    return Standings(
        names=tuple(names),
        samples=shared.samples,
        clean=contest("clean accuracy", "Clean images", "", 0),
        attacks=tuple(contest(a, wording(a).label, a, len(kept)) for a, kept in shared.grid.items()),
        together=contest("average accuracy", "All attacks", "", points) if len(shared.grid) > 1 else None,
    )


def _ahead(statistics: Sequence[dict[str, SampleStatistic]]) -> set[tuple[str, int, int]]:
    """Triples (line, run, run that it is significantly ahead of)."""
    pairs = list(combinations(range(len(statistics)), 2))
    found = set()
    for first, second in pairs:
        confidence = 1 - (1 - CONFIDENCE) / len(pairs)
        for key, difference in paired_differences(
            statistics[first], statistics[second], confidence, REPLICATES
        ).items():
            if difference.low > 0:
                found.add((key, first, second))
            elif difference.high < 0:
                found.add((key, second, first))
    return found


def _named(result: Result, name: str) -> OutcomeTable:
    return OutcomeTable(
        name, result.data, result.index, result.labels, result.clean_prediction, result.clean_margin, result.outcomes
    )


def _check_same_data(results: Sequence[Result], names: Sequence[str]) -> None:
    """Raise where the runs are known to be about different images."""
    first, *others = results
    for name, other in zip(names[1:], others, strict=True):
        hashes = [run.identity.data.images_sha256 if run.identity else None for run in (first, other)]
        if all(hashes) and hashes[0] == hashes[1]:
            continue
        known = all(hashes) and np.array_equal(first.index, other.index)
        if known or first.data != other.data:
            raise UserError(
                f"{names[0]} was evaluated on {first.data} and {name} on {other.data}, which hold different images; "
                "evaluate the same data to compare."
            )
