"""What is required of a run: ``linf@0.03>=45``, ``cr>=50``, ``clean>=90``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Literal

from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import fraction
from robustatlas.common.wording import instead, strength, value_as_typed, words_up_to
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.registry import METRICS, against_reference
from robustatlas.metrics.typical import typical_accuracies
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE, in_levels, position_of, read_strength, same_strength
from robustatlas.report.facts import RunFacts
from robustatlas.report.facts.numbers import CONFIDENCE
from robustatlas.results.result import Result

Sign = Literal[">=", "<="]
Judged = Literal["interval", "value"]

FORMS = "expected WHAT>=NUMBER or WHAT<=NUMBER, such as linf@8/255>=45, clean>=90 or cr>=50"

_OVERALL: dict[str, Callable[[RunFacts], Interval | None]] = {
    "clean": lambda facts: facts.clean,
    "average": lambda facts: facts.average,
    "union": lambda facts: facts.union,
}
_OTHERS = ("ATTACK@STRENGTH", "typical-ATTACK@STRENGTH", "ah-ATTACK", "median-ATTACK")
_TYPICAL = "typical-"


@dataclass(frozen=True)
class Requirement:
    """One bound on one number. ``what``: the number: ``clean``, ``average``, ``union``, ``cr``, ``uar``,
    ``ATTACK@STRENGTH``, ... ``sign``: whether the bound is a lower or an upper one. ``bound``: accuracies and ratios in
    percent."""

    text: str
    what: str
    sign: Sign
    bound: float

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """The requirement that ``text`` states."""
        found = re.fullmatch(r"\s*([^<>=\s]+)\s*(>=|<=)\s*([^<>=]+?)\s*", text)
        bound = fraction(found[3]) if found else float("nan")
        if found is None or bound != bound:
            raise UserError(f"--require {brief(repr(text))} is not understood; {FORMS}.")
        return cls(text.strip(), found[1], ">=" if found[2] == ">=" else "<=", bound)

    def met_by(self, number: Interval, judged: Judged = "interval") -> bool:
        """Whether the whole interval of ``number`` (or its value alone) keeps the bound."""
        if self.sign == ">=":
            return (number.low if judged == "interval" else number.value) >= self.bound
        return (number.high if judged == "interval" else number.value) <= self.bound

    def broken_by(self, number: Interval) -> bool:
        """Whether the whole interval of ``number`` breaks the bound."""
        return number.high < self.bound if self.sign == ">=" else number.low > self.bound

    @property
    def counts_samples(self) -> bool:
        """Whether its number is a share of the samples."""
        return "@" in self.what or self.what in ("clean", "union")


def number_of(requirement: Requirement, result: Result, facts: RunFacts) -> Interval:
    """The number that a requirement is about, with its interval."""
    what = requirement.what
    _check_bound(requirement, result)
    if "@" in what:
        return (_typical_at if what.startswith(_TYPICAL) else _accuracy_at)(requirement, result)
    if what in _OVERALL:
        return _there(_OVERALL[what](facts), requirement, "evaluate more than one attack, at every strength")
    own = {written(name): number for name, number in facts.own.items()}
    if what in own:
        return own[what]
    against = _against()
    if what in against:
        held = facts.reference.numbers if facts.reference else {}
        return _there(held.get(against[what]), requirement, "give a --reference with these attacks and strengths")
    kind, _, attack = what.partition("-")
    if kind in ("ah", "median") and attack in result.attacks:
        of = next(known for known in facts.attacks if known.attack == attack)
        if kind == "ah":
            return _there(
                of.frontier.volume if of.frontier else None, requirement, "evaluate it at equal steps of strength"
            )
        return _median(result, attack)
    names = (*_OVERALL, *own, *against, *_OTHERS)
    raise UserError(
        f"--require {requirement.text!r}: a run has no number {what!r}"
        + instead(what, names, f"there are {', '.join(names)}")
    )


def _check_bound(requirement: Requirement, result: Result) -> None:
    """Raise where a percentage is held against a fraction."""
    what, bound = requirement.what, requirement.bound
    if 0 < bound < 1 and ("@" in what or what in _OVERALL or what in _percentages(result)):
        raise UserError(
            f"--require {requirement.text!r}: {what} is in percent; for {100 * bound:g} % give "
            f"{what}{requirement.sign}{100 * bound:g}."
        )


def _percentages(result: Result) -> set[str]:
    """How numbers of the registry that are in percent are asked for."""
    known = [metric for metric in METRICS.usable().values() if metric.heading.endswith("%")]
    own = {written(name) for metric in known if metric.of_model for name in metric.of_model(result.judged())}
    held = {metric.name for metric in known if metric.against}
    return own | {name for name, metric in _against().items() if metric in held}


def written(name: str) -> str:
    """How a number of the registry is asked for.

    >>> written("UA2 medium")
    'ua2-medium'
    """
    return name.lower().replace(" ", "-")


def _against() -> dict[str, str]:
    """How numbers against a reference are asked for -> their names in the registry."""
    return {written(metric.name): metric.name for metric in against_reference()} | {"cr": "CR ind-avg", "uar": "mUAR"}


def rests_on(requirement: Requirement, result: Result) -> tuple[str, ...]:
    """The attacks of ``result`` whose outcomes the number of a requirement is computed from."""
    what = requirement.what
    if what == "clean":
        return ()
    one = what.removeprefix(_TYPICAL).partition("@")[0] if "@" in what else what.partition("-")[2]
    return (one,) if one in result.attacks else tuple(result.attacks)


def strengths_of(requirement: Requirement, result: Result) -> list[tuple[str, float]]:
    """The attacks and strengths of ``result`` that the number of a requirement is computed from; for one at a strength
    between two that were evaluated both."""
    grids = {attack: result.strengths(attack).tolist() for attack in rests_on(requirement, result)}
    attack, _, asked = requirement.what.removeprefix(_TYPICAL).partition("@")
    if asked and attack in grids:
        grid, at = grids[attack], read_strength(asked, attack)
        last = next((k for k, known in enumerate(grid) if known >= at * (1 - STRENGTH_TOLERANCE)), len(grid) - 1)
        first = last if same_strength(grid[last], at) else max(0, last - 1)
        grids = {attack: grid[first : last + 1]}
    return [(attack, at) for attack, grid in grids.items() for at in grid]


def _accuracy_at(requirement: Requirement, result: Result) -> Interval:
    attack, _, given = requirement.what.partition("@")
    asked = read_strength(given, attack)
    if not asked > 0:
        raise UserError(f"--require {requirement.text!r}: {given!r} is not a strength; {FORMS}.")
    outcome = result.outcome(attack)
    largest = float(outcome.strengths[-1])
    if outcome.monotone and asked > largest * (1 + 1e-9):
        remedy = f"evaluate it at {given} as well (--strengths {attack}={given}), the same command goes on"
        raise UserError(
            f"--require {requirement.text!r}: {attack} was evaluated {words_up_to(attack)} "
            f"{strength(largest, of=attack)}; {in_levels(asked, largest) or remedy}."
        )
    standing = int((~outcome.broken([asked])).sum())
    return proportion_interval(standing, result.samples, CONFIDENCE)


def _typical_at(requirement: Requirement, result: Result) -> Interval:
    attack, _, given = requirement.what.removeprefix(_TYPICAL).partition("@")
    outcome = result.outcome(attack)
    place = position_of(read_strength(given, attack), outcome.strengths.tolist())
    numbers = typical_accuracies(outcome, CONFIDENCE)
    if place is None or numbers is None:
        lacking = f"{attack} was not evaluated at {given}" if place is None else f"nothing was drawn of {attack}"
        raise UserError(
            f"--require {requirement.text!r}: {lacking}; typical accuracies are there of everyday changes, at the "
            "strengths that were evaluated."
        )
    return numbers[place]


def _median(result: Result, attack: str) -> Interval:
    """Return the median size as people type it: where typed strengths fall, less is more robust, and never is -inf."""
    curve = result.curve(attack)
    band = curve.band(CONFIDENCE)
    ends = [float(band.sizes[wrong >= 50][0]) if (wrong >= 50).any() else inf for wrong in (band.high, band.low)]
    low, high = sorted(value_as_typed(attack, end) for end in ends)
    return Interval(value_as_typed(attack, float(curve.quantile(0.5))), low, high, CONFIDENCE)


def _there(number: Interval | None, requirement: Requirement, remedy: str) -> Interval:
    if number is None:
        raise UserError(f"--require {requirement.text!r}: the run has no {requirement.what}; {remedy}.")
    return number
