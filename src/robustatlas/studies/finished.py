"""A study as far as it is done: its runs, references and trainings, read where an output asks for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robustatlas.common.errors import UserError
from robustatlas.common.files import write_text
from robustatlas.data import Dataset, load_dataset
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.models import load_model
from robustatlas.models.card import CARD, Card, read_card
from robustatlas.models.classifier import Classifier
from robustatlas.report.training import read_history
from robustatlas.results.result import Result, load_result
from robustatlas.studies.description import DataEntry, Study
from robustatlas.studies.planning import Step, described, kept_epochs, steps_of
from robustatlas.training.references import REFERENCE
from robustatlas.training.snapshots import EPOCHS

DONE = "done"
"""Folder of what was done: a file for each step, that says what the step was."""
WARNED = "warned"


@dataclass(frozen=True)
class Finished:
    """What a folder holds of a study.

    Attributes:
        study: as its file says it.
        folder: of all.
        steps: of the study.
        what: name of a step -> what it does, as plain data.
    """

    study: Study
    folder: Path
    steps: tuple[Step, ...]
    what: Mapping[str, Any] = field(repr=False)
    _read: dict[Path, Result] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, study: Study, folder: Path) -> Finished:
        """The study in ``folder``, which may be empty."""
        steps = steps_of(study)
        what: dict[str, Any] = {}
        for step in steps:
            if step.kind != "outputs":
                what[step.name] = json.loads(json.dumps(described(study, step, what)))
        return cls(study, folder, steps, what)

    def before(self, step: Step) -> Any | None:
        """What a step was when it was done here; None where it was not."""
        mark = self._mark(step)
        return None if mark is None else {key: value for key, value in mark.items() if key != WARNED}

    def _mark(self, step: Step) -> dict[str, Any] | None:
        path = self.folder / DONE / f"{step.name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def done(self, step: Step) -> bool:
        """Whether it was done, and was what it is now."""
        return step.kind != "outputs" and self.before(step) == self.what[step.name]

    def mark(self, step: Step, warned: Sequence[str] = ()) -> None:
        """Say that a step is done, and what was warned of."""
        said = self.what[step.name] | ({WARNED: [*warned]} if warned else {})
        write_text(self.folder / DONE / f"{step.name}.json", json.dumps(said, indent=1) + "\n")

    def warned(self) -> dict[str, tuple[str, ...]]:
        """What was warned of when the steps were done: sentence -> the steps that it is about."""
        found: dict[str, tuple[str, ...]] = {}
        for step in self.steps:
            for sentence in (self._mark(step) or {}).get(WARNED, ()):
                found[sentence] = (*found.get(sentence, ()), step.name)
        return found

    def missing(self, step: Step) -> tuple[str, ...]:
        """What a step waits for."""
        by_name = {each.name: each for each in self.steps}
        return tuple(name for name in step.needs if not self.done(by_name[name]))

    def images(self, entry: DataEntry, split: str = "test") -> Dataset:
        """The images of a data set: to measure on, or to train on."""
        return images_of(entry, split)

    def model(self, name: str, seed: int | None, epoch: int | None = None, device: str | None = None) -> Classifier:
        """A model, ready to be evaluated, under the name that runs keep: trained in the study, of another source, or
        behind a defense."""
        entry = self.study.models[name]
        called = self.label(name) if seed is None else f"{self.label(name)} seed {seed}"
        if entry.source is not None:
            return load_model(entry.source, entry.weights, device=device, name=called, arguments=entry.arguments)
        folder = self.folder / Step("models", entry.of or name, seed=seed).place
        place = folder if epoch is None else folder / EPOCHS / f"{epoch:04d}"
        if not (place / CARD).is_file():
            raise UserError(f"{place} holds no weights; the training of {entry.of or name} did not keep them.")
        before = "" if entry.of is None else f"defended:{entry.defense},"
        return load_model(f"{before}trained:{place}", device=device, name=called)

    def runs(self, evaluation: str, model: str, epoch: int | None = None) -> list[Result]:
        """The runs of a model: one for each of its trainings."""
        seeds = self.study.seeds_of(model)
        places = [Step("evaluations", evaluation, model=model, seed=seed, epoch=epoch).place for seed in seeds]
        return [self._run(self.folder / place) for place in places]

    def _run(self, place: Path) -> Result:
        if place not in self._read:
            self._read[place] = load_result(place)
        return self._read[place]

    def epochs(self, evaluation: str, model: str) -> tuple[int, ...]:
        """The epochs of a training whose weights an evaluation has."""
        return kept_epochs(self.study.models[model]) if self.study.evaluations[evaluation].epochs else ()

    def reference(self, name: str) -> Reference:
        """A reference of the study, one that comes with robustatlas, or a file."""
        if name not in self.study.references:
            return load_reference(name)
        return load_reference(str(self.folder / Step("references", name).place / REFERENCE))

    def trainings(self, model: str) -> list[Path]:
        """The folders of a model's trainings."""
        return [self.folder / Step("models", model, seed=seed).place for seed in self.study.seeds_of(model)]

    def card(self, model: str) -> Card:
        """The card of a model's first training."""
        return read_card(self.trainings(model)[0])

    def histories(self, model: str) -> list[list[dict[str, Any]]]:
        """Of each training of a model the records of its epochs."""
        return [read_history(folder) for folder in self.trainings(model)]

    def trained_on(self, model: str) -> Mapping[str, float]:
        """Return what a model was trained against: attack -> strength, as people type it."""
        entry = self.study.models[model]
        if entry.of is not None:
            return self.trained_on(entry.of)
        if entry.trained_on is not None or not entry.trained:
            return entry.trained_on or {}
        return self.card(model).trained_on

    def label(self, model: str) -> str:
        """What tables call a model."""
        return self.study.label(model)


def images_of(entry: DataEntry, split: str = "test") -> Dataset:
    """The images of a data set: to measure on, or to train on; of fewer to train on, the classes keep their
    proportions."""
    name = entry.name if split == "test" or entry.train is None else entry.train
    data = load_dataset(name, split, resize=entry.resize, crop=entry.crop, channels=entry.channels)  # type: ignore[arg-type]
    if split == "test":
        return data.take(min(entry.samples, len(data))) if entry.samples is not None else data
    return data.take(entry.train_samples, stratified=True) if entry.train_samples is not None else data
