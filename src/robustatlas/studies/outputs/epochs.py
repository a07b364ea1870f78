"""Over the epochs of trainings: numbers of the weights that were kept, and accuracies on held-out images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robustatlas.common.errors import UserError
from robustatlas.metrics.figures import plot_over_epochs
from robustatlas.report.training import plot_training
from robustatlas.studies.description import Study
from robustatlas.studies.numbers import Cell, Sheet, StudyNumber, is_percentage, number_label, study_number
from robustatlas.studies.outputs.base import Made, Output, Wanted

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished


_WHOLE = 100.0


class NumbersOverEpochs(Output):
    """Numbers over the epochs of the models' trainings: their mean, and one deviation to each side."""

    numbers: Annotated[list[str], Field(min_length=1)]

    def check(self, study: Study, place: str) -> None:
        """Raise where no weights are kept on the way, or not evaluated."""
        super().check(study, place)
        name = self.evaluations(study)[0]
        if not study.evaluations[name].epochs:
            raise UserError(f"{place} is over epochs, but evaluations.{name} has no `epochs = true`.")
        for model in self.selected_models(study):
            if study.models[model].keep is None:
                raise UserError(f"{place} is over epochs, but models.{model} keeps none; give it `keep`, such as 5.")

    def make(self, done: Finished, folder: Path) -> Made:
        evaluation, reference = self.evaluations(done.study)[0], self.ratio_reference(done)
        found: dict[str, dict[int, list[StudyNumber]]] = {}
        for model in self.selected_models(done.study):
            runs = {epoch: done.numbers(evaluation, model, epoch) for epoch in done.epochs(evaluation, model)}
            seen = done.trained_on(model)
            found[model] = {
                epoch: [study_number(name, each, reference, seen) for name in self.numbers]
                for epoch, each in runs.items()
            }
        sheets = {
            model: Sheet(f"{self.title}: {done.label(model)}", ("epoch", *map(number_label, self.numbers)),
                         [(epoch, *numbers) for epoch, numbers in rows.items()])
            for model, rows in found.items()
        }  # fmt: skip
        figures = {}
        for place, name in enumerate(self.numbers):
            lines = {
                done.label(model): np.array([[e, *numbers[place].band] for e, numbers in rows.items()])
                for model, rows in found.items()
            }
            known = {label: line for label, line in lines.items() if np.isfinite(line[:, 1]).any()}
            if known:  # a stability constant has no value where no two points are about as difficult
                figures[name.replace(" ", "-").replace("/", "-")] = _plot_lines(known, name)
        return Made(sheets, figures)


def _plot_lines(lines: Mapping[str, NDArray[np.float64]], name: str) -> Any:
    percent = is_percentage(name)
    within = percent and not any((line[:, 3] > _WHOLE).any() for line in lines.values())  # ratios may be larger
    return plot_over_epochs(lines, label=f"{number_label(name)}{' (%)' * percent}", percent=within).figure


class Trainings(Output):
    """The accuracies of trainings on training images and on held-out ones, attack by attack, and their course."""

    def wants(self, study: Study) -> Wanted:
        models = tuple(self.models or (name for name, model in study.models.items() if model.trained))
        return Wanted(trainings=models)

    def make(self, done: Finished, folder: Path) -> Made:
        """The table, a row for each training, and a figure for each model."""
        rows: list[tuple[Cell, ...]] = []
        figures = {}
        for model in self.wants(done.study).trainings:
            histories = done.histories(model)
            seeds = done.study.model_seeds(model)
            figures[model] = plot_training(histories[0])
            for seed, history in zip(seeds, histories, strict=True):
                last = history[-1]
                robust = {k.removeprefix("robust/"): v for k, v in last.items() if k.startswith("robust/")}
                said = ", ".join(f"{name} {value:.1f}" for name, value in robust.items())
                robust_said = said or _percent(last.get("robust"))
                training = ", ".join(
                    f"{k.removeprefix('training/')} {v:.1f}" for k, v in last.items() if k.startswith("training/")
                )
                rows.append((done.label(model), str(seed), training or _percent(last.get("training_accuracy")),
                             _percent(last.get("clean")), robust_said))  # fmt: skip
        heads = ("model", "seed", "training", "held out, clean", "held out, attacked")
        notes = ("In percent, of the last epoch; training: as the recipe crafts; held out: by 20 steps of ascent.",)
        return Made({"": Sheet(self.title, heads, rows, notes)}, figures)


def _percent(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.1f}"
