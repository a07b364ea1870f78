"""Whether a run keeps what is required of it, and whether it fell behind an earlier version of its model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.wording import MASKED, beside_masked, listed, strength, why_masked
from robustatlas.metrics.comparison import holm, mcnemar
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.masked import masked
from robustatlas.outcomes.outcome import percent
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import RunFacts, what_is_shared
from robustatlas.report.facts.numbers import CONFIDENCE
from robustatlas.report.gate.requirements import Judged, Requirement, number_of, rests_on
from robustatlas.report.gate.rulings import ruling_on
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
    """Each requirement against the number that it is about.

    Args:
        judged: whether the whole 95 % interval has to keep a bound, or the value alone.

    Raises:
        UserError: a requirement about a number that the run does not have.
    """
    found = []
    for requirement in requirements:
        number = number_of(requirement, result, facts)
        why = masked(result, rests_on(requirement, result))
        passed = requirement.met_by(number, judged) and not why
        found.append(Check(requirement.text, passed, _kept(requirement, number, why, judged, result.samples)))
    return found


def _kept(requirement: Requirement, number: Interval, why: Mapping[str, float], judged: Judged, samples: int) -> str:
    said = f"{requirement.what} is {number.value:.4g} [{number.low:.4g}, {number.high:.4g}]"
    if why:
        return f"{beside_masked(said, why)}, which proves nothing. {why_masked(why)}"
    if requirement.met_by(number, judged):
        return f"{said}."
    if judged == "interval" and requirement.met_by(number, "value"):
        wanted = ruling_on(requirement, number, samples).samples
        more = "more samples" if wanted is None else f"about {wanted:,} samples"
        return f"{said}: its value keeps the bound, its interval does not; {more} would decide."
    return f"{said}, which does not keep {requirement.sign} {requirement.bound:g}."


def check_against(new: Result, old: Result, max_drop: float, judged: Judged = "interval") -> list[Check]:
    """Whether any accuracy that both runs have fell by more than ``max_drop`` points on the images that both have.

    Clean accuracy, and every strength of every attack, are compared by the exact paired test of McNemar, corrected
    (Holm) for all of them together. A drop that the test does not tell from chance does not count, unless values alone
    are judged. An attack that is masked on either model, as after rounding, is not tested: that proves nothing, and the
    check fails.

    Args:
        max_drop: in percentage points.
        judged: whether a drop has to be significant, or its value alone decides.

    Raises:
        UserError: the runs share no images, or no attack at the same strength.
    """
    shared = what_is_shared([new, old])
    whole = shared.table(0), shared.table(1)
    invalid = {attack: [one for one in whole if masked(one, [attack])] for attack in shared.grid}
    competing = {attack: grid for attack, grid in shared.grid.items() if not invalid[attack]}
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
    return found + [_untested(attack, shared.names[1], which) for attack, which in invalid.items() if which]


def _untested(attack: str, against: str, which: Sequence[Result]) -> Check:
    whose, why = listed([one.name for one in which]), why_masked(masked(which[0], [attack]))
    return Check(f"{attack} against {against}", False, f"{attack} of {whose} is {MASKED}, which proves nothing. {why}")


def _correct(table: OutcomeTable) -> NDArray[np.bool_]:
    """[N, 1 + all strengths]: whether each sample is right, clean and under each attack at each strength."""
    return np.concatenate([table.clean[:, None], *(table.correct(attack) for attack in table.attacks)], axis=1)


def _moved(drop: float) -> str:
    return f"fell by {drop:.2f} points" if drop > 0 else f"rose by {-drop:.2f} points" if drop < 0 else "is the same"
