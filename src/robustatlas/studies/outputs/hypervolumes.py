"""The adversarial frontier of one image, and how the hypervolume converges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robustatlas.common.typed_strengths import format_strength, value_as_typed
from robustatlas.metrics.figures import plot_convergence, plot_frontiers
from robustatlas.metrics.hypervolume import convergence_rate, hypervolume_at_levels
from robustatlas.report.numbers.units import unit_of
from robustatlas.studies.numbers import Cell, Sheet, run_hypervolume
from robustatlas.studies.outputs.base import Made, Output

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished


class Frontiers(Output):
    """The confidence that models keep on one image, over the size of the perturbation; ``image``: its place among those
    evaluated, or the first that all models get right."""

    attack: str
    image: int | None = None

    def make(self, done: Finished, folder: Path) -> Made:
        runs = {done.label(model): self.runs(done, model)[0] for model in self.selected_models(done.study)}
        volumes = {label: run_hypervolume(run, self.attack) for label, run in runs.items()}
        right = np.all([run.clean for run in runs.values()], axis=0)
        image = int(np.argmax(right)) if self.image is None else self.image
        sizes = [0.0, *next(iter(runs.values())).distances(self.attack).tolist()]
        kept = {label: [float(one.clean[image]), *one.frontier[image].tolist()] for label, one in volumes.items()}
        figure = plot_frontiers(
            kept, value_as_typed(self.attack, sizes[-1]), attack=self.attack, unit=unit_of(self.attack)
        ).figure
        rows: list[tuple[Cell, ...]] = [(label, *values) for label, values in kept.items()]
        at = int(next(iter(runs.values())).index[image])
        heads = ("model", *(format_strength(size, attack=self.attack) for size in sizes))
        return Made({"": Sheet(self.title, heads, rows, (f"Image {at} of the data set.",), digits=3)}, {"": figure})


class Convergence(Output):
    """The error of the hypervolume at N levels against the finest number of levels, with the fit c / N."""

    attack: str

    def make(self, done: Finished, folder: Path) -> Made:
        """A row and a figure for each model, of its first training."""
        rows: list[tuple[Cell, ...]] = []
        figures = {}
        for model in self.selected_models(done.study):
            run = self.runs(done, model)[0]
            volume = run_hypervolume(run, self.attack)
            by_levels = hypervolume_at_levels(volume.frontier)
            rate = convergence_rate(by_levels)
            figures[model] = plot_convergence(by_levels).figure
            means = ", ".join(f"{count}: {mean:.4f}" for count, mean in by_levels.items())
            rows.append((done.label(model), means, rate.factor, rate.slope, volume.error_bound))
        heads = ("model", "hypervolume by number of levels N", "c", "slope", "at most too low by")
        notes = (
            "The error is the distance to the hypervolume at the largest N, on axes that are both logarithmic. Dashed: "
            "c / N, fitted by least squares to the errors, as the paper's bound falls.",
            "Slope: of the line through the logarithms of error and N. An error that falls as 1 / N has -1; measured "
            "against the largest N instead of the integral it looks steeper.",
        )
        return Made({"": Sheet(self.title, heads, rows, notes, digits=4)}, figures)
