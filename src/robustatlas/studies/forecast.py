"""What a study will take: each kind of step tried for some seconds, and counted."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import named
from robustatlas.data import Dataset
from robustatlas.evaluation.forecast import forecasted
from robustatlas.evaluation.request import Request
from robustatlas.models.card import CARD
from robustatlas.models.classifier import Classifier
from robustatlas.models.defenses import Defended
from robustatlas.models.networks import network_for
from robustatlas.studies.description import DataEntry, ReferenceEntry, Study
from robustatlas.studies.finished import Finished, images_of
from robustatlas.studies.models import defenses, model_of
from robustatlas.studies.planning import Step, request_of
from robustatlas.studies.running import evaluation_request, plan_of
from robustatlas.training.recipes import Recipe, recipe_named
from robustatlas.training.references import missing
from robustatlas.training.settings import Settings
from robustatlas.training.trainer import train

_TRIED = 32
"""Images of a trial of training, at most."""
_BIG = 3 * 64 * 64
"""Numbers of an image from which on fewer are tried."""


@dataclass(frozen=True)
class StepForecast:
    """What one entry of a study will take.

    Attributes:
        name: such as ``models.linf``.
        steps: that are not done.
        passes: forward and backward, of all images; at most, for evaluations of models that are not trained yet.
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
    yet are tried with their first weights, and evaluated as if no sample were settled early: at most that.

    Args:
        study: as it was read.
        out: its folder, which may not be there.
        budget: seconds that each attack of each kind of model is tried for.
        device: where.

    Returns:
        steps, passes, seconds and bytes of each entry of the file.
    """
    done = Finished.of(study, named(out))
    todo: dict[tuple[str, str], list[Step]] = {}
    for step in done.steps:
        if step.kind != "outputs" and not done.done(step):
            todo.setdefault((f"{step.kind}.{step.entry}", step.model), []).append(step)
    return StudyForecast(tuple(_told(done, name, steps, budget, device) for (name, _), steps in todo.items()))


def _told(done: Finished, name: str, steps: list[Step], budget: float, device: str | None) -> StepForecast:
    first = steps[0]
    called = f"{name}.{first.model}" if first.kind == "evaluations" else name
    try:
        if first.kind == "models":
            return _trainings(done, called, steps, device)
        if first.kind == "evaluations":
            return _evaluations(done, called, steps, budget, device)
        return _reference(done, called, first, budget, device)
    except UserError as error:
        return StepForecast(called, len(steps), why=str(error))
    except Exception as error:  # of whatever a network does
        return StepForecast(called, len(steps), why=f"{first_line(error)}.")


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
    shown = min(number, most or number)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(shown, *shape, generator=generator).numpy()
    labels = torch.arange(shown).remainder(stand_in.classes).numpy()
    classes = tuple(f"class {number}" for number in range(stand_in.classes))
    return Dataset.of(pixels, labels, entry.name, classes), number


def _few(entry: DataEntry, split: str) -> tuple[Dataset, int]:
    shape = trial_images(entry, split, 2)[0].shape
    return trial_images(entry, split, 8 if math.prod(shape) > _BIG else _TRIED)


def _trainings(done: Finished, name: str, steps: list[Step], device: str | None) -> StepForecast:
    entry = done.study.models[steps[0].entry]
    recipe, settings, _ = request_of(entry).plan(0)
    data = done.study.data[done.study.data_of(entry)]
    found = _training(entry.architecture or "", data, recipe, settings, device)
    kept = 1 + (0 if entry.keep is None else settings.epochs // entry.keep)
    return replace(
        found,
        name=name,
        steps=len(steps),
        passes=found.passes * len(steps),
        seconds=found.seconds * len(steps),
        bytes=found.bytes * len(steps) * (kept + 2),
    )


def _training(
    architecture: str, data: DataEntry, recipe: Recipe, settings: Settings, device: str | None
) -> StepForecast:
    """Of one training: an update, counted and timed."""
    images, number = _few(data, "train")
    net = network_for(architecture, images, 0)
    counted = _Passes(net)
    trial = replace(settings, epochs=1, batch_size=len(images), held_out=0, selection="last", swa_from=None,
                    schedule="one-cycle", warmup_epochs=0.0)  # fmt: skip
    begun = time.perf_counter()
    with counted:
        train(net, images, recipe, settings=trial, device=device, progress=False)
    seconds = time.perf_counter() - begun
    times = settings.epochs * number / len(images)
    weights = sum(p.numel() * p.element_size() for p in net.parameters())
    return StepForecast("", 1, counted.passes * times, seconds * times, float(weights))


class _Passes:
    """Counts the images that go through a network, forwards, and with gradients backwards as well."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.passes = net, 0

    def __enter__(self) -> None:
        self.hook = self.net.register_forward_pre_hook(self._count)

    def __exit__(self, *_: object) -> None:
        self.hook.remove()

    def _count(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self.passes += len(inputs[0]) * (1 + torch.is_grad_enabled())


def _evaluations(done: Finished, name: str, steps: list[Step], budget: float, device: str | None) -> StepForecast:
    study, first = done.study, steps[0]
    entry = study.evaluations[first.entry]
    data = study.data[study.data_of(entry)]
    ready = _model_at_hand(done, first)
    model = model_of(done, first.model, first.seed, device=device) if ready else _untrained(done, first, data, device)
    request = replace(evaluation_request(entry), progress=False, diagnose=False, audit=0, samples=None)
    most = entry.samples
    images, number = trial_images(data, "test", None if ready else 8)
    wanted = min(number, most or number)
    if not ready:
        images = _agreed(model, images)
    found = forecasted(model, images, request, budget if ready else 0.05)
    scale = len(steps) * wanted / max(1, len(images))
    return StepForecast(name, len(steps), found.passes * scale, found.seconds * scale, found.bytes * scale)


def _model_at_hand(done: Finished, step: Step) -> bool:
    entry = done.study.models[step.model]
    if entry.source is not None:
        return entry.architecture is None
    folder = done.folder / Step("models", entry.of or step.model, seed=step.seed).place
    return (folder / CARD).is_file() and step.epoch is None


def _untrained(done: Finished, step: Step, data: DataEntry, device: str | None) -> Classifier:
    entry = done.study.models[step.model]
    trained = done.study.models[entry.of] if entry.of else entry
    net = network_for(trained.architecture or "", trial_images(data, "test", 2)[0], 0).eval()
    net = Defended(net, *defenses(entry)) if entry.of else net
    return Classifier(net, device=device, name=step.model)


def _agreed(model: Classifier, images: Dataset) -> Dataset:
    """The images with the classes that the model gives them, so that all of them would be attacked."""
    with torch.no_grad():
        labels = model.logits(images.images.to(model.device)).argmax(1).cpu()
    return replace(images, labels=labels)


def _reference(done: Finished, name: str, step: Step, budget: float, device: str | None) -> StepForecast:
    study, entry = done.study, done.study.references[step.entry]
    data, plan = study.data[study.data_of(entry)], plan_of(entry)
    names = missing(plan, done.folder / step.place)
    parts = list(_of_attacks(entry, data, budget, device))
    count = {attack: sum(one[0] == attack for one in plan.trainings()) for attack in (None, *plan.strengths)}
    whole = sum(count.values())
    total = [
        sum(getattr(part, what) * count[attack] for attack, part in parts) for what in ("passes", "seconds", "bytes")
    ]
    share = len(names) / max(1, whole)
    return StepForecast(name, len(names), *(value * share for value in total))


def _of_attacks(
    entry: ReferenceEntry, data: DataEntry, budget: float, device: str | None
) -> Iterator[tuple[str | None, StepForecast]]:
    """Attack -> one training against it with its evaluation; None -> a standard training."""
    plan = plan_of(entry)
    yield None, _training(entry.architecture, data, recipe_named("standard"), plan.settings, device)
    for attack, grid in plan.strengths.items():
        strength = float((plan.trained or {}).get(attack, grid)[-1])
        trained = _training(entry.architecture, data, plan.recipe_against(attack, strength), plan.settings, device)
        images, number = trial_images(data, "test", 8)
        net = network_for(entry.architecture, images, 0).eval()
        model = Classifier(net, device=device, name="trial")
        request = Request(
            attacks=[plan.evaluated(attack)], search=plan.searched, procedure=plan.procedure, progress=False,
            diagnose=False, audit=0, strengths={attack: [strength] if plan.rule == "acc" else list(grid)},
        )  # fmt: skip
        found = forecasted(model, _agreed(model, images), request, 0.05)
        scale = min(number, plan.samples or number) / len(images)
        yield (
            attack,
            replace(
                trained,
                passes=trained.passes + found.passes * scale,
                seconds=trained.seconds + found.seconds * scale,
                bytes=3 * trained.bytes + found.bytes * scale,
            ),
        )
