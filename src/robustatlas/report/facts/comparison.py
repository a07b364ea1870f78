"""Several runs against each other: what they share, and which model is more robust against what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.wording import marked, some, why_masked, wording
from robustatlas.metrics.bootstrap import SampleStatistic, mean_statistic, share_statistic
from robustatlas.metrics.differences import paired_differences
from robustatlas.metrics.hypervolume import AdversarialHypervolume
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.registry import against_reference
from robustatlas.outcomes.masked import masked
from robustatlas.outcomes.outcome import Integers
from robustatlas.outcomes.points import common_points, different_points
from robustatlas.outcomes.shared import rows_of, shared_index
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import numbers
from robustatlas.report.facts.against import Held
from robustatlas.report.facts.headline import shared_headlines
from robustatlas.report.facts.numbers import CONFIDENCE, REPLICATES, hypervolume_of, intervals
from robustatlas.report.facts.pairs import MOST_COMPARED, pairs_of
from robustatlas.results.result import Result

_HEADLINE = "headline"


def distinct_names(results: Iterable[Result]) -> list[str]:
    """Names of the models, marked where numbers are invalid; where they are the same, with the names of the run
    directories, or numbered.
    """
    return _told_apart([(result.name, result.path, result.suspect) for result in results])


def _told_apart(models: Sequence[tuple[str, Path | None, bool]]) -> list[str]:
    """The names of models, with paths of their runs, and whether each is to be marked."""
    count = Counter(name for name, _, _ in models)
    names: dict[str, None] = {}
    for position, (plain, path, _) in enumerate(models, start=1):
        name = f"{plain} ({path.name if path else position})" if count[plain] > 1 else plain
        names[f"{name} #{position}" if name in names else name] = None
    return [marked(name, invalid) for name, (_, _, invalid) in zip(names, models, strict=True)]


@dataclass(frozen=True)
class Compared:
    """One of several runs, on what all of them share.

    Attributes:
        table: the result on the shared samples, under the shared attacks and strengths.
        volumes: attack -> its hypervolume over the shared strengths, where it has one.
        first: the number that comes first, by what it is called and where it is; empty: none does.
    """

    table: Result
    volumes: Mapping[str, AdversarialHypervolume]
    first: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def with_volumes_of(self, attacks: Collection[str]) -> Compared:
        """The same, with the hypervolumes of some attacks alone."""
        return replace(self, volumes={attack: one for attack, one in self.volumes.items() if attack in attacks})

    def statistics(
        self, held: Held | None = None, union: Mapping[str, float] | None = None
    ) -> dict[str, SampleStatistic]:
        """Every number in which runs are compared.

        Args:
            union: see `robustatlas.report.facts.numbers.union_strengths`; None for no union.
        """
        found = self._first(self.table) | _accuracies(self.table, union) | self._volumes()
        return found | (numbers.against(self.table, held) if held else {})

    def intervals(self, held: Held | None = None, union: Mapping[str, float] | None = None) -> dict[str, Interval]:
        """The numbers of `statistics` with their intervals."""
        found = numbers.with_doubt(self.table, lambda table: intervals(self._first(table) | _accuracies(table, union)))
        found |= intervals(self._volumes())
        return found | (numbers.intervals_against(self.table, held) if held else {})

    def masked(
        self, names: Iterable[str], held: Held | None = None, union: Mapping[str, float] | None = None
    ) -> dict[str, dict[str, float]]:
        """Those of some numbers of `statistics` that may not compete, and why, as `masked` says it."""
        rests: dict[str, Collection[str]] = {"clean accuracy": (), "union accuracy": union or ()}
        rests |= self.first
        rests |= {f"average {attack}": (attack,) for attack in self.table.attacks}
        rests |= {volume_name(attack): (attack,) for attack in self.table.attacks}
        rests |= {metric.name: held.ranked for metric in against_reference()} if held else {}
        found = {name: masked(self.table, rests.get(name, self.table.attacks)) for name in names}
        return {name: why for name, why in found.items() if why}

    def _first(self, table: OutcomeTable) -> dict[str, SampleStatistic]:
        return {name: share_statistic(table.survivors(at)) for name, at in self.first.items()}

    def _volumes(self) -> dict[str, SampleStatistic]:
        return {
            volume_name(attack): mean_statistic(100 * volume.per_sample, 100.0)
            for attack, volume in self.volumes.items()
        }


def volume_name(attack: str) -> str:
    """What the hypervolume under an attack is called among the numbers that are compared."""
    return f"hypervolume {attack}, x 100"


@dataclass(frozen=True)
class Shared:
    """What runs share.

    Attributes:
        results: the runs; :class:`robustatlas.results.many.Results` are read whenever one is looked at, so that not all
            are in memory at once.
        index: positions of the shared samples in the data set, increasing.
        grid: attack -> the shared strengths.
        left_out: names of attacks and points that not all of them have.
    """

    names: tuple[str, ...]
    results: Sequence[Result]
    index: Integers
    grid: Mapping[str, list[float]]
    left_out: tuple[str, ...]

    @property
    def samples(self) -> int:
        """Number of shared samples."""
        return len(self.index)

    def table(self, run: int) -> Result:
        """One run on the shared samples, under the shared attacks and strengths."""
        return self._whole(run).judged().restrict(self.grid)

    def on(self, run: int) -> Compared:
        """One run, beside the others."""
        whole = self._whole(run)
        found = {
            attack: hypervolume_of(whole, attack, strengths)
            for attack, strengths in self.grid.items()
            if len(strengths) > 1
        }
        volumes = {attack: volume for attack, volume in found.items() if volume is not None}
        return Compared(whole.judged().restrict(self.grid), volumes)

    @property
    def whole(self) -> bool:
        """Whether the runs share everything that each of them has, so that nothing stands apart."""
        return not self.left_out and all(result.samples == self.samples for result in self.results)

    def _whole(self, run: int) -> Result:
        """One run on the shared samples under everything that it has."""
        result = replace(self.results[run], name=self.names[run])
        return result.select(rows_of(result.index, self.index))


@dataclass(frozen=True)
class _Brief:
    """What is kept of a run while the others are looked at; ``unjudged``: attack -> positions of the samples of which
    it does not say at which strengths they are broken."""

    model: tuple[str, Path | None, bool]
    data: str
    images: str | None
    index: Integers
    labels: Integers
    strengths: Mapping[str, list[float]]
    unjudged: Mapping[str, Integers]

    @classmethod
    def of(cls, result: Result) -> _Brief:
        return cls(
            model=(result.name, result.path, result.suspect),
            data=result.data,
            images=result.identity.data.images_sha256 if result.identity else None,
            index=result.index,
            labels=result.labels,
            strengths={attack: outcome.strengths.tolist() for attack, outcome in result.outcomes.items()},
            unjudged={attack: result.index[outcome.unjudged] for attack, outcome in result.outcomes.items()},
        )

    def judged(self, index: Integers) -> dict[str, list[float]]:
        """Attack -> its strengths, of the attacks that say it of all samples ``index``."""
        return {a: grid for a, grid in self.strengths.items() if not np.isin(index, self.unjudged[a]).any()}


def what_is_shared(results: Sequence[Result], names: Sequence[str] | None = None) -> Shared:
    """The samples, attacks and strengths that all runs have; ``names``: of the runs, distinct.

    Raises:
        UserError: where they are about different images, or share no samples or no attack at the same strength.
    """
    briefs = [_Brief.of(result) for result in results]
    names = _told_apart([brief.model for brief in briefs]) if names is None else names
    _check_same_data(briefs, names)
    index = shared_index(names, [(brief.index, brief.labels) for brief in briefs])
    grid = common_points(brief.judged(index) for brief in briefs)
    if not grid:
        raise UserError(f"{some(names)} share no attack at the same strength; evaluate them alike to compare.")
    everything = dict.fromkeys(attack for brief in briefs for attack in brief.strengths)
    left_out = [attack for attack in everything if attack not in grid]
    for brief in briefs:
        left_out += different_points(brief.strengths, grid, [a for a in brief.strengths if a in grid])[1]
    return Shared(tuple(names), results, index, grid, tuple(dict.fromkeys(left_out)))


def _accuracies(table: OutcomeTable, union: Mapping[str, float] | None) -> dict[str, SampleStatistic]:
    found = numbers.overall(table, union)
    if len(table.attacks) > 1:
        found |= {f"average {attack}": statistic for attack, statistic in numbers.averages(table).items()}
    return found


@dataclass(frozen=True)
class Contest:
    """One line of the comparison.

    Attributes:
        label: "Clean images", the label of an attack, "All attacks", or what the headline is called.
        attack: its name; empty for the clean images, for all attacks together and for the headline.
        strengths: number of strengths that the mean goes over; 0 for the clean images and the headline.
        values: accuracy of each run in percent.
        leaders: positions of the runs that no other run is significantly ahead of, among those that compete; none where
            fewer than two do.
        masked: positions of the runs that do not compete, as their accuracies are upper bounds only.
        best: positions of the two runs with the highest accuracies among those that compete; fewer where fewer do.
        difference: of these two in points, paired by image; None of more runs than `MOST_COMPARED`.
        p_value: of no difference between them, corrected for all pairs; of the headline alone.
    """

    label: str
    attack: str
    strengths: int
    values: tuple[Interval, ...]
    leaders: tuple[int, ...]
    masked: tuple[int, ...] = ()
    best: tuple[int, ...] = ()
    difference: Interval | None = None
    p_value: float | None = None

    @property
    def told_apart(self) -> bool:
        """Whether some run that competes is behind another one."""
        return 0 < len(self.leaders) < len(self.values) - len(self.masked)


@dataclass(frozen=True)
class Standings:
    """Runs on the images and strengths that all of them have; `headline` is None where they have none at one point,
    `together` for a single attack. ``why``: name of a run that is masked under some of these attacks -> why."""

    names: tuple[str, ...]
    samples: int
    headline: Contest | None
    clean: Contest
    attacks: tuple[Contest, ...]
    together: Contest | None
    why: Mapping[str, str] = field(default_factory=dict)

    @property
    def contests(self) -> tuple[Contest, ...]:
        """The lines of a table: the headline, clean, every attack, all of them."""
        return tuple(one for one in (self.headline, self.clean, *self.attacks, self.together) if one)

    @property
    def leading(self) -> Contest:
        """The line that decides which model is more robust: the headline, else the mean over all attacks."""
        return self.headline or self.together or self.attacks[0]


def shared_if_any(results: Sequence[Result], names: Sequence[str]) -> Shared | None:
    """What several runs share; None of one, and where they share no images or no strengths."""
    if len(results) < 2:
        return None
    try:
        return what_is_shared(results, names)
    except UserError:
        return None


def standings(
    results: Sequence[Result], names: Sequence[str], headline: Mapping[str, float] | None = None
) -> Standings | None:
    """`standings_of` what several runs share; None where they share no images or no strengths."""
    shared = shared_if_any(results, names)
    return None if shared is None else standings_of(shared, headline)


def standings_of(shared: Shared, headline: Mapping[str, float] | None = None) -> Standings:
    """Compare runs pair by pair on what they share.

    A run is ahead of another where the interval of their difference excludes 0. The intervals hold for all pairs at
    once (Bonferroni), for each line of the comparison by itself. Accuracies that are masked are held against none.

    Args:
        headline: see :func:`robustatlas.report.facts.headline.headline_of`.
    """
    names, tables = shared.names, [shared.table(run) for run in range(len(shared.names))]
    statistics = [numbers.overall(table) | numbers.averages(table) for table in tables]
    values = [
        numbers.with_doubt(table, lambda table: intervals(numbers.overall(table) | numbers.averages(table)))
        for table in tables
    ]
    heads = shared_headlines(tables, headline)
    at = heads[0].at if heads else {}
    for table, of_run, shown, head in zip(tables, statistics, values, heads, strict=False):  # none, or one of each run
        of_run[_HEADLINE], shown[_HEADLINE] = share_statistic(table.survivors(at)), head.accuracy
    differences = _differences(statistics)
    ahead = {
        (key, *((first, second) if difference.low > 0 else (second, first)))
        for (key, first, second), difference in differences.items()
        if difference.low > 0 or difference.high < 0
    }

    def contest(key: str, label: str, attacks: Sequence[str], strengths: int) -> Contest:
        competing = [run for run, table in enumerate(tables) if not masked(table, attacks)]
        beaten = {second for found, first, second in ahead if found == key and {first, second} <= {*competing}}
        leaders = tuple(run for run in competing if run not in beaten) if len(competing) > 1 else ()
        attack = attacks[0] if len(attacks) == 1 and key != _HEADLINE else ""
        behind = tuple(run for run in range(len(tables)) if run not in competing)
        shown = tuple(of_run[key] for of_run in values)
        best = tuple(sorted(competing, key=lambda run: -shown[run].value)[:2])
        found = Contest(label, attack, strengths, shown, leaders, behind, best)
        if len(best) < 2 or len(tables) > MOST_COMPARED:
            return found
        return replace(found, difference=_between(differences, key, *best))

    def at_headline() -> Contest:
        found = contest(_HEADLINE, heads[0].words, [*at], 0)
        if found.difference is None:
            return found
        barred = [(_HEADLINE,) if run in found.masked else () for run in range(len(tables))]
        pairs = pairs_of([{_HEADLINE: of_run[_HEADLINE]} for of_run in statistics], barred)
        p_values = [pair.p_values[_HEADLINE] for pair in pairs if {pair.first, pair.second} == {*found.best}]
        return replace(found, p_value=p_values[0])

    points, every = sum(map(len, shared.grid.values())), list(shared.grid)
    return Standings(
        names=names,
        samples=shared.samples,
        headline=at_headline() if heads else None,
        clean=contest("clean accuracy", "Clean images", (), 0),
        attacks=tuple(contest(a, wording(a).label, [a], len(kept)) for a, kept in shared.grid.items()),
        together=contest("average accuracy", "All attacks", every, points) if len(every) > 1 else None,
        why={name: why_masked(why) for name, table in zip(names, tables, strict=True) if (why := masked(table))},
    )


def _differences(statistics: Sequence[dict[str, SampleStatistic]]) -> dict[tuple[str, int, int], Interval]:
    """(line, run, other run) -> the difference of both, with the confidence that all pairs have together."""
    pairs = list(combinations(range(len(statistics)), 2))
    confidence = 1 - (1 - CONFIDENCE) / max(len(pairs), 1)
    return {
        (key, first, second): difference
        for first, second in pairs
        for key, difference in paired_differences(statistics[first], statistics[second], confidence, REPLICATES).items()
    }


def _between(differences: Mapping[tuple[str, int, int], Interval], key: str, best: int, other: int) -> Interval:
    """The best one less the other one."""
    if best < other:
        return differences[key, best, other]
    found = differences[key, other, best]
    return replace(found, value=-found.value, low=-found.high, high=-found.low)


def best_first(results: Sequence[Result], headline: Mapping[str, float] | None = None) -> list[Result]:
    """Runs by `order_of` on what all of them have; as they are where that is nothing."""
    shared = shared_if_any(results, distinct_names(results))
    return list(results) if shared is None else [results[run] for run in order_of(shared, headline)]


def order_of(shared: Shared, headline: Mapping[str, float] | None = None) -> list[int]:
    """Positions of the runs by their headline, if they have one at the same point, then by their mean accuracy; those
    where it is masked last."""
    tables = [shared.table(run) for run in range(len(shared.names))]
    means = [numbers.overall(table)["average accuracy"].value for table in tables]
    heads = shared_headlines(tables, headline)
    firsts = [head.accuracy.value for head in heads] or means
    rests = heads[0].at if heads else None
    return sorted(range(len(tables)), key=lambda run: (bool(masked(tables[run], rests)), -firsts[run], -means[run]))


def _check_same_data(briefs: Sequence[_Brief], names: Sequence[str]) -> None:
    """Raise where the runs are known to be about different images."""
    first, *others = briefs
    for name, other in zip(names[1:], others, strict=True):
        if first.images and first.images == other.images:
            continue
        known = first.images and other.images and np.array_equal(first.index, other.index)
        if known or first.data != other.data:
            raise UserError(
                f"{names[0]} was evaluated on {first.data} and {name} on {other.data}, which hold different images; "
                "evaluate the same data to compare."
            )
