"""Which of several runs is more robust, against what, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations

from robustatlas.common.wording import why_masked, wording
from robustatlas.metrics.bootstrap import SampleStatistic, share_statistic
from robustatlas.metrics.differences import paired_differences
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.masked import masked
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import numbers
from robustatlas.report.facts.comparison import Shared
from robustatlas.report.facts.headline import Headline, shared_headlines
from robustatlas.report.facts.numbers import CONFIDENCE, REPLICATES, intervals
from robustatlas.report.facts.pairs import MOST_COMPARED, pairs_of
from robustatlas.results.result import Result

_HEADLINE = "headline"


@dataclass(frozen=True)
class Contest:
    """One line of the comparison.

    Attributes:
        label: "Clean images", the label of an attack, "All attacks", or what the headline is called.
        attack: its name; empty for the clean images, for all attacks together and for the headline.
        strengths: number of strengths that the mean goes over; 0 for the clean images and the headline.
        values: accuracy of each run in percent.
        leaders: positions of the competing runs that none is significantly ahead of; none where fewer than two compete.
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


def standings_of(shared: Shared, headline: Mapping[str, float] | None = None) -> Standings:
    """Compare runs pair by pair on what they share.

    A run is ahead of another where the interval of their difference excludes 0. The intervals hold for all pairs at
    once (Bonferroni), for each line of the comparison by itself. Accuracies that are masked are held against none.

    ``headline``: see :func:`robustatlas.report.facts.headline.headline_of`.
    """
    names, tables = shared.names, [shared.table(run) for run in range(len(shared.names))]
    heads = shared_headlines(tables, headline)
    lines = _Lines.of(tables, heads[0].at if heads else {})
    points, every = sum(map(len, shared.grid.values())), list(shared.grid)
    return Standings(
        names=names,
        samples=shared.samples,
        headline=lines.at_headline(heads[0]) if heads else None,
        clean=lines.contest("clean accuracy", "Clean images", (), 0),
        attacks=tuple(
            replace(lines.contest(a, wording(a).label, [a], len(kept)), attack=a) for a, kept in shared.grid.items()
        ),
        together=lines.contest("average accuracy", "All attacks", every, points) if len(every) > 1 else None,
        why={name: why_masked(why) for name, table in zip(names, tables, strict=True) if (why := masked(table))},
    )


@dataclass(frozen=True)
class _Lines:
    """What the lines of a comparison are made of: of each run its numbers, and (line, run, other run) -> difference."""

    tables: Sequence[Result]
    statistics: Sequence[Mapping[str, SampleStatistic]]
    values: Sequence[Mapping[str, Interval]]
    differences: Mapping[tuple[str, int, int], Interval]

    @classmethod
    def of(cls, tables: Sequence[Result], at: Mapping[str, float]) -> _Lines:
        def found(table: OutcomeTable) -> dict[str, SampleStatistic]:
            first = {_HEADLINE: share_statistic(table.survivors_within(at))} if at else {}
            return first | numbers.overall(table) | numbers.averages(table)

        statistics = [found(table) for table in tables]
        values = [numbers.with_doubt(table, lambda table: intervals(found(table))) for table in tables]
        return cls(tables, statistics, values, _differences(statistics))

    def contest(self, key: str, label: str, attacks: Collection[str], strengths: int) -> Contest:
        """The line of one number, which rests on some attacks."""
        runs = range(len(self.tables))
        competing = [run for run in runs if not masked(self.tables[run], attacks)]
        pairs = permutations(competing, 2)
        beaten = {second for first, second in pairs if self._between(key, first, second).low > 0}
        leaders = tuple(run for run in competing if run not in beaten) if len(competing) > 1 else ()
        behind = tuple(run for run in runs if run not in competing)
        shown = tuple(of_run[key] for of_run in self.values)
        best = tuple(sorted(competing, key=lambda run: -shown[run].value)[:2])
        told = len(best) == 2 and len(runs) <= MOST_COMPARED
        difference = self._between(key, *best) if told else None
        return Contest(label, "", strengths, shown, leaders, behind, best, difference)

    def at_headline(self, headline: Headline) -> Contest:
        """The line of the headline, with the p-value of the difference."""
        found = self.contest(_HEADLINE, headline.words, headline.at, 0)
        if found.difference is None:
            return found
        barred = [(_HEADLINE,) if run in found.masked else () for run in range(len(self.tables))]
        pairs = pairs_of([{_HEADLINE: of_run[_HEADLINE]} for of_run in self.statistics], barred)
        (best,) = (pair for pair in pairs if {pair.first, pair.second} == {*found.best})
        return replace(found, p_value=best.p_values[_HEADLINE])

    def _between(self, key: str, first: int, second: int) -> Interval:
        """The first run less the second one."""
        if first < second:
            return self.differences[key, first, second]
        found = self.differences[key, second, first]
        return replace(found, value=-found.value, low=-found.high, high=-found.low)


def _differences(statistics: Sequence[dict[str, SampleStatistic]]) -> dict[tuple[str, int, int], Interval]:
    """(line, run, other run) -> the difference of both, with the confidence that all pairs have together."""
    pairs = list(combinations(range(len(statistics)), 2))
    confidence = 1 - (1 - CONFIDENCE) / max(len(pairs), 1)
    return {
        (key, first, second): difference
        for first, second in pairs
        for key, difference in paired_differences(statistics[first], statistics[second], confidence, REPLICATES).items()
    }
