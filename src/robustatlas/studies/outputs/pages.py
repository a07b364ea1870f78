"""Pages and pictures: the leaderboard of a study, and what attacks do to an image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from robustatlas.report.leaderboard import build_leaderboard
from robustatlas.report.sheet import plot_gallery
from robustatlas.studies.description import Count, Strengths, Study
from robustatlas.studies.outputs.base import Made, Output, Wanted

if TYPE_CHECKING:
    from robustatlas.studies.finished import Finished


class Board(Output):
    """The leaderboard of the models' runs, one for each training."""

    def make(self, done: Finished, folder: Path) -> Made:
        runs = [run for model in self.selected_models(done.study) for run in self.runs(done, model)]
        return Made(pages=(build_leaderboard(runs, folder, self.ratio_reference(done), title=self.title or None),))


class Gallery(Output):
    """One test image under attacks, at strengths spread over their grids: a figure for the first training of each
    model."""

    attacks: Annotated[list[str], Field(min_length=1)]
    columns: Count = 4
    strengths: Strengths | None = None
    image: Annotated[int, Field(ge=0)] | None = None

    def wants(self, study: Study) -> Wanted:
        return Wanted(trainings=tuple(self.models or study.models))

    def make(self, done: Finished, folder: Path) -> Made:
        figures = {}
        for name in self.wants(done.study).trainings:
            images = done.images(done.study.data[done.study.data_name(done.study.models[name])])
            model = done.model(name, done.study.model_seeds(name)[0])
            figures[name] = plot_gallery(
                model, images, self.attacks, self.image, self.columns, strengths=self.strengths
            )
        return Made(figures=figures)
