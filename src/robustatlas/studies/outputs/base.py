"""The base of all outputs of a study: the runs that an output reads, the steps that it needs, and its result."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.studies.description import Study, StudyEntry, check_known
from robustatlas.studies.numbers import Cell, Sheet, StudyNumber, study_number

if TYPE_CHECKING:
    from robustatlas.metrics.references import Reference
    from robustatlas.results.result import Result
    from robustatlas.studies.finished import Finished


PRINTED = "printed"
"""Heading of numbers that a paper prints of the very data set that ours are of."""


def printed_heading(printed_on: str | None, measured_on: str) -> str:
    """Return the heading of what a paper prints, with the name of its data set where ours are of another one.

    Example:
        >>> printed_heading("cifar10", "cifar10"), printed_heading("cifar10", "fashion-mnist")
        ('printed', 'printed for cifar10')
    """
    return PRINTED if printed_on in (None, measured_on) else f"{PRINTED} for {printed_on}"


def with_printed(
    columns: Sequence[str], rows: Sequence[Sequence[Cell]], printed: Sequence[tuple[str, Cell] | None], place: int
) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
    """Return a table with what is printed for each row, (heading, value) or None: of the same data set in the column
    ``place``, of each other data set in a column of its own at the end.

    Example:
        >>> with_printed(["model", "ours"], [["linf", 50.0]], [("printed for cifar10", "94")], 1)
        (('model', 'ours', 'printed for cifar10'), [('linf', 50.0, '94')])
    """
    headings = list(dict.fromkeys(each[0] for each in printed if each is not None))
    here = [heading for heading in headings if heading == PRINTED]
    elsewhere = [heading for heading in headings if heading != PRINTED]

    def cells(row: Sequence[Cell], values: Sequence[Cell]) -> tuple[Cell, ...]:
        return (*row[:place], *values[: len(here)], *row[place:], *values[len(here) :])

    order = [*here, *elsewhere]
    found = [
        cells(row, [each[1] if each is not None and each[0] == heading else "none" for heading in order])
        for row, each in zip(rows, printed, strict=True)
    ]
    return tuple(str(head) for head in cells(columns, order)), found


class Verdict(Enum):
    """Verdict on an effect of a paper; its value is what people read."""

    SHOWN = "shown"
    NOT_REPRODUCED = "not reproduced at this size"
    NOT_DECIDED = "not decided"


@dataclass(frozen=True)
class Effect:
    """An effect that a paper reports, with what was found of it.

    Attributes:
        claim: sentence that says the effect.
        source: place in the paper.
        ours: our numbers, as text.
        difference: their difference with its interval, as text.
        printed: the numbers of the paper and the data set that they are of, as text; empty where it prints none.
        verdict: what follows from the difference.
    """

    claim: str
    source: str
    ours: str
    difference: str
    printed: str
    verdict: Verdict


@dataclass(frozen=True)
class Made:
    """The tables, figures and pages that an output made.

    Attributes:
        sheets: tables, by what is added to the output's name in that of their files.
        figures: of matplotlib, likewise.
        pages: files that were written already.
        effects: verdicts on effects of the paper.
    """

    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    pages: tuple[Path, ...] = ()
    effects: tuple[Effect, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """The inputs of an output by name: evaluations, their models, references, and models whose trainings it reads."""

    evaluations: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    trainings: tuple[str, ...] = ()


class Output(StudyEntry):
    """An output of a study.

    Attributes:
        title: over the table or figure.
        source: which table or figure of the paper it stands beside.
        evaluation: whose runs it is of; None: of the first.
        models: of these, the models; None: all.
        reference: a reference of the study, or one that comes with robustatlas.
        printed_on: the data set that what the paper prints is of, as :func:`robustatlas.load_dataset` names it.
    """

    title: str = ""
    source: str = ""
    evaluation: str | None = None
    models: list[str] | None = None
    reference: str | None = None
    printed_on: str | None = None

    @abstractmethod
    def make(self, done: Finished, folder: Path) -> Made:
        """Make the output of a study that has all inputs; pages are written to ``folder``."""

    def evaluations(self, study: Study) -> tuple[str, ...]:
        """Return the evaluations whose runs this output reads."""
        return (self.evaluation or next(iter(study.evaluations)),) if study.evaluations else ()

    def selected_models(self, study: Study) -> tuple[str, ...]:
        """Return the models of this output."""
        known = [model for name in self.evaluations(study) for model in study.evaluated_models(name)]
        return tuple(self.models if self.models is not None else dict.fromkeys(known))

    def wants(self, study: Study) -> Wanted:
        """Return the names of the inputs of this output."""
        references = () if self.reference is None else (self.reference,)
        return Wanted(self.evaluations(study), self.selected_models(study), references)

    def check(self, study: Study, place: str) -> None:
        """Raise a `UserError` if the output names an entry that the study lacks; ``place`` is its place in the file."""
        if getattr(self, "printed", None) and self.printed_on is None:
            raise UserError(f"{place} has printed numbers; say of which data set they are, printed_on = 'cifar10'.")
        wanted = self.wants(study)
        for name in wanted.evaluations:
            check_known(name, study.evaluations, f"{place}: evaluation")
        evaluated = [model for name in wanted.evaluations for model in study.evaluated_models(name)]
        for model in wanted.models:
            check_known(model, study.models, f"{place}: models")
            check_known(model, evaluated, f"{place}: models (of the evaluation)")
        for model in wanted.trainings:
            check_known(model, study.models, f"{place}: models")

    def number(self, done: Finished, name: str, model: str, evaluation: str | None = None) -> StudyNumber:
        """Return a number of a model over its trainings."""
        runs = done.numbers(evaluation or self.evaluations(done.study)[0], model)
        return study_number(name, runs, self.ratio_reference(done), done.trained_on(model))

    def runs(self, done: Finished, model: str, evaluation: str | None = None) -> list[Result]:
        """Return the runs of a model, one for each of its trainings; by default of the first evaluation."""
        return done.runs(evaluation or self.evaluations(done.study)[0], model)

    def printed_sheet(
        self, done: Finished, printed: Mapping[str, Mapping[str, float]], name: str, attacks: Sequence[str]
    ) -> Sheet:
        """Return the table of printed values beside ours; models and attacks that this size leaves out have no row.

        Args:
            done: the finished study.
            printed: model -> attack -> the value that the paper prints.
            name: the name of the number, before that of the attack.
            attacks: the attacks of the evaluation.
        """
        pairs = [
            (model, attack, value)
            for model, row in printed.items()
            for attack, value in row.items()
            if model in done.study.models and attack in attacks
        ]
        heading = printed_heading(self.printed_on, self.data_name(done.study))
        rows = [(done.label(m), attack_label(a).label, self.number(done, f"{name} {a}", m)) for m, a, _ in pairs]
        theirs = [(heading, StudyNumber.published(value)) for _, _, value in pairs]
        return Sheet(f"{self.title}: printed and ours", *with_printed(("model", "attack", "ours"), rows, theirs, 2))

    def data_name(self, study: Study, evaluation: str | None = None) -> str:
        """Return the name of the data set that an evaluation is on, by default that of the output."""
        chosen = evaluation or self.evaluations(study)[0]
        return study.data[study.data_name(study.evaluations[chosen])].name

    def ratio_reference(self, done: Finished) -> Reference | None:
        """Return the reference of the ratios."""
        return None if self.reference is None else done.reference(self.reference)
