"""The one number that a run is first asked for: robust accuracy at the strength that the field usually takes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from robustatlas.common.errors import UserError
from robustatlas.common.wording import listed, some, strength, wording
from robustatlas.metrics.bootstrap import share_statistic
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.strengths import in_levels
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import numbers

_ROBUSTBENCH = "RobustBench, Croce et al. 2021"
_USUAL: tuple[tuple[str, Mapping[str, float], str], ...] = (
    ("cifar10", {"linf": 8 / 255, "l2": 0.5}, _ROBUSTBENCH),
    ("cifar100", {"linf": 8 / 255}, _ROBUSTBENCH),
    ("imagenet", {"linf": 4 / 255}, _ROBUSTBENCH),
    ("mnist", {"linf": 0.3}, "Madry et al. 2018"),
)
"""Data set, the strengths at which its robust accuracies are usually given, the first one leading, and by whom."""


_LISTED = 4
"""The strengths of more attacks are not listed in a sentence."""


@dataclass(frozen=True)
class Headline:
    """Robust accuracy at one point, or under several attacks at once.

    Attributes:
        why: why this point, in words that follow it.
    """

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


def headline_of(judged: OutcomeTable, asked: Mapping[str, float] | None = None) -> Headline | None:
    """The headline of a run; None where no attack is known at every strength.

    Args:
        judged: its attacks that are known at every strength.
        asked: attack -> strength; None: the usual strength for the data under the first attack that has one, else the
            worst case over all attacks, each at the middle of its strengths.

    Raises:
        UserError: an attack that is not there, or a strength beyond those that were looked at.
    """
    if not judged.attacks:
        return None
    at, why = (dict(asked), "as asked") if asked else _chosen(judged)
    for attack, most in at.items():
        _check(judged, attack, most)
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
    return _at_middles(table)


def worst_case_of(judged: OutcomeTable) -> Headline | None:
    """The worst case over several attacks, each at the middle of its strengths; None of fewer than two."""
    if len(judged.attacks) < 2:
        return None
    at, why = _at_middles(judged)
    found = headline_of(judged, at)
    return None if found is None else replace(found, why=why)


def _at_middles(table: OutcomeTable) -> tuple[dict[str, float], str]:
    middle = numbers.union_strengths(table)
    if len(middle) == 1:
        return middle, "the middle of its strengths"
    if len(middle) > _LISTED:
        return middle, "each at the middle of its strengths"
    points = listed([f"{wording(attack).label} {strength(most, 3, of=attack)}" for attack, most in middle.items()])
    return middle, f"each at the middle of its strengths: {points}"


def _check(table: OutcomeTable, attack: str, most: float) -> None:
    if attack not in table.attacks:
        raise UserError(f"--headline names {attack!r}, which is not evaluated; give one of {some(table.attacks)}.")
    last = float(table.strengths(attack)[-1])
    if most > last * (1 + 1e-6):
        meant = in_levels(most, last) or f"the largest is {strength(last, of=attack)}"
        given = f"{attack}@{strength(most, of=attack)}"
        raise UserError(f"--headline {given} is beyond every strength that was evaluated; {meant}.")
    table.outcome(attack).check_judged_at(most)
