"""The one number that a run is first asked for: robust accuracy at the strength that the field usually takes."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from robustatlas.common.errors import UserError
from robustatlas.common.wording import instead, listed, some, strength, wording, words_up_to
from robustatlas.metrics.bootstrap import share_statistic
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.strengths import in_levels, listed_strengths, position_of, same_strength
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import numbers
from robustatlas.report.facts.units import usual_strength

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
    """Robust accuracy at one point, or under several attacks at once; ``why`` at that one, in words that follow it."""

    at: Mapping[str, float]
    accuracy: Interval
    why: str

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
        return f"{self.words} ({self.why}{f': {over}' if 1 < len(self.at) <= most else ''})"


def headline_of(judged: OutcomeTable, asked: Mapping[str, float] | None = None) -> Headline | None:
    """The headline of a run; None where no attack is known at every strength. ``judged``: its attacks that are known at
    every strength. ``asked``: attack -> strength; None: the usual strength for the data under the first attack that has
    one, else the worst case over all attacks at their usual strengths.

    Raises :class:`UserError`: an attack that is not there, or a strength beyond those that were looked at.
    """
    if not judged.attacks:
        return None
    at, why = (dict(asked), "as asked") if asked else _chosen(judged)
    grids = {attack: judged.strengths(attack).tolist() for attack in judged.attacks}
    check_points(at, grids, [attack for attack in judged.attacks if judged.outcome(attack).monotone])
    return _measured(judged, at, why)


def _measured(judged: OutcomeTable, at: Mapping[str, float], why: str) -> Headline:
    found = numbers.with_doubt(
        judged, lambda table: numbers.intervals({"headline": share_statistic(table.survivors(at))})
    )
    return Headline(at, found["headline"], why)


def _chosen(table: OutcomeTable) -> tuple[dict[str, float], str]:
    data = re.sub("[^a-z0-9]", "", table.data.lower())
    for name, strengths, source in _USUAL:
        if re.search(rf"(?<!fashion){name}(?!\d)", data):
            for attack, usual in strengths.items():
                if attack in table.attacks and usual <= table.strengths(attack)[-1] * (1 + 1e-6):
                    return {attack: usual}, f"the usual strength for {table.data}: {source}"
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
    """Each attack at its usual strength, or at the middle of those of the run where this has none."""
    usual = {attack: usual_strength(table.outcome(attack)) for attack in table.attacks}
    middle = numbers.union_strengths(table)
    at = {attack: middle[attack] if most is None else most for attack, most in usual.items()}
    others = [wording(attack).label for attack, most in usual.items() if most is None]
    if len(at) == 1:
        return at, "the middle of its strengths" if others else "its usual strength"
    why = "each at the middle of its strengths"
    if len(others) < len(at):
        why = "each at its usual strength"
        why += f"; {some(others)} at the middle of {'its' if len(others) == 1 else 'their'} strengths" if others else ""
    return at, why


def check_points(asked: Mapping[str, float], grids: Mapping[str, Sequence[float]], nested: Collection[str]) -> None:
    """Raise :class:`UserError` where a headline asks for what a run has not. ``asked``: attack -> strength. ``grids``:
    attack -> its strengths, increasing. ``nested``: the attacks whose accuracy is known between their strengths too."""
    for attack, most in asked.items():
        if attack not in grids:
            there = instead(attack, grids, f"give one of {some(grids)}")
            raise UserError(f"--headline names {attack!r}, which is not evaluated{there}")
        grid, given = grids[attack], f"{attack}@{strength(most, of=attack)}"
        if most > grid[-1] * (1 + 1e-6):
            meant = in_levels(most, grid[-1]) or f"they go {words_up_to(attack)} {strength(grid[-1], of=attack)}"
            raise UserError(f"--headline {given} is beyond every strength of {attack}; {meant}.")
        if attack not in nested and position_of(most, grid) is None:
            known = listed_strengths(grid, attack)
            raise UserError(f"--headline {given}: {attack} is judged at each strength by itself; give one of {known}.")
