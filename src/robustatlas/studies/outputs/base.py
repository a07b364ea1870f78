"""What every output of a study has: which runs it is of, what it waits for, and what it makes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robustatlas.common.wording import wording
from robustatlas.studies.description import Study, StudyEntry, check_known
from robustatlas.studies.numbers import StudyNumber, number_of
from robustatlas.studies.tables import Sheet

if TYPE_CHECKING:
    from robustatlas.metrics.references import Reference
    from robustatlas.results.result import Result
    from robustatlas.studies.finished import Finished


@dataclass(frozen=True)
class Made:
    """What an output came to.

    Attributes:
        sheets: tables, by what is added to the output's name in that of their files.
        figures: of matplotlib, likewise.
        pages: files that were written already.
    """

    sheets: Mapping[str, Sheet] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    pages: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Wanted:
    """What an output is made of: names of evaluations, of their models, of references, and of models whose trainings it
    looks at."""

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
    """

    title: str = ""
    source: str = ""
    evaluation: str | None = None
    models: list[str] | None = None
    reference: str | None = None

    @abstractmethod
    def make(self, done: Finished, folder: Path) -> Made:
        """The output of a study that has all it waits for; ``folder``: for pages."""

    def evaluations(self, study: Study) -> tuple[str, ...]:
        """The evaluations whose runs it is of."""
        return (self.evaluation or next(iter(study.evaluations)),) if study.evaluations else ()

    def chosen(self, study: Study) -> tuple[str, ...]:
        """The models that it is of."""
        known = [model for name in self.evaluations(study) for model in study.evaluated(name)]
        return tuple(self.models if self.models is not None else dict.fromkeys(known))

    def wants(self, study: Study) -> Wanted:
        """What it is made of."""
        references = () if self.reference is None else (self.reference,)
        return Wanted(self.evaluations(study), self.chosen(study), references)

    def check(self, study: Study, place: str) -> None:
        """Raise where it names what the study has not; ``place``: of it in the file."""
        wanted = self.wants(study)
        for name in wanted.evaluations:
            check_known(name, study.evaluations, f"{place}: evaluation")
        evaluated = [model for name in wanted.evaluations for model in study.evaluated(name)]
        for model in wanted.models:
            check_known(model, study.models, f"{place}: models")
            check_known(model, evaluated, f"{place}: models (of the evaluation)")
        for model in wanted.trainings:
            check_known(model, study.models, f"{place}: models")

    def number(self, done: Finished, name: str, model: str, evaluation: str | None = None) -> StudyNumber:
        """A number of a model over its trainings."""
        return number_of(name, self.runs(done, model, evaluation), self.against(done), done.trained_on(model))

    def runs(self, done: Finished, model: str, evaluation: str | None = None) -> list[Result]:
        """The runs of a model, one for each of its trainings; by default of the first evaluation."""
        return done.runs(evaluation or self.evaluations(done.study)[0], model)

    def beside(
        self, done: Finished, printed: Mapping[str, Mapping[str, float]], name: str, attacks: Sequence[str]
    ) -> Sheet:
        """What the paper prints of models beside ours; ``printed``: model -> attack -> its value, ``name``: of the
        number, before that of the attack. Models and ``attacks`` that this size leaves out are left out."""
        rows = [
            (done.label(model), wording(attack).label, float(value), self.number(done, f"{name} {attack}", model))
            for model, row in printed.items()
            for attack, value in row.items()
            if model in done.study.models and attack in attacks
        ]
        return Sheet(f"{self.title}: printed and ours", ("model", "attack", "printed", "ours"), rows)

    def against(self, done: Finished) -> Reference | None:
        """The reference that its ratios are to."""
        return None if self.reference is None else done.reference(self.reference)
