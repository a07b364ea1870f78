"""Models by attacks: UAR, competitiveness ratios, accuracies, how attacks agree, and references themselves."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from robustatlas.common.errors import UserError
from robustatlas.common.wording import strength as written
from robustatlas.common.wording import text_as_typed, value_as_typed, wording
from robustatlas.metrics.comparison import attack_correlation
from robustatlas.metrics.figures import plot_accuracy_matrix, plot_scores
from robustatlas.metrics.references import load_reference
from robustatlas.outcomes.strengths import position_of
from robustatlas.report.facts.agreement import FEWEST
from robustatlas.studies.description import Study
from robustatlas.studies.numbers import StudyNumber
from robustatlas.studies.outputs.base import Made, Output, Wanted, printed_heading, with_printed
from robustatlas.studies.tables import Cell, Sheet
from robustatlas.training.calibration import calibrate

if TYPE_CHECKING:
    from robustatlas.outcomes import AccuracyTable
    from robustatlas.studies.finished import Finished


class _Matrix(Output):
    """A row for each model, a column for each attack that the reference has."""

    attacks: list[str] | None = None
    reference: str
    printed: dict[str, dict[str, float]] = Field(default_factory=dict)
    unit: ClassVar[str] = ""

    @property
    @abstractmethod
    def kind_of_number(self) -> str:
        """What its numbers are called, before the name of an attack."""

    def columns(self, done: Finished) -> list[str]:
        """The attacks: those of the evaluation that the reference has."""
        runs = self.runs(done, self.chosen(done.study)[0])
        known = done.reference(self.reference).accuracies.attacks
        return [attack for attack in self.attacks or runs[0].attacks if attack in known]

    def matrix(self, done: Finished) -> dict[str, dict[str, StudyNumber]]:
        """Model -> attack -> its number."""
        return {
            model: {a: self.number(done, f"{self.kind_of_number} {a}", model) for a in self.columns(done)}
            for model in self.chosen(done.study)
        }

    def make(self, done: Finished, folder: Path) -> Made:
        matrix = self.matrix(done)
        attacks = self.columns(done)
        rows: list[tuple[Cell, ...]] = [(done.label(model), *row.values()) for model, row in matrix.items()]
        sheet = Sheet(self.title, ("model", *(wording(attack).label for attack in attacks)), rows)
        means = {done.label(model): {a: n.mean for a, n in row.items()} for model, row in matrix.items()}
        sheets = {"": sheet}
        if self.printed:
            sheets["printed"] = self.beside(done, self.printed, self.kind_of_number, attacks)
        return Made(sheets, {"": plot_scores(means, label=self.unit).figure})


class UarMatrix(_Matrix):
    """UAR of each model under each attack."""

    unit = "UAR (%)"

    @property
    def kind_of_number(self) -> str:
        return "UAR"


class CrMatrix(_Matrix):
    """Competitiveness ratio of each model under each attack alone; ``worst``: its smallest, not its mean."""

    worst: bool = False
    unit = "CR (%)"

    @property
    def kind_of_number(self) -> str:
        return "CR ind-worst" if self.worst else "CR"


class Correlations(UarMatrix):
    """Correlation of UAR under two attacks over the adversarially trained models that saw neither."""

    def make(self, done: Finished, folder: Path) -> Made:
        """The table and the map; a pair that fewer than three models have not seen has none."""
        attacks = self.columns(done)
        matrix = {model: row for model, row in self.matrix(done).items() if done.trained_on(model)}
        scores = np.array([[number.mean for number in row.values()] for row in matrix.values()])
        seen = np.array([[attack in done.trained_on(model) for attack in attacks] for model in matrix])
        found = attack_correlation(scores, seen=seen)
        unseen = (~(seen[:, :, None] | seen[:, None, :])).sum(axis=0)
        labels = [wording(attack).label for attack in attacks]
        rows = [
            (label, *(_correlation(found[r, c], unseen[r, c]) for c in range(len(attacks))))
            for r, label in enumerate(labels)
        ]
        notes = ("Over the adversarially trained models that saw neither attack, three at least.",)
        drawn = {labels[r]: {a: 100 * float(found[r, c]) for c, a in enumerate(attacks)} for r in range(len(attacks))}
        figure = plot_scores(drawn, label="100 x correlation of UAR").figure
        return Made({"": Sheet(self.title, ("attack", *labels), rows, notes, digits=2)}, {"": figure})


def _correlation(value: float, models: int) -> Cell:
    return float(value) if np.isfinite(value) else "all alike" if models >= FEWEST else f"{models} models"


class Accuracies(Output):
    """Accuracy of each model under every attack at every strength: a table for each attack, a map for each model."""

    attacks: list[str] | None = None

    def make(self, done: Finished, folder: Path) -> Made:
        runs = {model: self.runs(done, model) for model in self.chosen(done.study)}
        first = next(iter(runs.values()))[0]
        sheets = {}
        for attack in self.attacks or first.attacks:
            strengths = first.distances(attack).tolist()
            grid = [written(strength, of=attack) for strength in strengths]
            names = [f"{attack}@{value_as_typed(attack, strength)!r}" for strength in strengths]
            rows: list[tuple[Cell, ...]] = [
                (done.label(model), *(self.number(done, name, model) for name in names)) for model in runs
            ]
            sheets[attack] = Sheet(f"{self.title}: {wording(attack).label}", ("model", *grid), rows)
        figures = {
            model: plot_accuracy_matrix(results[0].accuracies().sound()).figure for model, results in runs.items()
        }
        return Made(sheets, figures)


class OfReference(Output):
    """The accuracies of a reference at its strengths, beside those that a paper prints where ``printed`` names a
    reference that comes with robustatlas."""

    reference: str
    printed: str | None = None

    def wants(self, study: Study) -> Wanted:
        return Wanted(references=(self.reference,))

    def make(self, done: Finished, folder: Path) -> Made:
        ours = done.reference(self.reference)
        printed = None if self.printed is None else load_reference(self.printed).accuracies
        points = [(attack, s) for attack in ours.accuracies.attacks for s in ours.accuracies.distance_entries[attack]]
        rows: list[tuple[Cell, ...]] = [
            (wording(attack).label, written(s, of=attack), float(ours.accuracies.accuracy_within(attack, s)))
            for attack, s in points
        ]
        heads: tuple[str, ...] = ("attack", "strength", "ours")
        notes = (*ours.notes, *ours.marks)
        if printed is not None:
            entry = done.study.references.get(self.reference)
            data = next(iter(done.study.data)) if entry is None else done.study.data_of(entry)
            heading = printed_heading(self.printed_on, done.study.data[data].name)
            heads, rows = with_printed(heads, rows, [(heading, _printed_at(printed, *point)) for point in points], 2)
            notes += (f"Printed: {load_reference(str(self.printed)).source}.",)
        return Made({"": Sheet(self.title, heads, rows, notes)})


def _printed_at(printed: AccuracyTable, attack: str, strength: float) -> Cell:
    grid = list(printed.distance_entries.get(attack, ()))
    place = position_of(strength, grid)
    return "not there" if place is None else float(printed.values(attack)[place])


class OfCalibration(Output):
    """Six strengths of each attack that are as hard to learn as those of linf."""

    reference: str
    below: float = 25.0

    def wants(self, study: Study) -> Wanted:
        return Wanted(references=(self.reference,))

    def make(self, done: Finished, folder: Path) -> Made:
        reference = done.reference(self.reference)
        rows: list[tuple[Cell, ...]] = []
        for attack in reference.accuracies.attacks:
            try:
                found = calibrate(attack, reference, below=self.below)
            except UserError as error:
                rows.append((wording(attack).label, str(error), *["none"] * 5))
                continue
            ends = ["none" if end is None else text_as_typed(end) for end in (found.smallest, found.largest)]
            strengths = ", ".join(text_as_typed(strength, 6) for strength in found.strengths)
            ata = ", ".join(f"{value:.1f}" for value in found.ata)
            known = len(reference.accuracies.entries[attack])
            of = f"{len(found.strengths)} of {known}{', no choice' if known == len(found.strengths) else ''}"
            rows.append((wording(attack).label, strengths, of, ata, found.cost, *ends))
        heads = ("attack", "strengths", "chosen", "ATA", "cost", "smallest", "largest")
        return Made({"": Sheet(self.title, heads, rows)})
