"""Decisions on what is required of a run, of its diagnosis, and in comparison with an earlier version."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import get_args

from robustatlas.checks.verdict import Verdict
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import MASKED, add_mark, join_words, list_names, masked_reason, pluralise
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.bounds import command_to_search, describe_unsearched
from robustatlas.outcomes.comparable import refusal_to_compare
from robustatlas.outcomes.strengths import strength_position
from robustatlas.report.facts import RunFacts, shared_of_runs
from robustatlas.report.gate.requirements import (
    Judged,
    Requirement,
    is_against_reference,
    number_of,
    strengths_of,
    why_unsearched,
)
from robustatlas.report.numbers.definitions import CONFIDENCE, SIGNIFICANCE
from robustatlas.report.numbers.drops import Drop, drops_between
from robustatlas.report.numbers.number import CLEAN
from robustatlas.report.numbers.shared import Shared
from robustatlas.results.result import Result


class Decision(Enum):
    """Decision on a requirement; the value is the word that people read."""

    KEPT = "kept"
    NOT_KEPT = "not kept"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    name: str
    decision: Decision
    sentence: str

    @property
    def passed(self) -> bool:
        """True if it is kept; what is not decided is not kept either."""
        return self.decision is Decision.KEPT


def decision_of(is_kept: bool) -> Decision:
    """Return the decision on something that is kept or not."""
    return Decision.KEPT if is_kept else Decision.NOT_KEPT


def overall_sentence(checks: Sequence[Check]) -> str:
    """Return whether all checks together are a go.

    >>> overall_sentence([Check("clean>=90", Decision.KEPT, ""), Check("linf@0.1>=50", Decision.NOT_DECIDED, "")])
    'Not decided: 1 of 2 checks is not decided.'
    """
    counts = Counter(check.decision for check in checks)
    for decision, word in ((Decision.NOT_KEPT, "No go"), (Decision.NOT_DECIDED, "Not decided")):
        if counts[decision]:
            verb = "is" if counts[decision] == 1 else "are"
            return f"{word}: {counts[decision]} of {pluralise(len(checks), 'check')} {verb} {decision.value}."
    return f"Go: {'the check is' if len(checks) == 1 else f'all {len(checks)} checks are'} kept."


def check_requirements(
    requirements: Sequence[Requirement], result: Result, facts: RunFacts, judged: Judged = "interval"
) -> list[Check]:
    """Hold each requirement against its number; `judged`: whether the whole 95 % interval has to keep a bound."""
    return [_check_requirement(requirement, result, facts, judged) for requirement in requirements]


def _check_requirement(requirement: Requirement, result: Result, facts: RunFacts, judged: Judged) -> Check:
    number = number_of(requirement, result, facts)
    decision = _decision(requirement, number, judged)
    why = masked_shares(result, number.at)
    if why:
        # An upper bound below a required least value breaks the requirement; it proves nothing else.
        broken = requirement.sign == ">=" and decision is Decision.NOT_KEPT
        decision = Decision.NOT_KEPT if broken else Decision.NOT_DECIDED
    doubt = why_unsearched(number, result)
    said = _describe_interval(requirement, number, doubt, decision) if doubt and not why else ""
    said = said or _describe(requirement, number, why, decision, result.samples)
    doubts = facts.reference.held.doubts if facts.reference and is_against_reference(requirement) else ()
    return Check(requirement.text, decision, " ".join([said, *doubts]))


def _decision(requirement: Requirement, number: Interval, judged: Judged) -> Decision:
    if judged == "value":
        return decision_of(requirement.met_by(number, "value"))
    if requirement.met_by(number):
        return Decision.KEPT
    return Decision.NOT_KEPT if requirement.broken_by(number) else Decision.NOT_DECIDED


def _describe_interval(requirement: Requirement, number: Interval, doubt: str, decision: Decision) -> str:
    """Describe a number that was not searched, as far as it is known; `doubt`: see `why_unsearched`."""
    low, high = _written(number.low), _written(number.high)
    return f"{requirement.what} is between {low} and {high}, {doubt}; {_bound(requirement)} is {decision.value}."


def _describe(
    requirement: Requirement, number: Interval, why: Mapping[str, float], decision: Decision, samples: int
) -> str:
    said = f"{requirement.what} is {_written(number.value)} ({_written(number.low)} to {_written(number.high)})"
    if why:
        return f"{said}, {MASKED}, which proves nothing. {masked_reason(why)}"
    if decision is Decision.NOT_DECIDED:
        wanted = samples_to_decide(requirement, number, samples)
        more = "more samples" if wanted is None else f"about {wanted:,} samples"
        return f"{said}: {_bound(requirement)} lies within the interval; {more} would decide."
    return f"{said}; {_bound(requirement)} is {decision.value}."


def _bound(requirement: Requirement) -> str:
    return f"{requirement.sign} {requirement.bound:g}"


def _written(value: float) -> str:
    """Write a number of a run, or "never" for the size at which something never happens."""
    return "never" if math.isinf(value) else f"{value:.4g}"


def check_against(new: Result, old: Result, max_drop: float, judged: Judged = "interval") -> list[Check]:
    """Check if any accuracy that both runs have fell by more than ``max_drop`` points on the images that both have.

    Clean accuracy, and every strength of every attack, are compared by the exact paired test of McNemar, corrected
    (Holm) for all of them together. A drop that the test does not tell from chance does not count, unless values alone
    are judged. An attack that is masked on either model, as after rounding, is not tested: that proves nothing, and the
    check is not decided. Nor is it of an attack whose threat models differ, and of a run that is not finished.

    ``max_drop``: in percentage points. ``judged``: whether a drop has to be significant, or its value alone decides.
    Raises :class:`UserError`: the runs share no images, or no attack at the same strength.
    """
    shared = shared_of_runs([new, old])
    found, old_name = drops_between(shared), shared.labels[1]
    checks = [_check_drops(name, drops, shared, max_drop, judged) for name, drops in found.tested.items()]
    undecided = [(attack, _untested_sentence(attack, which)) for attack, which in found.masked.items()]
    if points := found.unsearched:
        said = f"Not in both runs: {describe_unsearched(points)}; run: {command_to_search(points)}"
        undecided.insert(0, (", ".join(dict(points)), said))
    undecided += [(attack, refusal_to_compare(attack, how)) for attack, how in shared.unlike.items()]
    undecided += [("all samples", said) for said in shared.unfinished]
    return checks + [Check(f"{name} against {old_name}", Decision.NOT_DECIDED, said) for name, said in undecided]


def _check_drops(name: str, drops: Sequence[Drop], shared: Shared, max_drop: float, judged: Judged) -> Check:
    """Decide on the drops under one attack at all of its strengths; the sentence is about the worst one."""
    too_far = [d for d in drops if d.points > max_drop and (judged == "value" or d.p_value < SIGNIFICANCE)]
    worst = max(too_far or drops, key=lambda drop: drop.points)
    is_clean = worst.what == CLEAN
    at = "" if is_clean else f" at {format_strength(worst.strength, attack=name)}"
    more = f"; too far at {len(too_far)} of {len(drops)} strengths" if too_far and not is_clean else ""
    said = (
        f"{name} {_change_in_words(worst.points)}{at} on {shared.samples} images "
        f"(right only now {worst.only_new}, only before {worst.only_old}; p = {worst.p_value:.2g}){more}."
    )
    return Check(f"{name} against {shared.labels[1]}", decision_of(not too_far), said)


def _untested_sentence(attack: str, which: Sequence[Result]) -> str:
    whose, why = (
        join_words([add_mark(one.name, one.is_suspect) for one in which]),
        masked_reason(masked_shares(which[0], [attack])),
    )
    return f"{attack} of {whose} is {MASKED}, which proves nothing. {why}"


def _change_in_words(drop: float) -> str:
    return f"fell by {drop:.2f} points" if drop > 0 else f"rose by {-drop:.2f} points" if drop < 0 else "is the same"


_FORM = re.compile(r"\s*diagnosis\s*=\s*([^=]*?)\s*")


def asks_for_verdict(text: str) -> bool:
    """Return True if a requirement is about the diagnosis.

    >>> asks_for_verdict("diagnosis=sound"), asks_for_verdict("clean>=90")
    (True, False)
    """
    return _FORM.fullmatch(text) is not None


def check_verdict(text: str, result: Result, bounds: Sequence[Requirement] = ()) -> Check:
    """Check if the diagnosis of a run is the required one; without a diagnosis that is not decided, and where a sound
    one did not look at a required strength. ``text``: ``diagnosis=sound``, or another verdict. ``bounds``: what else is
    required; the strengths that these name have to be looked at, or all where they name none."""
    found = _FORM.fullmatch(text)
    wanted, known = found[1] if found else text, get_args(Verdict)
    if wanted not in known:
        raise UserError(
            f"--require {shorten(repr(text))} is not understood; expected diagnosis= one of {', '.join(known)}."
        )
    diagnosis = result.diagnosis
    if diagnosis is None:
        return Check(
            text,
            Decision.NOT_DECIDED,
            "The run was not diagnosed; run 'robustatlas diagnose' on it, or evaluate it again.",
        )
    if diagnosis.verdict == wanted == "sound" and (unseen := _unseen(result, bounds)):
        where = list_names([f"{attack} at {format_strength(strength, attack=attack)}" for attack, strength in unseen])
        return Check(
            text,
            Decision.NOT_DECIDED,
            f"Gradients were not checked at the points where these attacks ended: {where}; run 'robustatlas diagnose' "
            "on the run. "
            f"{diagnosis.sentence}",
        )
    return Check(text, decision_of(diagnosis.verdict == wanted), diagnosis.sentence)


def _unseen(result: Result, bounds: Sequence[Requirement]) -> list[tuple[str, float]]:
    """The attacks by gradients and required strengths whose searches were not looked at where they ended."""
    by_gradients = {record.name for record in result.records.values() if record.gradient is not None}
    named = [entry for bound in bounds for entry in strengths_of(bound, result)]
    everything = [(attack, strength) for attack in result.attacks for strength in result.distances(attack).tolist()]
    looked_at = result.diagnosis.checked_strengths if result.diagnosis is not None else {}
    return [
        (attack, strength)
        for attack, strength in dict.fromkeys(named or everything)
        if attack in by_gradients and strength_position(strength, looked_at.get(attack, ())) is None
    ]


MOST = 10_000_000
"""Number of samples beyond which nobody wants to know how many would decide."""


def samples_to_decide(requirement: Requirement, number: Interval, samples: int) -> int | None:
    """Return the smallest number of samples with which the interval would lie on one side of the bound.

    None if more than ten million were needed, should what was found stay.
    """
    least, most = samples, samples
    while not _would_decide(requirement, number, samples, most):
        least, most = most, 2 * most
        if most > MOST:
            return None
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if _would_decide(requirement, number, samples, middle) else (middle, most)
    return most


def _would_decide(requirement: Requirement, number: Interval, samples: int, count: int) -> bool:
    """Return True if `count` samples would do: exactly for a share, else as intervals shrink with their root."""
    if requirement.counts_samples:
        low, high = proportion_bounds(number.value / 100 * count, count, CONFIDENCE)
    else:
        shrunk = (samples / count) ** 0.5
        low, high = (number.value + shrunk * (end - number.value) for end in (number.low, number.high))
    found = Interval(number.value, float(low), float(high), number.confidence)
    return requirement.met_by(found) or requirement.broken_by(found)
