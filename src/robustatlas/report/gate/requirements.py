"""Requirements on a run: ``linf@0.03>=45``, ``cr>=50``, ``clean>=90``."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import parse_fraction
from robustatlas.common.typed_strengths import value_as_typed
from robustatlas.common.wording import suggestion
from robustatlas.metrics.averages import typical_accuracies
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.registry import METRICS, reference_metrics
from robustatlas.outcomes.bounds import AccuracyBounds, command_to_search, describe_unsearched
from robustatlas.outcomes.strengths import (
    STRENGTH_TOLERANCE,
    is_same_strength,
    levels_hint,
    read_strength,
    strength_position,
)
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import RunFacts
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.numbers.definitions import CONFIDENCE, share_wrong_at_half
from robustatlas.results.result import Result

Sign = Literal[">=", "<="]
Judged = Literal["interval", "value"]

FORMS = "expected WHAT>=NUMBER or WHAT<=NUMBER, such as linf@8/255>=45, clean>=90 or cr>=50"

_OVERALL: dict[str, Callable[[RunFacts], Interval | None]] = {
    "clean": lambda facts: facts.clean,
    "average": lambda facts: facts.average,
    "union": lambda facts: facts.worst,
}
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


def number_of(requirement: Requirement, result: Result, facts: RunFacts) -> Interval:
    """The number that a requirement is about, with its interval.

    The interval is that of the safe ends: what a run did not search may lie as low as the searched strengths and the
    certificates leave it, and as high as the sizes do. The value is the end that the requirement has to fear.
    """
    what = requirement.what
    _check_bound(requirement, result)
    if what.startswith(_TYPICAL) and "@" in what:
        return _typical_at(requirement, result)
    if points := points_of(requirement):
        return _accuracy_at(requirement, result, points)
    if what.startswith("median-") and what.removeprefix("median-") in result.attacks:
        return _median(requirement, result, what.removeprefix("median-"))
    found = _computed(requirement, result, facts)
    if requirement.sign == ">=" and unsearched(requirement, result, facts):
        return replace(found, value=0.0, low=0.0)
    return found


def _computed(requirement: Requirement, result: Result, facts: RunFacts) -> Interval:
    """The number as the facts have it; upper bounds and searched ones alike."""
    what = requirement.what
    if what in _OVERALL:
        return _required_number(_OVERALL[what](facts), requirement, "evaluate more than one attack, at every strength")
    own = {written(name): number for name, number in facts.own.items()}
    if what in own:
        return own[what]
    against = _against()
    if what in against:
        held = facts.reference.numbers if facts.reference else {}
        return _required_number(
            held.get(against[what]), requirement, "give a --reference with these attacks and strengths"
        )
    kind, _, attack = what.partition("-")
    if kind == "ah" and attack in result.attacks:
        frontier = _attack_facts(facts, attack).frontier
        return _required_number(
            frontier.volume if frontier else None, requirement, "evaluate it at equal steps of strength"
        )
    names = (*_OVERALL, *own, *against, *_OTHERS)
    raise UserError(
        f"--require {requirement.text!r}: a run has no number {what!r}"
        + suggestion(what, names, f"there are {', '.join(names)}")
    )


def _attack_facts(facts: RunFacts, attack: str) -> AttackFacts:
    return next(known for known in facts.attacks if known.attack == attack)


def unsearched(requirement: Requirement, result: Result, facts: RunFacts) -> str:
    """Why the number of a requirement is known as an interval only, and what to run; empty where it was searched."""
    what = requirement.what
    kind, _, attack = what.partition("-")
    if kind == "ah" and attack in result.attacks:
        frontier = _attack_facts(facts, attack).frontier
        lowered = frontier is None or frontier.searched
        return "" if lowered else "as the lowest margins were not searched for; run it with --search frontier"
    if kind == "median" and attack in result.attacks:
        return "" if result.outcome(attack).monotone else f"as {attack} is judged at each strength by itself"
    points = tuple(
        (name, value_as_typed(name, strength))
        for name, grid in _rests_at(requirement, result, facts).items()
        for strength in grid
        if not result.outcome(name).accuracy_bounds(strength).searched
    )
    return f"as {describe_unsearched(points)}; run: {command_to_search(points)}" if points else ""


def _rests_at(requirement: Requirement, result: Result, facts: RunFacts) -> Mapping[str, Sequence[float]]:
    """Attack -> the strengths that the number of a requirement is computed from."""
    what = requirement.what
    if what == "clean" or what.startswith(_TYPICAL):
        return {}
    if at := points_of(requirement) or (facts.worst.points if what == "union" and facts.worst else {}):
        return {attack: [strength] for attack, strength in at.items()}
    if facts.reference is not None and what in _against():
        return facts.reference.held.ranked
    judged = result.select_judged()
    return {attack: judged.distances(attack).tolist() for attack in judged.attacks}


def points_of(requirement: Requirement) -> dict[str, float]:
    """Attack -> strength of a requirement on robust accuracy at one point, or under several attacks at once; empty of
    other numbers.

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
    known = [metric for metric in METRICS.load_usable().values() if metric.heading.endswith("%")]
    own = {written(name) for metric in known if metric.of_model for name in metric.of_model(result.select_judged())}
    held = {metric.name for metric in known if metric.against}
    return own | {name for name, metric in _against().items() if metric in held}


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


def rests_on(requirement: Requirement, result: Result) -> tuple[str, ...]:
    """The attacks of ``result`` whose outcomes the number of a requirement is computed from."""
    what = requirement.what
    if what == "clean":
        return ()
    if points := points_of(requirement):
        return tuple(points)
    one = what.removeprefix(_TYPICAL).partition("@")[0] if "@" in what else what.partition("-")[2]
    return (one,) if one in result.attacks else tuple(result.attacks)


def strengths_of(requirement: Requirement, result: Result) -> list[tuple[str, float]]:
    """The attacks and strengths of ``result`` that the number of a requirement is computed from; for one at a strength
    between two that were evaluated both."""
    grids = {attack: result.distances(attack).tolist() for attack in rests_on(requirement, result)}
    points = points_of(requirement)
    attack, _, asked = requirement.what.removeprefix(_TYPICAL).partition("@")
    if asked and not points:
        points = {attack: read_strength(asked, attack)}
    for attack, at in points.items():
        grid = grids[attack]
        last = next((k for k, known in enumerate(grid) if known >= at * (1 - STRENGTH_TOLERANCE)), len(grid) - 1)
        first = last if is_same_strength(grid[last], at) else max(0, last - 1)
        grids[attack] = grid[first : last + 1]
    return [(attack, at) for attack, grid in grids.items() for at in grid]


def _accuracy_at(requirement: Requirement, result: Result, points: Mapping[str, float]) -> Interval:
    for attack, asked in points.items():
        if not result.outcome(attack).monotone:
            result.outcome(attack).broken([asked])  # which raises where it was not judged there
        if meant := levels_hint(asked, float(result.distances(attack)[-1])):
            raise UserError(f"--require {requirement.text!r} is beyond every strength of {attack}; {meant}.")
    known, certain = (_bounds(table, points) for table in (result, result.with_possible_examples() or result))
    return Interval(
        known.low if requirement.sign == ">=" else known.high,
        proportion_interval(int(certain.certain.sum()), result.samples, CONFIDENCE).low,
        proportion_interval(int(known.possible.sum()), result.samples, CONFIDENCE).high,
        CONFIDENCE,
    )


def _typical_at(requirement: Requirement, result: Result) -> Interval:
    attack, _, given = requirement.what.removeprefix(_TYPICAL).partition("@")
    outcome = result.outcome(attack)
    place = strength_position(read_strength(given, attack), outcome.strengths.tolist())
    numbers = typical_accuracies(outcome, CONFIDENCE)
    if place is None or numbers is None:
        lacking = f"{attack} was not evaluated at {given}" if place is None else f"nothing was drawn of {attack}"
        raise UserError(
            f"--require {requirement.text!r}: {lacking}; typical accuracies are there of everyday changes, at the "
            "strengths that were evaluated."
        )
    return numbers[place]


def _bounds(table: OutcomeTable, points: Mapping[str, float]) -> AccuracyBounds:
    """Return what is known under one attack, or under several and without any."""
    if len(points) > 1:
        return table.bounds_at_distances(points)
    ((attack, strength),) = points.items()
    return table.attack_bounds_at_distance(attack, strength)


def _median(requirement: Requirement, result: Result, attack: str) -> Interval:
    """Return the median size as people type it: as far from the clean image as the samples that certainly withstand
    say, and at most as far as the examples do. Where typed strengths fall, less is farther."""
    half = share_wrong_at_half(result.clean_accuracy)
    curve, certain = result.curve(attack).distance_curve, _certain_curve(result, attack)
    far = curve.band(CONFIDENCE)
    values, ends = [float(curve.quantile(half)), 0.0], [_first_size(far.sizes, far.low >= 100 * half), 0.0]
    if certain is not None:
        near = certain.band(CONFIDENCE)
        values[1], ends[1] = float(certain.quantile(half)), _first_size(near.sizes, near.high >= 100 * half)
    values, ends = ([value_as_typed(attack, each) for each in sizes] for sizes in (values, ends))
    return Interval(min(values) if requirement.sign == ">=" else max(values), min(ends), max(ends), CONFIDENCE)


def _first_size(sizes: NDArray[np.float64], reached: NDArray[np.bool_]) -> float:
    """Return the first of the sizes [K] at which `reached` [K] is true; inf where it is true at none."""
    return float(sizes[reached][0]) if reached.any() else inf


def _certain_curve(result: Result, attack: str) -> RobustnessCurve | None:
    """The curve of the sizes up to which each sample certainly withstands, by searched strengths and certificates; None
    where strengths are judged each by itself."""
    outcome, proved = result.outcome(attack), result.certified_sizes.get(attack)
    if not outcome.monotone:
        return None
    sizes = outcome.with_possible_examples().certain_sizes()
    return RobustnessCurve(sizes if proved is None else np.maximum(sizes, proved.sizes))


def _required_number(number: Interval | None, requirement: Requirement, remedy: str) -> Interval:
    if number is None:
        raise UserError(f"--require {requirement.text!r}: the run has no {requirement.what}; {remedy}.")
    return number
