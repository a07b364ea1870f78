"""Requirements on a run: ``linf@0.03>=45``, ``cr>=50``, ``clean>=90``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import parse_fraction
from robustatlas.common.wording import suggestion
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.registry import METRICS, reference_metrics
from robustatlas.outcomes.bounds import command_to_search, describe_unsearched
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE, is_same_strength, levels_hint, read_strength
from robustatlas.report.facts import RunFacts
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers.bounded import LeastAndMost, bounded_accuracy, bounded_median, bounded_row
from robustatlas.report.numbers.number import Number
from robustatlas.report.numbers.of_run import NOT_SEARCHED, unsearched_points
from robustatlas.results.result import Result

Sign = Literal[">=", "<="]
Judged = Literal["interval", "value"]

FORMS = "expected WHAT>=NUMBER or WHAT<=NUMBER, such as linf@8/255>=45, clean>=90 or cr>=50"

_OVERALL = {"clean": kinds.CLEAN, "average": kinds.MEAN, "union": kinds.WORST}
_OTHERS = ("ATTACK@STRENGTH", "typical-ATTACK@STRENGTH", "ah-ATTACK", "median-ATTACK")
_TYPICAL = "typical-"


@dataclass(frozen=True)
class Requirement:
    """One bound on one number. ``what``: the number: ``clean``, ``average``, ``union``, ``cr``, ``uar``,
    ``ATTACK@STRENGTH``, or several of these with commas, ... ``sign``: whether the bound is a lower or an upper one.
    ``bound``: accuracies and ratios in percent. ``union``: attack -> strength of a union that is asked for; empty: that
    of the run."""

    text: str
    what: str
    sign: Sign
    bound: float
    union: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """The requirement that ``text`` states."""
        found = re.fullmatch(r"\s*([^<>=\s]+)\s*(>=|<=)\s*([^<>=]+?)\s*", text)
        bound = parse_fraction(found[3]) if found else float("nan")
        if found is None or bound != bound:
            raise UserError(f"--require {shorten(repr(text))} is not understood; {FORMS}.")
        return cls(text.strip(), found[1], ">=" if found[2] == ">=" else "<=", bound)

    def met_by(self, number: Interval, judged: Judged = "interval") -> bool:
        """Return True if the whole interval of ``number`` (or its value alone) keeps the bound."""
        if self.sign == ">=":
            return (number.low if judged == "interval" else number.value) >= self.bound
        return (number.high if judged == "interval" else number.value) <= self.bound

    def broken_by(self, number: Interval) -> bool:
        """Return True if the whole interval of ``number`` breaks the bound."""
        return number.high < self.bound if self.sign == ">=" else number.low > self.bound

    @property
    def counts_samples(self) -> bool:
        """True if its number is a share of the samples."""
        return "@" in self.what or self.what in ("clean", "union")


def number_of(requirement: Requirement, result: Result, facts: RunFacts) -> Number:
    """Return the row that a requirement is about; its value is the end that the requirement has to fear.

    What a run did not search may lie as low as the searched strengths and the certificates leave it, and as high as
    the sizes do.
    """
    least, most = _least_and_most(requirement, result, facts)
    return least if requirement.sign == ">=" else most


def _least_and_most(requirement: Requirement, result: Result, facts: RunFacts) -> LeastAndMost:
    what = requirement.what
    _check_bound(requirement, result)
    points = points_of(requirement) or (facts.worst.points if what == "union" and facts.worst else {})
    if points:
        for attack, strength in points.items():
            if not result.outcome(attack).monotone:
                result.outcome(attack).broken([strength])  # which raises where it was not judged there
            if meant := levels_hint(strength, float(result.distances(attack)[-1])):
                raise UserError(f"--require {requirement.text!r} is beyond every strength of {attack}; {meant}.")
        return bounded_accuracy(result, points)
    if what.startswith("median-") and what.removeprefix("median-") in result.attacks:
        return bounded_median(result, what.removeprefix("median-"))
    return bounded_row(result, _row(requirement, result, facts))


def _row(requirement: Requirement, result: Result, facts: RunFacts) -> Number:
    """Return the row of the table that a requirement names."""
    what, table = requirement.what, facts.numbers
    kind, _, attack = what.partition("-")
    named, against = {written(name): name for name in facts.own}, _against()
    if what.startswith(_TYPICAL) and "@" in what:
        attack, _, strength = what.removeprefix(_TYPICAL).partition("@")
        result.outcome(attack)  # which raises where it was not evaluated
        found = table.find_point(kinds.TYPICAL, attack, read_strength(strength, attack))
        remedy = "typical accuracies are there of everyday changes, at the strengths that were evaluated"
    elif what in _OVERALL:
        found, remedy = table.find(_OVERALL[what]), "evaluate more than one attack, at every strength"
    elif what in named or what in against:
        found = table.find({**named, **against}[what])
        remedy = "give a --reference with these attacks and strengths"
    elif kind == "ah" and attack in result.attacks:
        found, remedy = table.find(kinds.HYPERVOLUME, attack), "evaluate it at equal steps of strength"
    else:
        names = (*_OVERALL, *named, *against, *_OTHERS)
        raise UserError(
            f"--require {requirement.text!r}: a run has no number {what!r}"
            + suggestion(what, names, f"there are {', '.join(names)}")
        )
    if found is None:
        raise UserError(f"--require {requirement.text!r}: the run has no {what}; {remedy}.")
    return found


def why_unsearched(number: Number, result: Result) -> str:
    """Return why a number is known as an interval only, and what to run; empty if all that it rests on was searched."""
    if number.what == kinds.MEDIAN:
        is_nested = result.outcome(number.attack).monotone
        return "" if is_nested else f"as {number.attack} is judged at each strength by itself"
    if number.why == NOT_SEARCHED:
        return f"{NOT_SEARCHED}; run it with --search frontier"
    points = () if number.what == kinds.TYPICAL else unsearched_points(result, number.at)
    return f"as {describe_unsearched(points)}; run: {command_to_search(points)}" if points else ""


def points_of(requirement: Requirement) -> dict[str, float]:
    """Return attack -> strength of a requirement on robust accuracy at one point, or under several attacks at once.

    It is empty for other numbers.

    >>> points_of(Requirement.parse("linf@0.1,l2@1/2>=40"))
    {'linf': 0.1, 'l2': 0.5}
    """
    if requirement.what == "union":
        return dict(requirement.union)
    if "@" not in requirement.what or requirement.what.startswith(_TYPICAL):
        return {}
    found: dict[str, float] = {}
    for part in requirement.what.split(","):
        attack, _, given = part.partition("@")
        strength = read_strength(given, attack)
        if not strength > 0:
            raise UserError(f"--require {requirement.text!r}: {given!r} is not a strength; {FORMS}.")
        if attack in found:
            raise UserError(f"--require {requirement.text!r} names {attack} twice; give each attack one strength.")
        found[attack] = strength
    return found


def strengths_of(requirement: Requirement, result: Result) -> list[tuple[str, float]]:
    """Return the attacks and strengths that a required number is computed from.

    For a strength between two that were evaluated both are returned.
    """
    what, points = requirement.what, points_of(requirement)
    if what.startswith(_TYPICAL) and "@" in what:
        attack, _, asked = what.removeprefix(_TYPICAL).partition("@")
        points = {attack: read_strength(asked, attack)}
    attacks = [*points] or [what.partition("-")[2]]
    attacks = attacks if attacks[0] in result.attacks or points else [*result.attacks]
    grids = {} if what == "clean" else {attack: result.distances(attack).tolist() for attack in attacks}
    for attack, at in points.items():
        grid = grids[attack]
        last = next((k for k, known in enumerate(grid) if known >= at * (1 - STRENGTH_TOLERANCE)), len(grid) - 1)
        first = last if is_same_strength(grid[last], at) else max(0, last - 1)
        grids[attack] = grid[first : last + 1]
    return [(attack, at) for attack, grid in grids.items() for at in grid]


def _check_bound(requirement: Requirement, result: Result) -> None:
    """Raise where a percentage is held against a fraction."""
    what, bound = requirement.what, requirement.bound
    if 0 < bound < 1 and ("@" in what or what in _OVERALL or what in _percentages(result)):
        raise UserError(
            f"--require {requirement.text!r}: {what} is in percent; for {100 * bound:g} % give "
            f"{what}{requirement.sign}{100 * bound:g}."
        )


def _percentages(result: Result) -> set[str]:
    """Return how numbers of the registry that are in percent are asked for."""
    known = {name: metric for name, metric in METRICS.load_usable().items() if metric.heading.endswith("%")}
    own = {
        written(name)
        for metric in known.values()
        if metric.of_model
        for name in metric.of_model(result.select_judged())
    }
    return own | {asked for asked, name in _against().items() if name in known}


def written(name: str) -> str:
    """Return how a number of the registry is asked for.

    >>> written("UA2 medium")
    'ua2-medium'
    """
    return name.lower().replace(" ", "-")


def _against() -> dict[str, str]:
    """Return how numbers against a reference are asked for -> their names in the registry."""
    return {written(metric.name): metric.name for metric in reference_metrics()} | {"cr": "CR ind-avg", "uar": "mUAR"}


def is_against_reference(requirement: Requirement) -> bool:
    """Return True if the number of a requirement is a ratio to a reference."""
    return requirement.what in _against()
