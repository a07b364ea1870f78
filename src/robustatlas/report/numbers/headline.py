"""The headline of a run: decided once, from the table of numbers, for every surface."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import join_words, pluralise
from robustatlas.outcomes.outcome import percent
from robustatlas.outcomes.strengths import strength_position
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.numbers.definitions import CEILING, FLOOR
from robustatlas.report.numbers.number import MEAN, MEAN_OF_ATTACK, ROBUST, Number, Numbers
from robustatlas.report.numbers.points import searched_grid, searched_points

_ROBUSTBENCH = "RobustBench, Croce et al. 2021"
_USUAL: tuple[tuple[str, Mapping[str, float], str], ...] = (
    ("cifar10", {"linf": 8 / 255, "l2": 0.5}, _ROBUSTBENCH),
    ("cifar100", {"linf": 8 / 255}, _ROBUSTBENCH),
    ("imagenet", {"linf": 4 / 255}, _ROBUSTBENCH),
    ("mnist", {"linf": 0.3}, "Madry et al. 2018"),
)
"""Data set, the strengths at which a published benchmark gives robust accuracies, and the benchmark."""


@dataclass(frozen=True)
class HeadlineChoice:
    """Place of the headline of one or several runs, and the reason for it.

    Attributes:
        at: attack -> strength of each headline attack; empty for the mean over each attack's strengths.
        why: reason, in words that follow the number.
        asked: whether the user asked for it.
    """

    at: Mapping[str, float]
    why: str
    asked: bool = False


@dataclass(frozen=True)
class Headline:
    """The numbers that come first of a run.

    Attributes:
        numbers: one row of the table for each headline attack: at its strength, or in the mean over its strengths.
        overall: mean over several attacks and their strengths, if that is the headline; else None.
        why: reason for this headline, in words that follow it.
    """

    numbers: tuple[Number, ...]
    overall: Number | None
    why: str

    @property
    def leading(self) -> Number:
        """The number for a surface that has room for one."""
        return self.overall or self.numbers[0]

    @property
    def visible_numbers(self) -> tuple[Number, ...]:
        """The numbers for a surface that has room for all: one for each attack at a strength, or the mean."""
        return (self.overall,) if self.overall else self.numbers

    @property
    def is_mean(self) -> bool:
        """True if the headline is a mean over strengths."""
        return self.leading.what != ROBUST

    @property
    def words(self) -> str:
        """Name of the leading number."""
        return headline_label(self.leading)

    @property
    def abbreviated_name(self) -> str:
        """Name of the leading number where there is room for few letters."""
        attacks = self.leading.attacks
        over = f"{len(attacks)} attacks" if len(attacks) > 1 else attack_label(attacks[0]).label
        return f"mean over {over}" if self.is_mean else self.words

    def explained(self) -> str:
        """Return the names of the numbers and the reason for them."""
        return f"{join_words([headline_label(number) for number in self.visible_numbers])} ({self.why})"


def headline_label(number: Number) -> str:
    """Return what a headline number is called.

    >>> headline_label(Number(50, 45, 55, 0.95, ROBUST, "net", {"linf": (8 / 255,)}, samples=9))
    'L∞ at 8/255'
    >>> headline_label(Number(50, 45, 55, 0.95, MEAN, "net", {"linf": (0.1, 0.2), "l2": (0.5, 1.0)}, samples=9))
    'the mean over 2 attacks and their 4 strengths'
    """
    if number.what == ROBUST:
        ((attack, (at,)),) = number.at.items()
        return f"{attack_label(attack).label} at {format_strength(at, attack=attack)}"
    return f"the mean over {strengths_in_words(number)}"


def strengths_in_words(number: Number) -> str:
    """Return over how many attacks and strengths a mean is taken."""
    points = sum(map(len, number.at.values()))
    if len(number.at) > 1:
        return f"{len(number.at)} attacks and their {pluralise(points, 'strength')}"
    return f"the {pluralise(points, 'strength')} of {attack_label(number.attacks[0]).label}"


def choose_headline(tables: Sequence[OutcomeTable], asked: Mapping[str, float] | None = None) -> HeadlineChoice:
    """Decide where the headline of runs on the same data stands.

    Args:
        tables: of each run the attacks that are known at every strength, the same ones for all runs.
        asked: attack -> strength that the user asked for; None for the usual strength of each norm that has one. Where
            there is none, or every run lies at the floor or at the ceiling there, it is the mean.

    Raises:
        UserError: an attack that is not there is asked for, or a strength that was not searched.
    """
    first = tables[0]
    if not first.attacks:
        return HeadlineChoice({}, "no attack was searched at every strength")
    grids = {attack: first.distances(attack).tolist() for attack in first.attacks}
    if asked:
        return HeadlineChoice(searched_points(asked, grids, "--headline", "@"), "as asked", asked=True)
    usual, source = _benchmark_strengths(first.data)
    without = next((table.data for table in tables if _benchmark_strengths(table.data) != (usual, source)), first.data)
    if not usual or without != first.data:
        return HeadlineChoice({}, f"no benchmark has a usual strength for {without}")
    at = {attack: most for attack, most in usual.items() if all(_is_searched(table, attack, most) for table in tables)}
    written = join_words(
        [
            f"{attack_label(attack).label} {format_strength(most, attack=attack)}"
            for attack, most in (at or usual).items()
        ]
    )
    if not at:
        return HeadlineChoice({}, f"{written}, usual for {first.data}, was not searched")
    accuracies = [
        float(percent(int(table.survivors_at_distances({attack: most}).sum()), table.samples))
        for table in tables
        for attack, most in at.items()
    ]
    every = "it leaves" if len(tables) == 1 else "it leaves every model"
    if max(accuracies) < FLOOR:
        return HeadlineChoice({}, f"at {written} {every} less than {FLOOR:g}%")
    if min(accuracies) > CEILING:
        return HeadlineChoice({}, f"at {written} {every} more than {CEILING:g}%")
    return HeadlineChoice(at, f"the usual {'strength' if len(at) == 1 else 'strengths'} for {first.data}: {source}")


def mean_instead(choice: HeadlineChoice) -> HeadlineChoice:
    """Return the choice of the mean where the images tell no two models apart at a chosen strength."""
    points = join_words(
        [f"{attack_label(attack).label} {format_strength(most, attack=attack)}" for attack, most in choice.at.items()]
    )
    return HeadlineChoice({}, f"at {points} the images tell no models apart")


def headline_of(numbers: Numbers, choice: HeadlineChoice) -> Headline | None:
    """Return the headline of a run from its table; None where no attack is known at every strength."""
    means = numbers.select(MEAN_OF_ATTACK)
    if not means:
        return None
    if not choice.at:
        return Headline(means, numbers.find(MEAN) if len(means) > 1 else None, choice.why)
    found = (numbers.find_point(ROBUST, attack, strength) for attack, strength in choice.at.items())
    return Headline(tuple(number for number in found if number is not None), None, choice.why)


def _benchmark_strengths(data: str) -> tuple[Mapping[str, float], str]:
    """Return the usual strengths of a data set and their source."""
    plain = re.sub("[^a-z0-9]", "", data.lower())
    for name, strengths, source in _USUAL:
        if re.search(rf"(?<!fashion){name}(?!\d)", plain):
            return strengths, source
    return {}, ""


def _is_searched(table: OutcomeTable, attack: str, strength: float) -> bool:
    return attack in table.attacks and strength_position(strength, searched_grid(table.outcome(attack))) is not None
