"""Claims of papers that one number is larger than another, decided over trainings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from robustatlas.common.errors import UserError
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.trainings import mean_over
from robustatlas.studies.description import Study, StudyEntry, check_known
from robustatlas.studies.numbers import StudyNumber, label_of, number_of
from robustatlas.studies.outputs.base import Made, Output, Wanted, printed_heading, with_printed
from robustatlas.studies.tables import Cell, Sheet

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished

HOLDS, FAILS, OPEN = "holds", "does not hold", "not decided"


class Side(StudyEntry):
    """A number of a model, by the runs of an evaluation and against a reference, where they are not the output's."""

    model: str
    number: str
    evaluation: str | None = None
    reference: str | None = None


class Claim(StudyEntry):
    """That ``more`` is larger than ``less``; ``printed``: both as the paper has them on the data set ``printed_on``,
    ``source``: where."""

    paper: str
    claim: str
    more: Side
    less: Side
    printed: Annotated[list[float], Field(min_length=2, max_length=2)] | None = None
    printed_on: str | None = None
    source: str = ""


class ClaimsOfPapers(Output):
    """A row for each claim: both numbers, their difference over the trainings of the same seeds with Student's
    interval, and whether it holds."""

    claims: Annotated[list[Claim], Field(min_length=1)]

    def wants(self, study: Study) -> Wanted:
        sides = [side for claim in self.claims for side in (claim.more, claim.less)]
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
            for side in (claim.more, claim.less):
                check_known(side.model, study.models, f"{at}: model")
                check_known(
                    side.evaluation or next(iter(study.evaluations), ""), study.evaluations, f"{at}: evaluation"
                )
            if claim.printed is not None and claim.printed_on is None:
                raise UserError(f"{at} has printed numbers; say of which data set they are, printed_on = 'cifar10'.")
            seeds = [study.seeds_of(side.model) for side in (claim.more, claim.less)]
            if seeds[0] != seeds[1] or len(seeds[0]) < 2:
                raise UserError(
                    f"{at} compares {claim.more.model} and {claim.less.model}; give both the same seeds, two at least."
                )

    def make(self, done: Finished, folder: Path) -> Made:
        rows = [self._row(done, claim) for claim in self.claims]
        heads, rows = with_printed(
            ("paper", "claim", "source", "ours", "difference", "verdict"),
            rows,
            [self._printed(done, claim) for claim in self.claims],
            2,
        )
        notes = (
            "Difference: over the trainings of the same seeds, with the 95 % interval by Student's t; a claim holds "
            "where it lies above 0, and does not hold where it lies below. What has a * is an upper bound only "
            "(gradients mislead), and decides nothing that a smaller number would undo.",
        )
        return Made({"": Sheet(self.title, heads, rows, notes)})

    def _printed(self, done: Finished, claim: Claim) -> tuple[str, Cell] | None:
        """Return the heading and the cell of what the paper prints; None where it prints nothing."""
        if claim.printed is None:
            return None
        on = self.data_name(done.study, claim.more.evaluation)
        return printed_heading(claim.printed_on, on), " > ".join(f"{value:g}" for value in claim.printed)

    def _row(self, done: Finished, claim: Claim) -> tuple[Cell, ...]:
        more, less = self._number(done, claim.more), self._number(done, claim.less)
        ours = " and ".join(
            f"{label_of(side.number)} of {done.label(side.model)} {number.text}{' *' * number.masked}"
            for side, number in ((claim.more, more), (claim.less, less))
        )
        said, decided = more.why or less.why, OPEN
        if not said:
            gap, digits = mean_over(more.over.values - less.over.values), more.digits
            said = f"{gap.value:+.{digits}f} [{gap.low:.{digits}f}, {gap.high:.{digits}f}]"
            decided = verdict(gap, more.masked, less.masked)
        return claim.paper, claim.claim, claim.source or "none", ours, said, decided

    def _number(self, done: Finished, side: Side) -> StudyNumber:
        runs = self.runs(done, side.model, side.evaluation)
        name = side.reference or self.reference
        against = None if name is None else done.reference(name)
        return number_of(side.number, runs, against, done.trained_on(side.model))


def verdict(gap: Interval, more_bounded: bool = False, less_bounded: bool = False) -> str:
    """Of a claim that a number is larger than another: decided where the interval of the difference excludes 0, and
    where neither number is an upper bound whose truth, further down, would decide otherwise.

    Example:
        >>> verdict(Interval(2.0, 1.0, 3.0, 0.95)), verdict(Interval(1.0, -1.0, 3.0, 0.95))
        ('holds', 'not decided')
        >>> verdict(Interval(-2.0, -3.0, -1.0, 0.95)), verdict(Interval(-2.0, -3.0, -1.0, 0.95), less_bounded=True)
        ('does not hold', 'not decided')
    """
    if gap.low > 0 and not more_bounded:
        return HOLDS
    return FAILS if gap.high < 0 and not less_bounded else OPEN
