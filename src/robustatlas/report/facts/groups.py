"""Groups of runs, each the trainings of one model with several seeds, against each other."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, combinations

from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic
from robustatlas.metrics.comparison import RankTest, rank_sum_test
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.reference import Reference
from robustatlas.metrics.trainings import OverTrainings, combine_trainings
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.comparable import check_distinct_trainings
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers import statistics
from robustatlas.report.numbers.against import Held, hold_against
from robustatlas.report.numbers.definitions import CONFIDENCE, REPLICATES, worst_case_points
from robustatlas.report.numbers.of_several import ModelNumbers, numbers_on_shared
from robustatlas.report.numbers.shared import Shared, shared_of_runs, subject_of
from robustatlas.results.result import Result, Results


@dataclass(frozen=True)
class Groups:
    """Groups of runs, on the images, attacks and strengths that all runs have. ``numbers``: group -> number -> of its
    trainings, where every run has it. ``masked``: group -> numbers that may not compete, as they are upper bounds of
    some training. ``union``: attack -> strength up to which it counts for the union accuracy."""

    shared: Shared
    numbers: Mapping[str, Mapping[str, OverTrainings]]
    masked: Mapping[str, frozenset[str]] = field(default_factory=dict)
    held: Held | None = None
    union: Mapping[str, float] = field(default_factory=dict)

    def trainings(self, group: str) -> int:
        """Number of runs of a group."""
        return next(iter(self.numbers[group].values())).values.size

    def tests(self) -> dict[tuple[str, str], dict[str, RankTest]]:
        """Pairs of groups of two trainings or more -> number -> Wilcoxon's rank-sum test over the trainings.

        Table II of Guo et al. 2024 has it over ten seeds of each model; not corrected for the number of tests.
        """
        several = [name for name in self.numbers if self.trainings(name) > 1]
        return {
            (one, other): {
                number: rank_sum_test(self.numbers[one][number].values, self.numbers[other][number].values)
                for number in self.numbers[one]
                if number not in self.masked[one] | self.masked[other]
            }
            for one, other in combinations(several, 2)
        }


def groups_of(
    groups: Mapping[str, Sequence[Result]],
    reference: Reference | None = None,
    union: Mapping[str, float] | None = None,
) -> Groups:
    """Compare groups of runs. ``union``: attack -> strength up to which it counts for the union accuracy; None for the
    middle one of each. Raises :class:`UserError`: no group, an empty one, two runs of one training, or as of
    `shared_of_runs`."""
    if not groups or not all(map(len, groups.values())):
        raise UserError("Groups of one run or more are expected, such as {'a': [first, second], 'b': [third]}.")
    results = runs_of_groups(groups)
    names = [f"{name} ({place})" for name, runs in groups.items() for place in range(1, len(runs) + 1)]
    check_distinct_trainings([subject_of(result, name) for result, name in zip(results, names, strict=True)])
    shared = shared_of_runs(results, names)
    first = shared.table(0)
    at = worst_case_points(first, union)
    leading = results[0]
    held = hold_against(first, reference, leading.records.values(), leading.identity) if reference else None
    held = held if held and held.ranked else None
    sizes = [len(runs) for runs in groups.values() for _ in runs]
    seen = [
        _Training.from_run(numbers_on_shared(shared, place, held, at, {}), held, alone=size == 1)
        for place, size in enumerate(sizes)
    ]
    ends = list(accumulate(len(runs) for runs in groups.values()))
    parts = {name: seen[end - len(groups[name]) : end] for name, end in zip(groups, ends, strict=True)}
    kept = [name for name in seen[0].statistics if all(name in each.statistics for each in seen)]
    found = {group: _group_numbers([each.restrict(kept) for each in part]) for group, part in parts.items()}
    invalid = {group: frozenset().union(*(each.masked for each in part)) for group, part in parts.items()}
    return Groups(shared, found, invalid, held, at)


def runs_of_groups(groups: Mapping[str, Sequence[Result]]) -> Sequence[Result]:
    """The runs of all groups; those on disk are read one by one."""
    parts = [runs for runs in groups.values() if isinstance(runs, Results)]
    if len(parts) == len(groups):
        return Results([path for part in parts for path in part.paths], kept=max(part.kept for part in parts))
    return [run for runs in groups.values() for run in runs]


@dataclass(frozen=True)
class _Training:
    """The numbers that are kept of one run. ``alone``: their intervals by itself, where it is all of its group."""

    statistics: Mapping[str, SampleStatistic]
    masked: frozenset[str]
    alone: Mapping[str, Interval]

    @classmethod
    def from_run(cls, run: ModelNumbers, held: Held | None, alone: bool) -> _Training:
        table = run.table
        largest, uars = _largest_strength_statistics(table), _uars(table, held)
        found = dict(run.statistics) | uars | largest
        invalid = {name for name in largest if masked_shares(table, [name.rpartition("@")[0]])}
        invalid |= {f"UAR {attack}" for attack in table.attacks if masked_shares(table, [attack])}
        invalid |= run.barred
        intervals = _run_intervals(run, held) if alone else {}
        return cls(found, frozenset(invalid), intervals)

    def restrict(self, kept: Collection[str]) -> _Training:
        """Return the training with some of its numbers."""
        return replace(self, statistics={name: self.statistics[name] for name in kept})


def _group_numbers(trainings: Sequence[_Training]) -> dict[str, OverTrainings]:
    """Return the numbers of a group; of one run with the intervals that it has by itself."""
    found = combine_trainings([each.statistics for each in trainings], CONFIDENCE, REPLICATES)
    alone = trainings[0].alone
    return {name: replace(number, images=alone.get(name, number.images)) for name, number in found.items()}


def _run_intervals(run: ModelNumbers, held: Held | None) -> dict[str, Interval]:
    """Return the interval of each number of a run as other pages show it."""
    found: dict[str, Interval] = dict(run.numbers)
    found |= statistics.with_doubt(run.table, lambda table: statistics.intervals(_largest_strength_statistics(table)))
    if held is not None:
        uars = statistics.with_doubt(run.table, lambda table: statistics.intervals(_uars(table, held)))
        found |= statistics.limit_ratios(uars, held)
    return found


def _uars(table: OutcomeTable, held: Held | None) -> dict[str, SampleStatistic]:
    if held is None:
        return {}
    ours, reference = AccuracyStatistics(table.restrict_distances(held.ranked)), held.table(held.ranked)
    return {f"UAR {attack}": ours.uar(reference, [attack]) for attack in held.ranked}


def _largest_strength_statistics(table: OutcomeTable) -> dict[str, SampleStatistic]:
    """Return robust accuracy at the largest strength of each attack: what papers give at their epsilon."""
    accuracies, grids = AccuracyStatistics(table), {attack: table.distances(attack) for attack in table.attacks}
    return {
        f"{attack}@{format_strength(float(grid[-1]), attack=attack)}": accuracies.accuracy(attack, len(grid) - 1)
        for attack, grid in grids.items()
    }
