"""The cost of a study: passes counted from recipes and attack plans, times the seconds of a pass of each network."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.files import parse_path
from robustatlas.data import Dataset
from robustatlas.evaluation.forecast import Expected, Forecast, forecasted
from robustatlas.evaluation.memory import seconds_of_a_pass
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.throughput import DeviceThroughput
from robustatlas.evaluation.workers.share import Share, parse_share
from robustatlas.models.classifier import Classifier
from robustatlas.models.defenses import Defended
from robustatlas.models.networks import network_for
from robustatlas.models.sources.defended import transformations
from robustatlas.outcomes import Run
from robustatlas.outcomes.storage import is_run
from robustatlas.studies.description import DataEntry, Study
from robustatlas.studies.finished import Finished, load_images
from robustatlas.studies.identity import State
from robustatlas.studies.planning import Step, evaluation_request, reference_plan, training_request
from robustatlas.studies.running import check_claim, steps_in_words, steps_wanted
from robustatlas.training.display import TrainingDisplay
from robustatlas.training.recipes import Recipe, recipe_named
from robustatlas.training.references import ReferencePlan, missing_trainings, training_name, trainings_without_weights
from robustatlas.training.settings import Settings
from robustatlas.training.trainer import train

_IMAGES = 4
"""Images on which passes are counted and a network is timed."""
_COUNTED_ON = "small-cnn"
"""Network on which passes are counted: a recipe and a plan make as many of every network."""
_SMALLEST_SIDE = 16
"""Pixels; smaller images are counted on the network of the digits."""


@dataclass(frozen=True)
class _Cost:
    """Passes, seconds and bytes on disk of some work."""

    passes: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: _Cost) -> _Cost:
        return _Cost(self.passes + other.passes, self.seconds + other.seconds, self.bytes + other.bytes)

    def __mul__(self, number: float) -> _Cost:
        return _Cost(self.passes * number, self.seconds * number, self.bytes * number)


def forecast_study(
    study: Study,
    out: str | Path,
    device_throughput: str | None = None,
    device: str | None = None,
    *,
    only: Sequence[str] = (),
    part: str | tuple[int, int] | Share | None = None,
) -> Forecast:
    """Forecast what ``out`` lacks of a study, and what that will take; nothing is written.

    Passes of trainings are counted in one update by the recipe, those of evaluations from the plans of the attacks,
    both with a small network in place of the study's. The seconds are those of the passes alone. Data that have a
    ``stand_in`` are not loaded: random images of its shape take their place.

    Args:
        study: as it was read.
        out: its folder, which may not be there.
        device_throughput: as of :func:`robustatlas.evaluation.forecast`; None: each network is timed here with its
            first weights.
        device: where it is timed.
        only, part: as of :func:`robustatlas.study`.

    Returns:
        steps, passes, seconds and bytes of each entry of the file.

    Raises:
        UserError: no such device, and no number; or as :func:`robustatlas.study`, before it does anything.
    """
    throughput = DeviceThroughput.parse_optional(device_throughput)
    check_claim(parse_path(out), study)
    counter = _Counter(Finished.open(study, parse_path(out)), throughput, device)
    wanted = steps_wanted(counter.done, only, parse_share(part))
    steps_in_words(counter.done, wanted)
    todo: dict[str, list[Step]] = {}
    for step in wanted:
        if not counter.done.is_done(step):
            name = ".".join(filter(None, (step.kind, step.entry, step.model)))
            todo.setdefault(name, []).append(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Forecast(tuple(counter.expected(name, steps) for name, steps in todo.items()))


def trial_images(entry: DataEntry, split: str, most: int) -> tuple[Dataset, int]:
    """Return at most ``most`` images like those of a data set, and how many images the data set has."""
    if entry.stand_in is None:
        images = load_images(entry, split)
        return images.take(min(most, len(images))), len(images)
    stand_in = entry.stand_in
    count = stand_in.test if split == "test" else stand_in.train
    asked = entry.samples if split == "test" else entry.train_samples
    shape = stand_in.shape if entry.crop is None else (stand_in.shape[0], entry.crop, entry.crop)
    number = min(count, asked or count)
    shown = min(number, most)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.rand(shown, *shape, generator=generator).numpy()
    labels = torch.arange(shown).remainder(stand_in.classes).numpy()
    classes = tuple(f"class {number}" for number in range(stand_in.classes))
    return Dataset.from_arrays(pixels, labels, entry.name, classes), number


class _Counter:
    """Counts and times the steps of a study, those that are alike once."""

    def __init__(self, done: Finished, throughput: DeviceThroughput | None, device: str | None) -> None:
        self.done, self.study, self.throughput, self.device = done, done.study, throughput, device
        self.known: dict[str, Any] = {}
        self.trial_images = lru_cache(8)(trial_images)

    def expected(self, name: str, steps: list[Step]) -> Expected:
        """Return what these steps will take, or why that cannot be said."""
        kinds = {"models": self._trainings, "evaluations": self._evaluations, "references": self._reference}
        try:
            number, cost = kinds[steps[0].kind](steps)
            return Expected(name, number, cost.passes, cost.seconds, cost.bytes)
        except UserError as error:
            why = str(error)
        except Exception as error:  # of whatever a network does
            why = f"{first_line(error)}."
        return Expected(name, len(steps), unknown=why)

    def _compute_once(self, key: object, count: Callable[[], Any]) -> Any:
        known = repr(key)
        if known not in self.known:
            self.known[known] = count()
        return self.known[known]

    def _trainings(self, steps: list[Step]) -> tuple[int, _Cost]:
        entry = self.study.models[steps[0].entry]
        recipe, settings, _ = training_request(entry).plan(0)
        one = self._training(entry.architecture or "", self.study.data_name(entry), recipe, settings)
        kept = 3 + (0 if entry.keep is None else settings.epochs // entry.keep)
        return len(steps), replace(one, bytes=one.bytes * kept) * len(steps)

    def _training(self, architecture: str, data: str, recipe: Recipe, settings: Settings) -> _Cost:
        """Return the cost of one training; its bytes are those of the weights."""
        images, number = self.trial_images(self.study.data[data], "train", _IMAGES)
        passes = self._compute_once((data, recipe, settings), lambda: _passes_of_an_update(images, recipe, settings))
        in_all = settings.epochs * number * passes / len(images)
        pace, weights = self._network(architecture, data)
        return _Cost(in_all, in_all * pace, weights)

    def _evaluations(self, steps: list[Step]) -> tuple[int, _Cost]:
        first = steps[0]
        entry, model = self.study.evaluations[first.entry], self.study.models[first.model]
        data, request = self.study.data_name(entry), replace(evaluation_request(entry), samples=None)
        number = min(self._test_images(data), entry.samples or sys.maxsize)
        by_attack = self._compute_once(
            (first.entry, model.defense), lambda: self._planned(data, request, model.defense)
        )
        network = self.study.models[model.of or first.model]
        if network.architecture is None:
            net = self.done.model(first.model, first.seed, device=self.device)
            pace = self._compute_once((first.model, data), lambda: self._pace(net, data))
        else:
            pace, _ = self._network(network.architecture, data)
        missing = {
            attack: sum(self._unattacked_samples(step, attack, number) for step in steps) for attack in by_attack
        }
        one = sum((cost * missing[attack] for attack, cost in by_attack.items()), _Cost())
        return len(steps), replace(one, seconds=one.passes * pace)

    def _unattacked_samples(self, step: Step, attack: str, number: int) -> int:
        """Return the samples, of ``number``, that an evaluation still has to attack; its run keeps the others."""
        place = self.done.folder / step.place
        if self.done.state(step) in (State.AGAIN, State.REFUSED) or not is_run(place):
            return number
        return max(0, number - len(Run.open(place).finished_samples(attack)))

    def _test_images(self, data: str) -> int:
        return self.trial_images(self.study.data[data], "test", _IMAGES)[1]

    def _planned(self, data: str, request: Request, defense: str | None = None) -> dict[str, _Cost]:
        """Return the passes and bytes of one image under each attack, by its plan."""
        images, _ = self.trial_images(self.study.data[data], "test", _IMAGES)
        net: nn.Module = _small_network(images).eval()
        if defense is not None:
            net = Defended(net, *transformations(defense)).eval()
        model = Classifier(net, name="trial")
        with torch.no_grad():
            labels = model.logits(images.images).argmax(1)
        asked = replace(request, progress=False, diagnose=False, audit=0)
        found = forecasted(model, replace(images, labels=labels), asked, 1.0, DeviceThroughput("counting", passes=1.0))
        return {each.name: _Cost(each.passes, 0.0, each.bytes) * (1 / len(images)) for each in found.expected}

    def _network(self, architecture: str, data: str) -> tuple[float, float]:
        """Return the seconds of a pass of a network with its first weights, and the bytes of its weights."""

        def measured() -> tuple[float, float]:
            net = network_for(architecture, self.trial_images(self.study.data[data], "test", _IMAGES)[0], 0).eval()
            weights = float(sum(p.numel() * p.element_size() for p in net.parameters()))
            return self._pace(Classifier(net, device=self.device, name="trial"), data), weights

        found: tuple[float, float] = self._compute_once((architecture, data), measured)
        return found

    def _pace(self, model: Classifier, data: str) -> float:
        """Return the seconds of a pass of one image."""
        images = self.trial_images(self.study.data[data], "test", _IMAGES)[0].images.to(model.device, model.dtype)
        if self.throughput is not None:
            return self.throughput.seconds_a_pass(model.net, images[:1])
        pair = min(seconds_of_a_pass(model, images.clone().requires_grad_()) for _ in range(2))  # the first loads much
        return pair / (2 * len(images))

    def _reference(self, steps: list[Step]) -> tuple[int, _Cost]:
        entry = self.study.references[steps[0].entry]
        data, plan = self.study.data_name(entry), reference_plan(entry)
        place = self.done.folder / steps[0].place
        lacking, without_weights = (
            missing_trainings(plan, place, self._test_images(data)),
            set(trainings_without_weights(plan, place)),
        )
        attacks = {training_name(*training): training[0] for training in plan.trainings()}
        trained, evaluated = (
            {attack: cost(plan, attack, data) for attack in dict.fromkeys(attacks.values())}
            for cost in (self._specialist, self._evaluated_specialist)
        )
        costs = [trained[attacks[name]] for name in lacking if name in without_weights]
        return len(lacking), sum((evaluated[attacks[name]] for name in lacking), sum(costs, _Cost()))

    def _specialist(self, plan: ReferencePlan, attack: str | None, data: str) -> _Cost:
        """Return the cost of one training of a reference."""
        if attack is None:
            return self._training(plan.architecture, data, recipe_named("standard"), plan.settings)
        grid = list((plan.trained or {}).get(attack, plan.strengths[attack]))
        return self._training(plan.architecture, data, plan.recipe_against(attack, float(grid[-1])), plan.settings)

    def _evaluated_specialist(self, plan: ReferencePlan, attack: str | None, data: str) -> _Cost:
        """Return the cost of the evaluation of one training of a reference."""
        if attack is None:
            return _Cost()
        grid = list((plan.trained or {}).get(attack, plan.strengths[attack]))
        strengths = {attack: grid[-1:] if plan.rule == "acc" else list(plan.strengths[attack])}
        request = Request(
            attacks=[plan.evaluation_attack(attack)], search=plan.searched, protocol=plan.protocol, strengths=strengths
        )
        pace, _ = self._network(plan.architecture, data)
        one = sum(self._planned(data, request).values(), _Cost())
        number = min(self._test_images(data), plan.samples or sys.maxsize)
        return replace(one, seconds=one.passes * pace) * number


def _small_network(images: Dataset) -> nn.Module:
    """Return a network on which passes are counted quickly."""
    return network_for(_COUNTED_ON if min(images.shape[1:]) >= _SMALLEST_SIDE else "digits-cnn", images, 0)


def _passes_of_an_update(images: Dataset, recipe: Recipe, settings: Settings) -> int:
    """Return the forward and backward passes of one update of all ``images`` by a recipe."""
    net, counting = _small_network(images), _CountPasses()
    trial = replace(
        settings, epochs=2, batch_size=len(images), held_out=0, selection="last", swa_from=None,
        schedule="one-cycle", warmup_epochs=0.0,
    )  # fmt: skip
    with net.register_forward_pre_hook(counting.count):
        train(net, images, recipe, settings=trial, progress=counting)
    return counting.passes


class _CountPasses(TrainingDisplay):
    """Counts the ``passes`` of the second update of a training, as the first one may prepare more: the images that go
    through the network, forwards, and with gradients backwards as well."""

    def __init__(self) -> None:
        self.passes, self._counted = 0, 0

    def count(self, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._counted += len(inputs[0]) * (1 + torch.is_grad_enabled())

    def update(self, done: int, loss: float | None) -> None:
        self.passes = self._counted - self.passes
