"""Whether a run keeps what is required of it, its diagnosis included, and whether it fell behind an earlier version."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from robustatlas.checks.verdict import Verdict
from robustatlas.common.errors import UserError, brief
from robustatlas.common.wording import MASKED, beside_masked, listed, some, strength, why_masked
from robustatlas.common.wording import strength as written
from robustatlas.metrics.comparison import holm, mcnemar
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.outcomes.alike import refusal_to_compare
from robustatlas.outcomes.bounds import command_to_search, describe_unsearched
from robustatlas.outcomes.masked import masked
from robustatlas.outcomes.outcome import percent
from robustatlas.outcomes.strengths import position_of
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import RunFacts, what_is_shared
from robustatlas.report.facts.numbers import CONFIDENCE
from robustatlas.report.gate.requirements import Judged, Requirement, number_of, rests_on, strengths_of, unsearched
from robustatlas.results.result import Result


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    name: str
    passed: bool
    sentence: str


def check_requirements(
    requirements: Sequence[Requirement], result: Result, facts: RunFacts, judged: Judged = "interval"
) -> list[Check]:
    """Each requirement against its number; ``judged``: whether the whole 95 % interval has to keep a bound."""
    found = []
    for requirement in requirements:
        number = number_of(requirement, result, facts)
        why = masked(result, rests_on(requirement, result))
        passed = requirement.met_by(number, judged) and not why
        doubt = unsearched(requirement, result, facts)
        said = _describe_interval(requirement, number, doubt, judged) if doubt and not why else ""
        said = said or _kept(requirement, number, why, judged, result.samples)
        found.append(Check(requirement.text, passed, said))
    return found


def _describe_interval(requirement: Requirement, number: Interval, doubt: str, judged: Judged) -> str:
    """A number that was not searched, as far as it is known, and what would tell it; ``doubt``: see `unsearched`."""
    said = f"{requirement.what} is between {number.low:.4g} and {number.high:.4g}, {doubt}"
    bound = f"{requirement.sign} {requirement.bound:g}"
    if requirement.met_by(number, judged):
        return f"{bound} is kept all the same: {said}."
    return f"{bound} is not {'kept' if requirement.broken_by(number) else 'shown'}: {said}."


def _kept(requirement: Requirement, number: Interval, why: Mapping[str, float], judged: Judged, samples: int) -> str:
    value, low, high = (_written(each) for each in (number.value, number.low, number.high))
    said = f"{requirement.what} is {value} [{low}, {high}]"
    if why:
        return f"{beside_masked(said, why)}, which proves nothing. {why_masked(why)}"
    if requirement.met_by(number, judged):
        return f"{said}."
    if judged == "interval" and requirement.met_by(number, "value"):
        wanted = ruling_on(requirement, number, samples).samples
        more = "more samples" if wanted is None else f"about {wanted:,} samples"
        return f"{said}: its value keeps the bound, its interval does not; {more} would decide."
    return f"{said}, which does not keep {requirement.sign} {requirement.bound:g}."


def _written(value: float) -> str:
    """Write a number of a run, or "never" for the size at which something never happens."""
    return "never" if math.isinf(value) else f"{value:.4g}"


def check_against(new: Result, old: Result, max_drop: float, judged: Judged = "interval") -> list[Check]:
    """Whether any accuracy that both runs have fell by more than ``max_drop`` points on the images that both have.

    Clean accuracy, and every strength of every attack, are compared by the exact paired test of McNemar, corrected
    (Holm) for all of them together. A drop that the test does not tell from chance does not count, unless values alone
    are judged. An attack that is masked on either model, as after rounding, is not tested: that proves nothing, and the
    check fails. So does it of an attack whose threat models differ, and of a run that is not finished.

    ``max_drop``: in percentage points. ``judged``: whether a drop has to be significant, or its value alone decides.
    Raises :class:`UserError`: the runs share no images, or no attack at the same strength.
    """
    shared = what_is_shared([new, old])
    whole = shared.table(0), shared.table(1)
    invalid = {attack: [one for one in whole if masked(one, [attack])] for attack in shared.grid}
    competing = {attack: grid for attack, grid in shared.grid.items() if not invalid[attack]}
    alone = tuple(dict.fromkeys(point for one in whole for point in one.restrict(competing).unsearched))
    competing = {attack: grid for attack, grid in competing.items() if attack not in dict(alone)}
    ours, before = (one.restrict(competing) for one in whole)
    points: list[tuple[str, list[float]]] = [("clean", [0.0]), *competing.items()]
    now, then = (_correct(table) for table in (ours, before))
    test = mcnemar(now, then)
    drops, p_values = percent(then.sum(0) - now.sum(0), shared.samples), holm(test.p_values)
    too_far = (drops > max_drop) & ((p_values <= 1 - CONFIDENCE) | (judged == "value"))
    found, first = [], 0
    for name, strengths in points:
        here = np.arange(first, first + len(strengths))
        first += len(strengths)
        worst = here[np.lexsort((drops[here], too_far[here]))[-1]]
        count = int(too_far[here].sum())
        at = f" at {strength(strengths[worst - here[0]], of=name)}" if name != "clean" else ""
        said = (
            f"{name} {_moved(drops[worst])}{at} on {shared.samples} images (right only now {test.only_first[worst]}, "
            f"only before {test.only_second[worst]}; p = {p_values[worst]:.2g})"
        )
        more = f"; too far at {count} of {len(strengths)} strengths" if count and at else ""
        found.append(Check(f"{name} against {shared.names[1]}", count == 0, f"{said}{more}."))
    if alone:
        sentence = f"Not in both runs: {describe_unsearched(alone)}; run: {command_to_search(alone)}"
        found.append(Check(f"{', '.join(dict(alone))} against {shared.names[1]}", False, sentence))
    found += [_untested(attack, shared.names[1], which) for attack, which in invalid.items() if which]
    found += [
        Check(f"{attack} against {shared.names[1]}", False, refusal_to_compare(attack, how))
        for attack, how in shared.unlike.items()
    ]
    return found + [Check(f"all samples against {shared.names[1]}", False, said) for said in shared.unfinished]


def _untested(attack: str, against: str, which: Sequence[Result]) -> Check:
    whose, why = listed([one.name for one in which]), why_masked(masked(which[0], [attack]))
    return Check(f"{attack} against {against}", False, f"{attack} of {whose} is {MASKED}, which proves nothing. {why}")


def _correct(table: OutcomeTable) -> NDArray[np.bool_]:
    """[N, 1 + all strengths]: whether each sample is right, clean and under each attack at each strength."""
    return np.concatenate([table.clean[:, None], *(table.correct(attack) for attack in table.attacks)], axis=1)


def _moved(drop: float) -> str:
    return f"fell by {drop:.2f} points" if drop > 0 else f"rose by {-drop:.2f} points" if drop < 0 else "is the same"


_FORM = re.compile(r"\s*diagnosis\s*=\s*([^=]*?)\s*")


def asks_for_verdict(text: str) -> bool:
    """Whether a requirement is about the diagnosis.

    >>> asks_for_verdict("diagnosis=sound"), asks_for_verdict("clean>=90")
    (True, False)
    """
    return _FORM.fullmatch(text) is not None


def check_verdict(text: str, result: Result, bounds: Sequence[Requirement] = ()) -> Check:
    """Whether the diagnosis of a run is the required one; a run without a diagnosis fails, and a sound one where a
    required strength was not looked at. ``text``: ``diagnosis=sound``, or another verdict. ``bounds``: what else is
    required; the strengths that these name have to be looked at, or all where they name none."""
    found = _FORM.fullmatch(text)
    wanted, known = found[1] if found else text, get_args(Verdict)
    if wanted not in known:
        raise UserError(
            f"--require {brief(repr(text))} is not understood; expected diagnosis= one of {', '.join(known)}."
        )
    diagnosis = result.diagnosis
    if diagnosis is None:
        return Check(text, False, "The run was not diagnosed; run 'robustatlas diagnose' on it, or evaluate it again.")
    if diagnosis.verdict == wanted == "sound" and (unseen := _unseen(result, bounds)):
        where = some([f"{attack} at {written(strength, of=attack)}" for attack, strength in unseen])
        return Check(
            text,
            False,
            f"Gradients were not checked at the points where these attacks ended: {where}; run 'robustatlas diagnose' "
            "on the run. "
            f"{diagnosis.sentence}",
        )
    return Check(text, diagnosis.verdict == wanted, diagnosis.sentence)


def _unseen(result: Result, bounds: Sequence[Requirement]) -> list[tuple[str, float]]:
    """The attacks by gradients and required strengths whose searches were not looked at where they ended."""
    by_gradients = {record.name for record in result.records.values() if record.gradient is not None}
    named = [entry for bound in bounds for entry in strengths_of(bound, result)]
    everything = [(attack, strength) for attack in result.attacks for strength in result.distances(attack).tolist()]
    looked_at = result.diagnosis.checked_strengths if result.diagnosis is not None else {}
    return [
        (attack, strength)
        for attack, strength in dict.fromkeys(named or everything)
        if attack in by_gradients and position_of(strength, looked_at.get(attack, ())) is None
    ]


State = Literal["pass", "fail", "open"]
MOST = 10_000_000
"""Samples beyond which nobody wants to know how many would decide."""


@dataclass(frozen=True)
class Ruling:
    """What is to say of a requirement and the number that a run has for it.

    Attributes:
        state: ``"pass"`` where the whole interval keeps the bound, ``"fail"`` where none of it does, else ``"open"``.
        samples: that would decide an open one, if what was found stays; None: of no other, or more than ten million.
    """

    state: State
    samples: int | None = None


def ruling_on(requirement: Requirement, number: Interval, samples: int) -> Ruling:
    """What is to say of a requirement on a ``number`` of so many ``samples``."""
    if requirement.met_by(number):
        return Ruling("pass")
    if requirement.broken_by(number):
        return Ruling("fail")
    return Ruling("open", _deciding(requirement, number, samples))


def _deciding(requirement: Requirement, number: Interval, samples: int) -> int | None:
    """The smallest number of samples with which the interval would lie on one side of the bound."""
    least, most = samples, samples
    while not _decided(requirement, number, samples, most):
        least, most = most, 2 * most
        if most > MOST:
            return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if _decided(requirement, number, samples, middle) else (middle, most)
    return most


def _decided(requirement: Requirement, number: Interval, samples: int, count: int) -> bool:
    """Whether ``count`` samples would do: exactly for a share, else as intervals shrink with the root of the count."""
    if requirement.counts_samples:
        low, high = proportion_bounds(number.value / 100 * count, count, CONFIDENCE)
    else:
        shrunk = (samples / count) ** 0.5
        low, high = (number.value + shrunk * (end - number.value) for end in (number.low, number.high))
    found = Interval(number.value, float(low), float(high), number.confidence)
    return requirement.met_by(found) or requirement.broken_by(found)
