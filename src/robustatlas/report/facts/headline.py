"""The one number that a run is first asked for: robust accuracy at the strength that the field usually takes."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from robustatlas.common.standard import STANDARD
from robustatlas.common.wording import listed, strength, wording
from robustatlas.metrics.bootstrap import share_statistic
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.bounds import Point, upper_bound_status
from robustatlas.outcomes.outcome import Outcome
from robustatlas.outcomes.strengths import same_strength
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import numbers
from robustatlas.report.facts.points import points_of_headline, searched_from, searched_grid, searched_points

_ROBUSTBENCH = "RobustBench, Croce et al. 2021"
_USUAL: tuple[tuple[str, Mapping[str, float], str], ...] = (
    ("cifar10", {"linf": 8 / 255, "l2": 0.5}, _ROBUSTBENCH),
    ("cifar100", {"linf": 8 / 255}, _ROBUSTBENCH),
    ("imagenet", {"linf": 4 / 255}, _ROBUSTBENCH),
    ("mnist", {"linf": 0.3}, "Madry et al. 2018"),
)
"""Data set, the strengths at which its robust accuracies are usually given, the first one leading, and by whom."""


@dataclass(frozen=True)
class Headline:
    """Robust accuracy at one point, or under several attacks at once; ``why`` at that one, in words that follow it.
    ``unsearched``: the attacks and strengths where sizes alone were searched, so that it is an upper bound only."""

    at: Mapping[str, float]
    accuracy: Interval
    why: str
    unsearched: tuple[Point, ...] = ()

    @property
    def words(self) -> str:
        """What it is called: "L∞ at 8/255"."""
        if len(self.at) == 1:
            ((attack, most),) = self.at.items()
            return f"{wording(attack).label} at {strength(most, of=attack)}"
        return f"{'both' if len(self.at) == 2 else f'all {len(self.at)}'} attacks at once"

    def explained(self, most: int = 4) -> str:
        """What it is called, why it is this one, and over what where that is several attacks, of ``most`` at most."""
        over = listed([f"{wording(name).label} {strength(at, 3, of=name)}" for name, at in self.at.items()])
        why = "; ".join(filter(None, [self.why, upper_bound_status(self.unsearched)]))
        return f"{self.words} ({why}{f': {over}' if 1 < len(self.at) <= most else ''})"


def headline_of(judged: OutcomeTable, asked: Mapping[str, float] | None = None) -> Headline | None:
    """The headline of a run; None where no attack is known at every strength. ``judged``: its attacks that are known at
    every strength. ``asked``: attack -> strength; None: the usual strength for the data under the first attack that has
    one, or the next larger searched one, else the worst case over all attacks at their usual strengths.

    Raises :class:`UserError`: an attack that is not there, or a strength that was not searched.
    """
    if not judged.attacks:
        return None
    grids = {attack: judged.distances(attack).tolist() for attack in judged.attacks}
    at, why = (searched_points(asked, grids, "--headline", "@"), "as asked") if asked else _chosen(judged)
    return _measured(judged, at, why)


def _measured(judged: OutcomeTable, at: Mapping[str, float], why: str) -> Headline:
    found = numbers.with_doubt(
        judged, lambda table: numbers.intervals({"headline": share_statistic(table.survivors_within(at))})
    )
    return Headline(at, found["headline"], why, judged.bounds_within(at).unsearched)


def _chosen(table: OutcomeTable) -> tuple[dict[str, float], str]:
    data = re.sub("[^a-z0-9]", "", table.data.lower())
    for name, strengths, source in _USUAL:
        if re.search(rf"(?<!fashion){name}(?!\d)", data):
            for attack, usual in strengths.items():
                at = searched_from(table.outcome(attack), usual) if attack in table.attacks else None
                if at is not None:
                    if same_strength(at, usual):
                        return {attack: at}, f"the usual strength for {table.data}: {source}"
                    by = source.partition(",")[0]
                    return {attack: at}, f"the searched strength above {strength(usual, of=attack)} of {by}"
    return _at_usual(table)


def shared_headlines(tables: Iterable[OutcomeTable], asked: Mapping[str, float] | None = None) -> tuple[Headline, ...]:
    """`headline_of` each of several runs on what they share; none where these are not at one point."""
    first, *others = (headline_of(table, asked) for table in tables)
    alike = [one for one in others if first and one and _same_point(first.at, one.at)]
    return (first, *alike) if first and len(alike) == len(others) else ()


def _same_point(one: Mapping[str, float], other: Mapping[str, float]) -> bool:
    return one.keys() == other.keys() and all(same_strength(one[attack], other[attack]) for attack in one)


def worst_case_of(judged: OutcomeTable) -> Headline | None:
    """The worst case over several attacks, each at its usual strength; None of fewer than two."""
    if len(judged.attacks) < 2:
        return None
    at, why = _at_usual(judged)
    return _measured(judged, at, why)


def _at_usual(table: OutcomeTable) -> tuple[dict[str, float], str]:
    """Return the strength of each attack, and words for which of its strengths that is."""
    at = points_of_headline(table)
    kinds = {_words_of_strength(table.outcome(attack), most) for attack, most in at.items()}
    words = " or ".join(kind for kind in _WORDS_OF_STRENGTHS if kind in kinds)
    if {_USUAL_STRENGTH, _NEXT} <= kinds:
        words = words.replace(_NEXT, "the searched one next to it")
    return at, words if len(at) == 1 else f"each at {words}"


_USUAL_STRENGTH, _NEXT, _MIDDLE, _LAST = _WORDS_OF_STRENGTHS = (
    "its usual strength",
    "the searched strength next to its usual one",
    "the middle of its strengths",
    "the last of its strengths",
)


def _words_of_strength(outcome: Outcome, most: float) -> str:
    """Return the words for the strength of one attack."""
    if outcome.attack not in STANDARD:
        return _LAST if most == searched_grid(outcome)[-1] else _MIDDLE
    usual, _ = STANDARD[outcome.attack]
    if same_strength(most, usual):
        return _USUAL_STRENGTH
    return _NEXT if most > usual else _LAST
