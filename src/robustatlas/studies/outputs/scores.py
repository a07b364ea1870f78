"""Numbers of models: a table, beside what a paper prints, and one over another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robustatlas.common.errors import UserError
from robustatlas.common.escaping import figure_text
from robustatlas.common.styles import model_styles
from robustatlas.metrics.figures.paper import legend_above, styled_axes
from robustatlas.studies.description import Study, StudyEntry
from robustatlas.studies.numbers import Cell, Sheet, StudyNumber, is_percentage, number_digits, number_label
from robustatlas.studies.outputs.base import Made, Output, printed_heading, with_printed

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished


class Scores(Output):
    """A row for each model, a column for each number."""

    numbers: Annotated[list[str], Field(min_length=1)]

    def make(self, done: Finished, folder: Path) -> Made:
        rows: list[tuple[Cell, ...]] = [
            (done.label(model), *(self.number(done, name, model) for name in self.numbers))
            for model in self.selected_models(done.study)
        ]
        return Made({"": Sheet(self.title, ("model", *map(number_label, self.numbers)), rows)})


class Printed(StudyEntry):
    """A value that the paper prints: of which number of which model, where it stands, and on which data set (by default
    that of the output)."""

    model: str
    number: str
    printed: float
    source: str
    evaluation: str | None = None
    printed_on: str | None = None


class PrintedValues(Output):
    """Ours beside what the paper prints, a row for each value."""

    values: Annotated[list[Printed], Field(min_length=1)]

    def check(self, study: Study, place: str) -> None:
        super().check(study, place)
        if self.printed_on is None and any(value.printed_on is None for value in self.values):
            raise UserError(f"{place} has printed numbers; say of which data set they are, printed_on = 'cifar10'.")

    def selected_models(self, study: Study) -> tuple[str, ...]:
        return tuple(dict.fromkeys(value.model for value in self.values if value.model in study.models))

    def evaluations(self, study: Study) -> tuple[str, ...]:
        usual = super().evaluations(study)[0]
        return tuple(dict.fromkeys(value.evaluation or usual for value in self.values))

    def make(self, done: Finished, folder: Path) -> Made:
        """The table; values of models that this size leaves out stand without ours."""
        usual = Output.evaluations(self, done.study)[0]
        rows: list[tuple[Cell, ...]] = []
        printed: list[tuple[str, Cell]] = []
        for value in self.values:
            ours: Cell = "not at this size"
            if value.model in done.study.models:
                ours = self.number(done, value.number, value.model, value.evaluation or usual)
            label = done.label(value.model) if value.model in done.study.models else value.model
            rows.append((label, number_label(value.number), ours, value.source))
            on = self.data_name(done.study, value.evaluation or usual)
            heading = printed_heading(value.printed_on or self.printed_on, on)
            printed.append((heading, StudyNumber.published(value.printed, number_digits(value.number))))
        return Made({"": Sheet(self.title, *with_printed(("model", "number", "ours", "source"), rows, printed, 2))})


class Scatter(Output):
    """One number of the models over another, with one deviation over trainings to each side as bars."""

    x: str
    y: str

    def make(self, done: Finished, folder: Path) -> Made:
        models = self.selected_models(done.study)
        points = {done.label(m): (self.number(done, self.x, m), self.number(done, self.y, m)) for m in models}
        drawn = {label: [(x.band, y.band)] for label, (x, y) in points.items()}
        notes = ("Figure: the bars are one standard deviation over trainings to each side.",)
        heads = ("model", number_label(self.x), number_label(self.y))
        sheet = Sheet(self.title, heads, [(k, *v) for k, v in points.items()], notes)
        return Made({"": sheet}, {"": plot_scatter(drawn, self.x, self.y)})


Band = tuple[float, float, float]
"""A value, and both ends of its bar."""


def plot_scatter(points: Mapping[str, Sequence[tuple[Band, Band]]], x: str, y: str) -> Any:
    """Draw one number over another; `points`: label -> both numbers of each point of this label."""
    with styled_axes(None, 2.15 + 0.11 * max(0, len(points) - 3)) as axes:
        for (label, here), style in zip(points.items(), model_styles(list(points)), strict=True):
            across, up = (np.array(bands) for bands in zip(*here, strict=True))
            axes.errorbar(
                across[:, 0], up[:, 0], xerr=_bars(across), yerr=_bars(up), color=style.colour,
                marker=style.marker, linestyle="none", markersize=4.5, linewidth=0.8, capsize=2,
                label=figure_text(label),
            )  # fmt: skip
        axes.set_xlabel(figure_text(f"{number_label(x)}{' (%)' * is_percentage(x)}"))
        axes.set_ylabel(figure_text(f"{number_label(y)}{' (%)' * is_percentage(y)}"))
        axes.margins(0.08)
        legend_above(axes, len(points))
    return axes.figure


def _bars(bands: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return the lengths of the bars below and above each value; None where there are none."""
    lengths = np.abs(bands[:, 1:] - bands[:, :1]).T
    return lengths if lengths.any() else None
