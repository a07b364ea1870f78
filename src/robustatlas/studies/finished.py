"""A study as far as it is done: its runs, references and trainings, read where an output asks for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.files import explain_write_errors, write_text
from robustatlas.data import Dataset, load_dataset
from robustatlas.metrics.references import Reference, load_reference
from robustatlas.models.card import CARD, Card, read_card
from robustatlas.models.classifier import Classifier
from robustatlas.models.loading import load_model
from robustatlas.outcomes import Run
from robustatlas.outcomes.base import digest
from robustatlas.outcomes.records import sample_spans
from robustatlas.report.training import read_history
from robustatlas.results.result import Result
from robustatlas.studies.description import DataEntry, Study
from robustatlas.studies.identity import Identities, Identity, State, step_state
from robustatlas.studies.numbers import RunNumbers
from robustatlas.studies.planning import Step, epochs_to_keep, study_steps
from robustatlas.training.references import REFERENCE
from robustatlas.training.snapshots import EPOCHS

DONE = "done"
"""Folder of what was done: a file for each step, with its identity and what it found."""
BEGUN = "begun"
"""Folder of what was begun: a file for each step, with its identity."""
ASIDE = "aside"
"""Folder of evaluations that the file no longer asks for; they come back if it asks for them again."""
WARNED, FOUND = "warned", "found"
"""Keys of a file in :data:`DONE` besides the identity: warnings, and the attacks and samples of the result."""


@dataclass(frozen=True)
class Finished:
    """The finished part of a study in a folder.

    Attributes:
        study: as its file says it.
        folder: of all.
        steps: of the study.
        identities: what determines the numbers of each step.
    """

    study: Study
    folder: Path
    steps: tuple[Step, ...]
    identities: Identities = field(repr=False)
    _runs: dict[str, RunNumbers] = field(default_factory=dict, repr=False)
    _references: dict[str, Reference] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, study: Study, folder: Path) -> Finished:
        """Return the study in ``folder``, which may be empty."""
        return cls(study, folder, study_steps(study), Identities(study, lru_cache(8)(load_images)))

    def identity_there(self, step: Step) -> tuple[Identity | None, bool]:
        """Return the identity that a step had when it was done or begun here (None: it was not), and if it was done."""
        mark = self._mark(step)
        if mark is not None:
            return {key: value for key, value in mark.items() if key not in (WARNED, FOUND)}, True
        begun = self.folder / BEGUN / f"{step.name}.json"
        place = self.folder / step.place
        if not begun.is_file() or not place.is_dir() or not any(place.iterdir()):
            return None, False
        return json.loads(begun.read_text(encoding="utf-8")), False

    def _mark(self, step: Step) -> dict[str, Any] | None:
        path = self._mark_file(step)
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None

    def _mark_file(self, step: Step) -> Path:
        return self.folder / DONE / f"{step.name}.json"

    def state(self, step: Step) -> State:
        """Return what becomes of a step if the study is carried out."""
        before, finished = self.identity_there(step)
        return (
            State.NEW
            if before is None
            else step_state(step.kind, before, self.identities.step_identity(step), finished)
        )

    def is_done(self, step: Step) -> bool:
        """Return if a step was done as the file asks for it."""
        return step.kind != "outputs" and self.state(step) is State.REUSED

    def begin(self, step: Step) -> None:
        """Record that a step begins, and move an evaluation with another identity aside."""
        before, _ = self.identity_there(step)
        identity, place = self.identities.step_identity(step), self.folder / step.place
        if before is not None and self.state(step) is State.AGAIN:
            with explain_write_errors(place):
                self._mark_file(step).unlink(missing_ok=True)  # first: a mark always speaks of what is in its place
                if place.is_dir():
                    _move(place, self._aside(step, before))
        known = self._aside(step, identity)
        if known.is_dir() and not place.exists():
            with explain_write_errors(place):
                _move(known, place)
        write_text(self.folder / BEGUN / f"{step.name}.json", json.dumps(identity, indent=1) + "\n")

    def _aside(self, step: Step, identity: Identity) -> Path:
        without_samples = {key: value for key, value in identity.items() if key != "samples"}
        return self.folder / ASIDE / f"{step.name}-{digest(without_samples)}"

    def mark(self, step: Step, warned: Sequence[str] = (), result: Result | None = None) -> None:
        """Record that a step is done, with its warnings and with the attacks and samples of an evaluation."""
        said = dict(self.identities.step_identity(step))
        if warned:
            said[WARNED] = [*warned]
        if result is not None:
            said[FOUND] = {"attacks": list(result.attacks), "spans": sample_spans(result.index)}
        write_text(self._mark_file(step), json.dumps(said, indent=1) + "\n")

    def step_warnings(self) -> dict[str, tuple[str, ...]]:
        """Return the warnings of the finished steps: sentence -> the names of the steps that it is about."""
        found: dict[str, tuple[str, ...]] = {}
        for step in self.steps:
            for sentence in (self._mark(step) or {}).get(WARNED, ()):
                found[sentence] = (*found.get(sentence, ()), step.name)
        return found

    def missing_steps(self, step: Step) -> tuple[str, ...]:
        """Return the names of the steps that a step needs and that are not finished."""
        by_name = {each.name: each for each in self.steps}
        return tuple(name for name in step.needs if not self.is_done(by_name[name]))

    def images(self, entry: DataEntry, split: str = "test") -> Dataset:
        """The images of a data set: to measure on, or to train on."""
        return self.identities.load_images(entry, split)

    def model(self, name: str, seed: int | None, epoch: int | None = None, device: str | None = None) -> Classifier:
        """A model, ready to be evaluated, under the name that runs keep: trained in the study, of another source, or
        behind a defense."""
        entry = self.study.models[name]
        called = self._name_in_tables(name, seed)
        if entry.source is not None:
            return load_model(entry.source, entry.weights, device=device, name=called, arguments=entry.arguments)
        folder = self.folder / Step("models", entry.of or name, seed=seed).place
        place = folder if epoch is None else folder / EPOCHS / f"{epoch:04d}"
        if not (place / CARD).is_file():
            raise UserError(f"{place} holds no weights; the training of {entry.of or name} did not keep them.")
        before = "" if entry.of is None else f"defended:{entry.defense},"
        return load_model(f"{before}trained:{place}", device=device, name=called)

    def _name_in_tables(self, model: str, seed: int | None) -> str:
        return self.label(model) if seed is None else f"{self.label(model)} seed {seed}"

    def runs(self, evaluation: str, model: str, epoch: int | None = None) -> list[Result]:
        """The runs of a model: one for each of its trainings, of the attacks and samples that the file asks for."""
        return [run.result for run in self.numbers(evaluation, model, epoch)]

    def numbers(self, evaluation: str, model: str, epoch: int | None = None) -> list[RunNumbers]:
        """Return the numbers of the runs of a model."""
        seeds = self.study.model_seeds(model)
        steps = [Step("evaluations", evaluation, model=model, seed=seed, epoch=epoch) for seed in seeds]
        return [self._run_numbers(step) for step in steps]

    def _run_numbers(self, step: Step) -> RunNumbers:
        if step.name not in self._runs:
            found = (self._mark(step) or {})[FOUND]
            index = np.concatenate([np.arange(first, end) for first, end in found["spans"]])
            result = Result.from_run(Run.open(self.folder / step.place), found["attacks"], index)
            about = {**result.about, "trained_on": dict(self.trained_on(step.model))}
            named = replace(result, name=self._name_in_tables(step.model, step.seed), about=about)
            self._runs[step.name] = RunNumbers(named)
        return self._runs[step.name]

    def epochs(self, evaluation: str, model: str) -> tuple[int, ...]:
        """The epochs of a training whose weights an evaluation has."""
        return epochs_to_keep(self.study.models[model]) if self.study.evaluations[evaluation].epochs else ()

    def reference(self, name: str) -> Reference:
        """A reference of the study, one that comes with robustatlas, or a file."""
        if name not in self._references:
            own = str(self.folder / Step("references", name).place / REFERENCE)
            self._references[name] = load_reference(own if name in self.study.references else name)
        return self._references[name]

    def trainings(self, model: str) -> list[Path]:
        """The folders of a model's trainings."""
        return [self.folder / Step("models", model, seed=seed).place for seed in self.study.model_seeds(model)]

    def card(self, model: str) -> Card:
        """The card of a model's first training."""
        return read_card(self.trainings(model)[0])

    def histories(self, model: str) -> list[list[dict[str, Any]]]:
        """Return the records of the epochs of each training of a model."""
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
        """Return the name of a model in tables."""
        return self.study.label(model)


def _move(place: Path, to: Path) -> None:
    """Move a folder to a place that is free."""
    while to.exists():
        to = to.with_name(f"{to.name}-again")
    to.parent.mkdir(parents=True, exist_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.rename(to)


def load_images(entry: DataEntry, split: str = "test") -> Dataset:
    """The images of a data set: to measure on, or to train on; of fewer to train on, the classes keep their
    proportions."""
    name = entry.name if split == "test" or entry.train is None else entry.train
    data = load_dataset(name, split, resize=entry.resize, crop=entry.crop, channels=entry.channels)  # type: ignore[arg-type]
    if split == "test":
        return data.take(min(entry.samples, len(data))) if entry.samples is not None else data
    return data.take(entry.train_samples, stratified=True) if entry.train_samples is not None else data
