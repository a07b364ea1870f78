"""What a study will take: each kind of step tried for some seconds, and counted."""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import named
from robustatlas.data import Dataset
from robustatlas.evaluation.forecast import Forecast, forecasted
from robustatlas.evaluation.request import Request
from robustatlas.models.card import CARD
from robustatlas.models.classifier import Classifier
from robustatlas.models.defenses import Defended
from robustatlas.models.networks import network_for
from robustatlas.models.sources.defended import transformations
from robustatlas.studies.description import DataEntry, Study
from robustatlas.studies.finished import Finished, images_of
from robustatlas.studies.planning import Step, request_of
from robustatlas.studies.running import evaluation_request, plan_of
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.recipes import Recipe, recipe_named
from robustatlas.training.references import ReferencePlan, missing
from robustatlas.training.settings import Settings
from robustatlas.training.trainer import train

_TRIED = 32
"""Images of a trial of training, at most."""
_FEWEST, _QUICK = 4, 1.0
"""Images of the first trial of a training, and seconds of its update below which another one follows."""
_BIG = 3 * 64 * 64
"""Numbers of an image from which on fewer are tried."""


@dataclass(frozen=True)
class StepForecast:
    """What one entry of a study will take.

    Attributes:
        name: such as ``models.linf``.
        steps: that are not done.
        passes: forward and backward, of all images.
        seconds: on one device like this one.
        bytes: on disk.
        why: what is missing, where nothing can be said.
    """

    name: str
    steps: int
    passes: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0
    why: str = ""

    def times(self, number: float) -> StepForecast:
        """So many of it."""
        return replace(self, passes=self.passes * number, seconds=self.seconds * number, bytes=self.bytes * number)

    def plus(self, other: StepForecast) -> StepForecast:
        """It and another one."""
        return replace(
            self,
            passes=self.passes + other.passes,
            seconds=self.seconds + other.seconds,
            bytes=self.bytes + other.bytes,
        )


@dataclass(frozen=True)
class StudyForecast:
    """What a study will take, entry by entry.

    Example:
        >>> StudyForecast((StepForecast("models.linf", 3, passes=1e6, seconds=60.0, bytes=1e6),)).hours
        0.016666666666666666
    """

    entries: tuple[StepForecast, ...]

    @property
    def hours(self) -> float:
        """Of all that can be told."""
        return sum(each.seconds for each in self.entries) / 3600

    @property
    def passes(self) -> float:
        """Of all that can be told."""
        return sum(each.passes for each in self.entries)

    @property
    def bytes(self) -> float:
        """On disk."""
        return sum(each.bytes for each in self.entries)


def forecast_study(study: Study, out: str | Path, budget: float = 1.0, device: str | None = None) -> StudyForecast:
    """What ``out`` lacks of a study, and what that will take; nothing is written.

    Data that have a ``stand_in`` are not loaded: random images of its shape are tried. Networks that are not trained
    yet are timed with their first weights, which say nothing of how robust they will be: their passes are those that
    the plans of their attacks usually take.

    Args:
        study: as it was read.
        out: its folder, which may not be there.
        budget: seconds that each attack of each kind of model is tried for.
        device: where.

    Returns:
        steps, passes, seconds and bytes of each entry of the file.
    """
    trials = _Trials(Finished.of(study, named(out)), budget, device)
    todo: dict[str, list[Step]] = {}
    for step in trials.done.steps:
        if step.kind != "outputs" and not trials.done.done(step):
            name = ".".join(filter(None, (step.kind, step.entry, step.model)))
            todo.setdefault(name, []).append(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return StudyForecast(tuple(trials.told(name, steps) for name, steps in todo.items()))


@lru_cache(8)
def trial_images(entry: DataEntry, split: str, most: int | None = None) -> tuple[Dataset, int]:
    """Images like those of a data set, at most so many, and how many there are of these."""
    if entry.stand_in is None:
        images = images_of(entry, split)
        return images.take(most if most is None else min(most, len(images))), len(images)
    stand_in = entry.stand_in
    count = stand_in.test if split == "test" else stand_in.train
    asked = entry.samples if split == "test" else entry.train_samples
    shape = stand_in.shape if entry.crop is None else (stand_in.shape[0], entry.crop, entry.crop)
    number = min(count, asked or count)
    shown = number if most is None else min(number, most)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(shown, *shape, generator=generator).numpy()
    labels = torch.arange(shown).remainder(stand_in.classes).numpy()
    classes = tuple(f"class {number}" for number in range(stand_in.classes))
    return Dataset.of(pixels, labels, entry.name, classes), number


def _few(entry: DataEntry, split: str) -> tuple[Dataset, int]:
    shape = trial_images(entry, split, 2)[0].shape
    return trial_images(entry, split, 8 if math.prod(shape) > _BIG else _TRIED)


class _Trials:
    """Tries steps of a study, those that are alike once."""

    def __init__(self, done: Finished, budget: float, device: str | None) -> None:
        self.done, self.study, self.budget, self.device = done, done.study, budget, device
        self.tried: dict[str, StepForecast] = {}

    def told(self, name: str, steps: list[Step]) -> StepForecast:
        """What these steps will take, or why that cannot be told."""
        kinds = {"models": self._training_of, "evaluations": self._evaluation_of, "references": self._reference_of}
        try:
            found = kinds[steps[0].kind](steps)
            return replace(found, name=name, steps=max(found.steps, len(steps)))
        except UserError as error:
            why = str(error)
        except Exception as error:  # of whatever a network does
            why = f"{first_line(error)}."
        return StepForecast(name, len(steps), why=why)

    def _training_of(self, steps: list[Step]) -> StepForecast:
        entry = self.study.models[steps[0].entry]
        recipe, settings, _ = request_of(entry).plan(0)
        key = repr((entry.architecture, self.study.data_of(entry), recipe, settings))
        if key not in self.tried:
            self.tried[key] = self._trained(entry.architecture or "", self.study.data_of(entry), recipe, settings)
        one = self.tried[key]
        kept = 3 + (0 if entry.keep is None else settings.epochs // entry.keep)
        return replace(one.times(len(steps)), bytes=one.bytes * len(steps) * kept)

    def _trained(self, architecture: str, data: str, recipe: Recipe, settings: Settings) -> StepForecast:
        """One training: an update of few images, and of more where that is quick."""
        few, number = trial_images(self.study.data[data], "train", _FEWEST)
        found = self._updated(architecture, few, recipe, settings)
        if found.seconds < _QUICK:
            few, _ = _few(self.study.data[data], "train")
            found = self._updated(architecture, few, recipe, settings)
        weights = found.bytes
        return replace(found.times(settings.epochs * number / len(few)), bytes=weights)

    def _updated(self, architecture: str, images: Dataset, recipe: Recipe, settings: Settings) -> StepForecast:
        """Two updates, of which the second is counted and timed; its bytes are those of the weights."""
        net = network_for(architecture, images, 0)
        trial = replace(
            settings, epochs=2, batch_size=len(images), held_out=0, selection="last", swa_from=None,
            schedule="one-cycle", warmup_epochs=0.0,
        )  # fmt: skip
        clock = _Clock()
        with net.register_forward_pre_hook(clock.count):
            train(net, images, recipe, settings=trial, device=self.device, progress=clock)
        weights = float(sum(p.numel() * p.element_size() for p in net.parameters()))
        return StepForecast("", 1, float(clock.passes), clock.seconds, weights)

    def _evaluation_of(self, steps: list[Step]) -> StepForecast:
        first = steps[0]
        entry, data = self.study.evaluations[first.entry], self.study.data_of(self.study.evaluations[first.entry])
        wanted = min(trial_images(self.study.data[data], "test", 2)[1], entry.samples or sys.maxsize)
        request = replace(evaluation_request(entry), samples=None)
        if self._at_hand(first):
            images, _ = trial_images(self.study.data[data], "test")
            model = self.done.model(first.model, first.seed, device=self.device)
            found = self._forecasted(model, images, request, self.budget)
            whole = StepForecast("", 1, found.passes, found.seconds, found.bytes)
            return whole.times(len(steps) * wanted / len(images))
        key = json.dumps([first.entry, self._network(first.model), self.study.models[first.model].defense])
        if key not in self.tried:
            self.tried[key] = self._untrained(self._network(first.model), data, request, first.model)
        return self.tried[key].times(len(steps) * wanted)

    def _network(self, model: str) -> str:
        entry = self.study.models[model]
        return self.study.models[entry.of or model].architecture or ""

    def _untrained(self, architecture: str, data: str, request: Request, model: str = "") -> StepForecast:
        """One image under attacks: its pace by a network with its first weights, its passes by the plans."""
        images, _ = _few(self.study.data[data], "test")
        net = network_for(architecture, images, 0).eval()
        if model and (entry := self.study.models[model]).of:
            net = Defended(net, *transformations(entry.defense or "")).eval()
        found = Classifier(net, device=self.device, name="trial")
        with torch.no_grad():
            labels = found.logits(images.images.to(found.device)).argmax(1).cpu()
        asked = self._forecasted(found, replace(images, labels=labels), request, 0.05).expected
        seconds = sum(each.seconds * each.usual / each.passes for each in asked)
        passes = sum(each.usual for each in asked)
        return StepForecast("", 1, passes, seconds / len(images), sum(each.bytes for each in asked) / len(images))

    def _forecasted(self, model: Classifier, images: Dataset, request: Request, budget: float) -> Forecast:
        return forecasted(model, images, replace(request, progress=False, diagnose=False, audit=0), budget)

    def _at_hand(self, step: Step) -> bool:
        """Whether the very model can be tried."""
        entry = self.study.models[step.model]
        if entry.source is not None:
            return entry.architecture is None
        folder = self.done.folder / Step("models", entry.of or step.model, seed=step.seed).place
        return (folder / CARD).is_file() and step.epoch is None

    def _reference_of(self, steps: list[Step]) -> StepForecast:
        entry = self.study.references[steps[0].entry]
        data, plan = self.study.data_of(entry), plan_of(entry)
        lacking = len(missing(plan, self.done.folder / steps[0].place))
        trainings = [attack for attack, _, _ in plan.trainings()]
        each = {attack: self._specialist(plan, attack, data) for attack in dict.fromkeys(trainings)}
        parts = [each[attack] for attack in trainings]
        whole = StepForecast("", 1, *(sum(getattr(p, what) for p in parts) for what in ("passes", "seconds", "bytes")))
        return replace(whole.times(lacking / len(parts)), steps=lacking)

    def _specialist(self, plan: ReferencePlan, attack: str | None, data: str) -> StepForecast:
        """One training of a reference with its evaluation."""
        if attack is None:
            return self._trained(plan.architecture, data, recipe_named("standard"), plan.settings)
        grid = list((plan.trained or {}).get(attack, plan.strengths[attack]))
        trained = self._trained(plan.architecture, data, plan.recipe_against(attack, float(grid[-1])), plan.settings)
        strengths = {attack: grid[-1:] if plan.rule == "acc" else list(plan.strengths[attack])}
        request = Request(
            attacks=[plan.evaluated(attack)], search=plan.searched, protocol=plan.protocol, strengths=strengths
        )
        number = min(trial_images(self.study.data[data], "test", 2)[1], plan.samples or sys.maxsize)
        return trained.plus(self._untrained(plan.architecture, data, request).times(number))


class _Clock(TrainingDisplay):
    """Times the second update of a training, as the first one has to load much, and counts its ``passes``: the images
    that go through the network, forwards, and with gradients backwards as well."""

    def __init__(self) -> None:
        self.passes, self.seconds, self._counted, self._begun = 0, 0.0, 0, 0.0

    def count(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._counted += len(inputs[0]) * (1 + torch.is_grad_enabled())

    def update(self, done: int, loss: float | None) -> None:
        self.passes = self._counted - self.passes
        self.seconds, self._begun = time.perf_counter() - self._begun, time.perf_counter()
