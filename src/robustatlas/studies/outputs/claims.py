"""Claims of papers that one number is larger than another, decided over trainings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from robustatlas.common.errors import UserError
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.trainings import mean_over_trainings
from robustatlas.report.numbers.definitions import CONFIDENCE
from robustatlas.report.numbers.number import Status
from robustatlas.report.numbers.texts import number_text
from robustatlas.studies.description import Study, StudyEntry, check_known
from robustatlas.studies.numbers import Cell, Sheet, StudyNumber, number_label, study_number
from robustatlas.studies.outputs.base import (
    PRINTED,
    Effect,
    Made,
    Output,
    Verdict,
    Wanted,
    printed_heading,
    with_printed,
)

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished

NOTES = (
    "Difference: the mean over the trainings of the same seeds, with its 95 % interval by Student's t.",
    "An effect is shown where the interval lies above 0, and not reproduced at this size where the mean is not above 0 "
    "(the opposite is shown only where the interval lies below 0); otherwise it is not decided. An effect of two "
    "differences needs both.",
    "A number that is an upper bound only (gradients mislead) decides nothing that a smaller number would undo.",
    "Verdicts are of the networks, images and attacks of this size alone; intervals are over trainings, on one choice "
    "of test images.",
)
"""Sentences on the rule by which verdicts are found."""


class Side(StudyEntry):
    """A number of a model, by the runs of an evaluation and against a reference, where they are not the output's."""

    model: str
    number: str
    evaluation: str | None = None
    reference: str | None = None


class Comparison(StudyEntry):
    """The statement that ``more`` is larger than ``less``; ``printed``: both as the paper has them."""

    more: Side
    less: Side
    printed: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None

    @property
    def printed_text(self) -> str:
        """The printed numbers as text."""
        return "none" if self.printed is None else " > ".join(f"{value:g}" for value in self.printed)


class Claim(Comparison):
    """A comparison that a paper makes, and another one, ``then``, where it takes two: curves intersect if one model is
    better at a small size, and the other at a large one. ``printed_on``: the data set of what is printed, ``source``:
    its place in the paper."""

    claim: str
    then: Comparison | None = None
    printed_on: str | None = None
    source: str = ""

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons that all have to hold."""
        return (self,) if self.then is None else (self, self.then)

    @property
    def sides(self) -> tuple[Side, ...]:
        """Both sides of each comparison."""
        return tuple(side for each in self.comparisons for side in (each.more, each.less))


class PaperClaims(Output):
    """A row for each claim: both numbers, their difference over the trainings of the same seeds with Student's
    interval, and the verdict."""

    claims: Annotated[list[Claim], Field(min_length=1)]

    def wants(self, study: Study) -> Wanted:
        sides = [side for claim in self.claims for side in claim.sides]
        evaluations = [*(side.evaluation for side in sides if side.evaluation), *self.evaluations(study)]
        references = [side.reference or self.reference for side in sides]
        return Wanted(
            tuple(dict.fromkeys(evaluations)),
            tuple(dict.fromkeys(side.model for side in sides)),
            tuple(dict.fromkeys(name for name in references if name)),
        )

    def check(self, study: Study, place: str) -> None:
        """Raise where a claim names what the study has not, or has no trainings to be decided by."""
        for claim in self.claims:
            at = f"{place}: {claim.claim!r}"
            for side in claim.sides:
                check_known(side.model, study.models, f"{at}: model")
                check_known(
                    side.evaluation or next(iter(study.evaluations), ""), study.evaluations, f"{at}: evaluation"
                )
            if any(each.printed for each in claim.comparisons) and claim.printed_on is None:
                raise UserError(f"{at} has printed numbers; say of which data set they are, printed_on = 'cifar10'.")
            for each in claim.comparisons:
                seeds = [study.model_seeds(side.model) for side in (each.more, each.less)]
                if seeds[0] != seeds[1] or len(seeds[0]) < 2:
                    raise UserError(
                        f"{at} compares {each.more.model} and {each.less.model}; give both the same seeds, two at "
                        "least."
                    )

    def make(self, done: Finished, folder: Path) -> Made:
        effects = tuple(self._effect(done, claim) for claim in self.claims)
        rows: list[tuple[Cell, ...]] = [
            (one.claim, one.source or "none", one.ours, one.difference, one.verdict.value) for one in effects
        ]
        heads, rows = with_printed(
            ("effect", "source", "ours", "difference", "verdict"),
            rows,
            [self._printed(done, claim) for claim in self.claims],
            1,
        )
        return Made({"": Sheet(self.title, heads, rows, NOTES)}, effects=effects)

    def _printed(self, done: Finished, claim: Claim) -> tuple[str, Cell] | None:
        """Return the heading and the cell of what the paper prints; None where it prints nothing."""
        if not any(each.printed for each in claim.comparisons):
            return None
        on = self.data_name(done.study, claim.more.evaluation)
        return printed_heading(claim.printed_on, on), "; ".join(each.printed_text for each in claim.comparisons)

    def _effect(self, done: Finished, claim: Claim) -> Effect:
        found = [self._compare(done, each) for each in claim.comparisons]
        ours, differences = ("; ".join(texts) for texts in zip(*((one, gap) for one, gap, _ in found), strict=True))
        printed = self._printed(done, claim)
        said = "" if printed is None else f"{printed[1]}{f', {claim.printed_on}' if printed[0] != PRINTED else ''}"
        return Effect(claim.claim, claim.source, ours, differences, said, joint_verdict([each for _, _, each in found]))

    def _compare(self, done: Finished, comparison: Comparison) -> tuple[str, str, Verdict]:
        """Return both numbers, their difference, and the verdict of one comparison."""
        more, less = self._number(done, comparison.more), self._number(done, comparison.less)
        ours = " and ".join(
            f"{number_label(side.number)} of {done.label(side.model)} is {number.value_text}"
            f"{f' ({Status.UPPER_BOUND.value})' if number.is_upper_bound else ''}"
            for side, number in ((comparison.more, more), (comparison.less, less))
        )
        if why := more.why or less.why:
            return ours, why, Verdict.NOT_DECIDED
        gap = mean_over_trainings(more.values - less.values, CONFIDENCE)
        return ours, number_text(gap, more.digits, sign=True), verdict(gap, more.is_upper_bound, less.is_upper_bound)

    def _number(self, done: Finished, side: Side) -> StudyNumber:
        runs = done.numbers(side.evaluation or self.evaluations(done.study)[0], side.model)
        name = side.reference or self.reference
        against = None if name is None else done.reference(name)
        return study_number(side.number, runs, against, done.trained_on(side.model))


def joint_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a claim that takes several comparisons.

    Example:
        >>> joint_verdict([Verdict.SHOWN, Verdict.NOT_DECIDED]).value
        'not decided'
        >>> joint_verdict([Verdict.NOT_DECIDED, Verdict.NOT_REPRODUCED]).value
        'not reproduced at this size'
    """
    if Verdict.NOT_REPRODUCED in verdicts:
        return Verdict.NOT_REPRODUCED
    return Verdict.SHOWN if all(each is Verdict.SHOWN for each in verdicts) else Verdict.NOT_DECIDED


def verdict(gap: Interval, more_bounded: bool = False, less_bounded: bool = False) -> Verdict:
    """Return the verdict on the claim that one number is larger than another.

    The claim is shown where the interval of the difference lies above 0, and not reproduced where its mean is not above
    0. A number that is only an upper bound decides nothing that its true, smaller value would undo.

    Example:
        >>> verdict(Interval(2.0, 1.0, 3.0, 0.95)).value, verdict(Interval(1.0, -1.0, 3.0, 0.95)).value
        ('shown', 'not decided')
        >>> below = Interval(-2.0, -5.0, 1.0, 0.95)
        >>> verdict(below).value, verdict(below, less_bounded=True).value
        ('not reproduced at this size', 'not decided')
    """
    if gap.low > 0 and not more_bounded:
        return Verdict.SHOWN
    return Verdict.NOT_REPRODUCED if gap.value <= 0 and not less_bounded else Verdict.NOT_DECIDED
