"""Robustness curves, where they bend, and distances between classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_interval, format_strength, text_as_typed
from robustatlas.common.wording import pluralise
from robustatlas.metrics import RobustnessCurve, interclass_distances
from robustatlas.metrics.curves import change_of_slope
from robustatlas.metrics.figures import plot_curves
from robustatlas.metrics.interclass import LpNorm
from robustatlas.metrics.intervals import proportion_interval
from robustatlas.outcomes.outcome import broken_mask
from robustatlas.outcomes.strengths import read_strength
from robustatlas.report.numbers.definitions import CONFIDENCE
from robustatlas.studies.description import DataEntry, Strength, Study, check_known
from robustatlas.studies.numbers import Cell, Sheet, StudyNumber
from robustatlas.studies.outputs.base import PRINTED, Made, Output, Wanted, printed_heading

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished


class Curves(Output):
    """Robustness curves of the models under an attack, of their first trainings; ``at``: sizes at which the
    robust error is given in numbers, beside what the paper has ``printed`` of models there, as shares."""

    attack: str
    at: tuple[Strength, ...] = Field((), strict=False)
    printed: dict[str, list[float]] = Field(default_factory=dict)
    up_to: Strength | None = None

    def check(self, study: Study, place: str) -> None:
        """Raise where a size is none of the attack, or what is printed does not go with the sizes."""
        super().check(study, place)
        for size in (*self.at, *(() if self.up_to is None else (self.up_to,))):
            if not read_strength(size, self.attack) > 0:
                raise UserError(
                    f"{place}: {text_as_typed(size)} is not a size of {self.attack}, as it changes nothing."
                )
        for model, values in self.printed.items():
            if self.at and len(values) != len(self.at):
                raise UserError(
                    f"{place}: printed.{model} has {pluralise(len(values), 'value')}, and at {len(self.at)}."
                )

    def curves(self, done: Finished) -> dict[str, list[RobustnessCurve]]:
        """Return for each label the curves of the trainings."""
        return {
            done.label(model): [run.curve(self.attack) for run in self.runs(done, model)]
            for model in self.selected_models(done.study)
        }

    def make(self, done: Finished, folder: Path) -> Made:
        found = self.curves(done)
        drawn = {label: each[0] for label, each in found.items()}
        figure = plot_curves(drawn, error=True, up_to=self.up_to, thresholds=self.at).figure
        if not self.at:
            return Made({}, {"": figure})
        heading = printed_heading(self.printed_on, self.data_name(done.study))
        columns: dict[str, list[Cell]] = {"size": [text_as_typed(size) for size in self.at]}
        elsewhere: dict[str, list[Cell]] = {}
        for model, (label, curves) in zip(self.selected_models(done.study), found.items(), strict=True):
            columns[label] = [self._error(read_strength(size, self.attack), curves) for size in self.at]
            if model in self.printed:
                place = columns if heading == PRINTED else elsewhere
                place[f"{label}, {heading}"] = [StudyNumber.published(100 * value, 0) for value in self.printed[model]]
        columns |= elsewhere
        title = f"{self.title}: robust error in % under {attack_label(self.attack).label}, at least"
        rows = list(zip(*columns.values(), strict=True))
        notes = ("Figure: the first training of each model; dashed lines stand at the sizes of this table.",)
        return Made({"": Sheet(title, tuple(columns), rows, notes)}, {"": figure})

    def _error(self, size: float, curves: Sequence[RobustnessCurve]) -> StudyNumber:
        """The robust error at a size, over trainings: by the sizes found, so that it is at least this."""
        broken = [broken_mask(curve.distance_curve.minimal_sizes, [size])[:, 0] for curve in curves]
        errors = [proportion_interval(int(each.sum()), len(each), CONFIDENCE) for each in broken]
        return StudyNumber(errors, limits=(0.0, 100.0))


class Slopes(Curves):
    """The size at which the curve of each model bends most; training at one strength leaves such a bend."""

    up_to: Strength

    def make(self, done: Finished, folder: Path) -> Made:
        rows: list[tuple[Cell, ...]] = []
        found = self.curves(done)
        for model, (label, curves) in zip(self.selected_models(done.study), found.items(), strict=True):
            bend = change_of_slope(curves[0].distance_curve, read_strength(self.up_to, self.attack))
            trained = done.trained_on(model).get(self.attack)
            at = "clean" if trained is None else text_as_typed(trained)
            rows.append(
                (label, at, format_strength(bend.size, attack=self.attack),
                 format_interval(bend.low, bend.high, attack=self.attack), f"{bend.before:.0f}", f"{bend.after:.0f}",
                 "yes" if bend.significant else "no")
            )  # fmt: skip
        heads = ("model", "trained at", "bends at", "95 % interval", "slope before", "after", "significant")
        figure = plot_curves({k: v[0] for k, v in found.items()}, error=True, up_to=self.up_to).figure
        return Made({"": Sheet(self.title, heads, rows)}, {"": figure})


class PrintedDistances(Output):
    """Smallest and largest distances that a paper prints of a data set, in linf, l2 and l1."""

    data: str
    smallest: Annotated[list[float], Field(min_length=3, max_length=3)]
    largest: Annotated[list[float], Field(min_length=3, max_length=3)]

    def make(self, done: Finished, folder: Path) -> Made:
        return Made()


_NORMS: tuple[LpNorm, ...] = ("linf", "l2", "l1")


class Distances(Output):
    """Distances to the nearest image of another class, of the test images of data sets, or of so many ``samples``;
    ``printed``: what the paper has."""

    data: Annotated[list[str], Field(min_length=1)]
    samples: int | None = None
    printed: tuple[PrintedDistances, ...] = Field((), strict=False)

    def _entry(self, entry: DataEntry) -> DataEntry:
        return entry if self.samples is None else entry.model_copy(update={"samples": self.samples})

    def wants(self, study: Study) -> Wanted:
        return Wanted()

    def check(self, study: Study, place: str) -> None:
        for name in self.data:
            check_known(name, study.data, f"{place}: data")

    def make(self, done: Finished, folder: Path) -> Made:
        """The table, and the distribution of the distances in each norm."""
        printed = {each.data: each for each in self.printed}
        rows: list[tuple[Cell, ...]] = []
        curves: dict[str, dict[str, RobustnessCurve]] = {norm: {} for norm in _NORMS}
        for name in self.data:
            images = done.images(self._entry(done.study.data[name]))
            pixels, labels = images.images.numpy(), images.labels.numpy()
            for place, norm in enumerate(_NORMS):
                found = interclass_distances(pixels, labels, norm)
                curves[norm][images.name] = found.distribution()
                ends = [each for each in (printed.get(images.name),) if each is not None]
                beside: list[Cell] = ["none", "none"]
                if ends:
                    beside = [StudyNumber.published(each[place], 2) for each in (ends[0].smallest, ends[0].largest)]
                median = float(np.median(found.per_sample))
                ours = (found.smallest, beside[0], median, found.largest, beside[1])
                rows.append((images.name, len(images), attack_label(norm).label, *ours))
        heads = ("data", "images", "norm", "smallest", "printed", "median", "largest", "printed largest")
        figures = {norm: plot_curves(each, error=True, confidence=None).figure for norm, each in curves.items()}
        return Made({"": Sheet(self.title, heads, rows, digits=2)}, figures)
