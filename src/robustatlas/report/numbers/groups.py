"""Groups of runs, each the trainings of one model with several seeds, against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from robustatlas.common.errors import UserError
from robustatlas.metrics.bootstrap import SampleStatistic
from robustatlas.metrics.comparison import RankTest, rank_sum_test
from robustatlas.metrics.references.reference import Reference
from robustatlas.metrics.trainings import OverTrainings, combine_trainings
from robustatlas.outcomes.comparable import check_distinct_trainings
from robustatlas.report.numbers.against import Held, hold_against
from robustatlas.report.numbers.definitions import CONFIDENCE, REPLICATES, worst_case_points
from robustatlas.report.numbers.number import UAR, Number
from robustatlas.report.numbers.of_run import attack_rows_against
from robustatlas.report.numbers.of_several import labels_of_upper_bounds, numbers_on_shared
from robustatlas.report.numbers.shared import Shared, shared_of_runs, subject_of
from robustatlas.report.numbers.statistics import attack_measures_against, statistics_of
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
    """Compare groups of runs.

    Args:
        groups: name -> runs, each of another training of one model.
        reference: to hold the runs against.
        union: attack -> strength of the worst case over attacks; None: see `worst_case_points`.

    Raises:
        UserError: no group, an empty one, two runs of one training, or as of `shared_of_runs`.
    """
    if not groups or not all(map(len, groups.values())):
        raise UserError("Groups of one run or more are expected, such as {'a': [first, second], 'b': [third]}.")
    results = runs_of_groups(groups)
    names = [f"{name} ({place})" for name, runs in groups.items() for place in range(1, len(runs) + 1)]
    check_distinct_trainings([subject_of(result, name) for result, name in zip(results, names, strict=True)])
    shared = shared_of_runs(results, names)
    first, leading = shared.table(0), results[0]
    at = worst_case_points(first, union)
    held = hold_against(first, reference, leading.records.values(), leading.identity) if reference else None
    held = held if held and held.ranked else None
    models = iter([_read_training(shared, run, held, at) for run in range(len(results))])
    parts = {name: [next(models) for _ in runs] for name, runs in groups.items()}
    every = [model for part in parts.values() for model in part]
    labels = [label for label in every[0].numbers if all(label in model.numbers for model in every)]
    numbers = {name: _group_numbers(part, labels) for name, part in parts.items()}
    barred = {name: frozenset().union(*(model.barred for model in part)) for name, part in parts.items()}
    return Groups(shared, numbers, barred, held, at)


def runs_of_groups(groups: Mapping[str, Sequence[Result]]) -> Sequence[Result]:
    """The runs of all groups; those on disk are read one by one."""
    parts = [runs for runs in groups.values() if isinstance(runs, Results)]
    if len(parts) == len(groups):
        return Results([path for part in parts for path in part.paths], kept=max(part.kept for part in parts))
    return [run for runs in groups.values() for run in runs]


@dataclass(frozen=True)
class _Training:
    """The numbers of one training, without its outcomes, which need much memory."""

    numbers: Mapping[str, Number]
    statistics: Mapping[str, SampleStatistic]
    barred: frozenset[str]


def _read_training(shared: Shared, run: int, held: Held | None, worst_at: Mapping[str, float]) -> _Training:
    """Return the numbers of one run, with robust accuracy at the largest strength, which papers give, and each UAR."""
    largest = {attack: strengths[-1] for attack, strengths in shared.grid.items()}
    model = numbers_on_shared(shared, run, held, worst_at, largest)
    numbers, functions = dict(model.numbers), dict(model.statistics)
    if held is not None:
        ranked = replace(held, shared=held.ranked)
        uars = {label: row for label, row in attack_rows_against(model.table, ranked).items() if row.what == UAR}
        measured = statistics_of(attack_measures_against(model.table, ranked))
        numbers, functions = numbers | uars, functions | {label: measured[label] for label in uars}
    return _Training(numbers, functions, frozenset(labels_of_upper_bounds(numbers, model.table)))


def _group_numbers(trainings: Sequence[_Training], labels: Sequence[str]) -> dict[str, OverTrainings]:
    """Return the numbers of a group; of one run with the intervals that it has by itself."""
    kept = [{label: training.statistics[label] for label in labels} for training in trainings]
    found = combine_trainings(kept, CONFIDENCE, REPLICATES)
    if len(trainings) > 1:
        return found
    return {label: replace(number, images=trainings[0].numbers[label].interval) for label, number in found.items()}
