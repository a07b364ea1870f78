"""Models by attacks: UAR, competitiveness ratios, accuracies, how attacks agree, and references themselves."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength, text_as_typed, value_as_typed
from robustatlas.metrics.comparison import attack_correlation
from robustatlas.metrics.figures import plot_accuracy_matrix, plot_scores, plot_trained_strengths
from robustatlas.metrics.references import load_reference
from robustatlas.outcomes.strengths import strength_position
from robustatlas.report.facts.agreement import FEWEST
from robustatlas.studies.description import Study
from robustatlas.studies.numbers import Cell, Sheet, StudyNumber
from robustatlas.studies.outputs.base import Made, Output, Wanted, printed_heading, with_printed
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
        """The name of the numbers, before that of an attack."""

    def columns(self, done: Finished) -> list[str]:
        """Return the attacks of the evaluation that the reference has too."""
        runs = self.runs(done, self.selected_models(done.study)[0])
        known = done.reference(self.reference).accuracies.attacks
        return [attack for attack in self.attacks or runs[0].attacks if attack in known]

    def matrix(self, done: Finished) -> dict[str, dict[str, StudyNumber]]:
        """Return for each model the number under each attack."""
        return {
            model: {a: self.number(done, f"{self.kind_of_number} {a}", model) for a in self.columns(done)}
            for model in self.selected_models(done.study)
        }

    def make(self, done: Finished, folder: Path) -> Made:
        matrix = self.matrix(done)
        attacks = self.columns(done)
        rows: list[tuple[Cell, ...]] = [(done.label(model), *row.values()) for model, row in matrix.items()]
        sheet = Sheet(self.title, ("model", *(attack_label(attack).label for attack in attacks)), rows)
        means = {done.label(model): {a: n.mean for a, n in row.items()} for model, row in matrix.items()}
        sheets = {"": sheet}
        if self.printed:
            sheets["printed"] = self.printed_sheet(done, self.printed, self.kind_of_number, attacks)
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
        labels = [attack_label(attack).label for attack in attacks]
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
    caption: ClassVar[str] = (
        "Figure of each model: its first training; a strip for each attack, darker where more is right."
    )

    def make(self, done: Finished, folder: Path) -> Made:
        sheets = {}
        for attack, accuracies in self.accuracies(done).items():
            grid = [format_strength(strength, attack=attack) for strength in next(iter(accuracies.values()))]
            rows: list[tuple[Cell, ...]] = [(label, *row.values()) for label, row in accuracies.items()]
            sheets[attack] = Sheet(
                f"{self.title}: {attack_label(attack).label}", ("model", *grid), rows, (self.caption,)
            )
        return Made(sheets, self.figures(done))

    def accuracies(self, done: Finished) -> dict[str, dict[str, dict[float, StudyNumber]]]:
        """Return for each attack, and the label of each model, the accuracy at each strength."""
        models = self.selected_models(done.study)
        first = self.runs(done, models[0])[0]
        return {
            attack: {
                done.label(model): {
                    strength: self.number(done, f"{attack}@{value_as_typed(attack, strength)!r}", model)
                    for strength in first.distances(attack).tolist()
                }
                for model in models
            }
            for attack in self.attacks or first.attacks
        }

    def figures(self, done: Finished) -> dict[str, Any]:
        """Draw the accuracies of the first training of each model."""
        runs = {model: self.runs(done, model)[0] for model in self.selected_models(done.study)}
        return {model: plot_accuracy_matrix(run.accuracies().drop_doubts()).figure for model, run in runs.items()}


class TrainedStrengths(Accuracies):
    """Accuracy of models that are trained at several strengths (rows) at every strength of an attack (columns), a table
    and a matrix for each attack; means over the trainings."""

    caption = "Figure: a row for each trained model, a column for each strength of the attack; means over trainings."

    def figures(self, done: Finished) -> dict[str, Any]:
        means = {
            attack: {label: {at: number.mean for at, number in row.items()} for label, row in rows.items()}
            for attack, rows in self.accuracies(done).items()
        }
        return {attack: plot_trained_strengths(rows, attack).figure for attack, rows in means.items()}


class Corruptions(Accuracies):
    """Mean accuracy over the severities of each common corruption, a row for each corruption, and a map of corruptions
    by severities for each model, of its first training."""

    caption = "Figure of each model: its first training; a strip for each corruption, a column for each severity."

    def make(self, done: Finished, folder: Path) -> Made:
        models = self.selected_models(done.study)
        attacks = self.attacks or self.runs(done, models[0])[0].attacks
        rows: list[tuple[Cell, ...]] = [
            (attack_label(attack).label, *(self.number(done, f"average {attack}", model) for model in models))
            for attack in attacks
        ]
        notes = ("Mean over the severities.", self.caption)
        heads = ("corruption", *map(done.label, models))
        return Made({"": Sheet(self.title, heads, rows, notes)}, self.figures(done))


class ReferenceTable(Output):
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
            (
                attack_label(attack).label,
                format_strength(s, attack=attack),
                float(ours.accuracies.accuracy_at_distance(attack, s)),
            )
            for attack, s in points
        ]
        heads: tuple[str, ...] = ("attack", "strength", "ours")
        notes = (*ours.notes, *ours.marks)
        if printed is not None:
            entry = done.study.references.get(self.reference)
            data = next(iter(done.study.data)) if entry is None else done.study.data_name(entry)
            heading = printed_heading(self.printed_on, done.study.data[data].name)
            heads, rows = with_printed(heads, rows, [(heading, _printed_at(printed, *point)) for point in points], 2)
            notes += (f"Printed: {load_reference(str(self.printed)).source}.",)
        return Made({"": Sheet(self.title, heads, rows, notes)})


def _printed_at(printed: AccuracyTable, attack: str, strength: float) -> Cell:
    grid = list(printed.distance_entries.get(attack, ()))
    place = strength_position(strength, grid)
    return "not there" if place is None else StudyNumber.published(float(printed.values(attack)[place]))


class CalibrationTable(Output):
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
                rows.append((attack_label(attack).label, str(error), *["none"] * 5))
                continue
            ends = ["none" if end is None else text_as_typed(end) for end in (found.smallest, found.largest)]
            strengths = ", ".join(text_as_typed(strength, 6) for strength in found.strengths)
            ata = ", ".join(f"{value:.1f}" for value in found.ata)
            known = len(reference.accuracies.entries[attack])
            of = f"{len(found.strengths)} of {known}{', no choice' if known == len(found.strengths) else ''}"
            rows.append((attack_label(attack).label, strengths, of, ata, found.cost, *ends))
        heads = ("attack", "strengths", "chosen", "ATA", "cost", "smallest", "largest")
        return Made({"": Sheet(self.title, heads, rows)})
