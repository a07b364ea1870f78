"""The preparation of an evaluation: model, data and attacks are chosen, and checked against each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack, Plan, Search
from robustatlas.checks.sanity import GRADIENTS, backward_rules, check_attacks, check_classes, check_model
from robustatlas.common.errors import UserError
from robustatlas.common.host import is_sync_free
from robustatlas.common.wording import masked_warning
from robustatlas.evaluation.attack_choice import choose_attacks, fitting_attacks
from robustatlas.evaluation.attack_task import AttackTask
from robustatlas.evaluation.chunks import ChunkSettings
from robustatlas.evaluation.completion import PreparedTasks, show_warning
from robustatlas.evaluation.gradients import gradient_record
from robustatlas.evaluation.identity import run_identity
from robustatlas.evaluation.memory import bytes_kept, fitting_batch, seconds_of_a_batch, seconds_of_a_pass
from robustatlas.evaluation.progress import Progress, progress_shown
from robustatlas.evaluation.records import attack_record
from robustatlas.evaluation.request import EIGHT_BIT, Data, Request
from robustatlas.evaluation.samples import ChosenSamples, choose_samples
from robustatlas.models.classifier import Classifier, seeded, undisturbed
from robustatlas.models.classifier.backward import Backward
from robustatlas.models.classifier.probing import drop_failing_gradient, kinks_at
from robustatlas.outcomes.records import GradientRecord
from robustatlas.threats.levels import check_levels
from robustatlas.threats.probe import probe

DEFAULT_BATCH = 256
"""Samples at work at once, if nothing else is asked for."""
_TRIED_BACKWARD = 2
"""Samples of the trial that shows if the backward pass of a model fails, and what a forward pass keeps."""
_CHECKED_PIXELS = 64
"""Samples whose pixels are checked for levels of 8-bit files before the work; all are when their turn comes."""

Model = Classifier | nn.Module | Callable[[Tensor], Any]


def open_model(model: Model, data: Data, request: Request) -> tuple[Classifier, ChosenSamples]:
    """Return the classifier, and the samples that a request asks for."""
    with undisturbed():
        classifier = model if isinstance(model, Classifier) else Classifier(model)
        return classifier, choose_samples(data, request.samples, request.seed, request.run)


@contextmanager
def evaluation_context(model: Classifier, request: Request) -> Iterator[Progress]:
    """Compute with the seed of a request and the model in eval mode, and yield where progress is shown."""
    with (
        undisturbed(),
        seeded(request.seed, model.device),
        model.evaluating(),
        progress_shown(request.progress) as display,
    ):
        yield display


@dataclass(frozen=True)
class PreparedAttacks(PreparedTasks):
    """Attacks on chosen samples that have passed the checks; one task for each attack, whatever a run has of it."""

    tasks: Sequence[AttackTask]

    @property
    def attacks(self) -> list[Attack]:
        """Attacks of the tasks."""
        return [task.attack for task in self.tasks]


def prepare_attacks(model: Classifier, samples: ChosenSamples, request: Request, display: Progress) -> PreparedAttacks:
    """Choose the attacks, and check that they, the model and the data fit each other."""
    named = request.attacks_or_default(model)
    attacks = choose_attacks(request, model, samples.first.images)
    if request.pixels == EIGHT_BIT:
        check_levels(samples.rows[:_CHECKED_PIXELS])
    searches = {attack.name: attack.choose_search(request.search) for attack in attacks}
    warnings = check_attacks(model, attacks, samples.rows) + check_model(model, samples.rows, samples.labels)
    warnings += check_classes(samples.labels, samples.classes, model, drawn=request.is_number_of_samples)
    model = drop_failing_gradient(model, samples.rows[:_TRIED_BACKWARD])
    attacks, left_out = fitting_attacks(attacks, named, _on_device(model, samples.rows[:1]))
    model, attacks = _smoothed(model, attacks, searches, samples)
    _check_threats(attacks, _on_device(model, samples.rows[:4]))
    for warning in [*warnings, *left_out]:
        show_warning(display, warning)
    tasks = _attack_tasks(attacks, searches, model, samples, request)
    lost = {task.record.name: task.record.gradient.without for task in tasks if task.record.gradient is not None}
    if invalid := {name: share for name, share in lost.items() if share}:
        show_warning(display, masked_warning(invalid))
    identity, settings = run_identity(model, samples.rows.shape[1:], samples.record), _settings(model, samples, request)
    seconds = _seconds_per_pair(model, samples, min(settings.batch_size, len(samples.labels)))
    return PreparedAttacks(model, samples, tasks, identity, (*warnings, *left_out), settings, display, seconds)


def _smoothed(
    model: Classifier, attacks: list[Attack], searches: Mapping[str, Search], samples: ChosenSamples
) -> tuple[Classifier, list[Attack]]:
    """Return the model with smoothed ReLUs if a plan asks for them, or the attacks without such runs if it has none."""
    if model.knowledge != "gradients" or not any(
        attack.plan(searches[attack.name]).has_smoothed_runs for attack in attacks
    ):
        return model, attacks
    kinks = kinks_at(model, _on_device(model, samples.first.images))
    return model.with_smoothing(kinks), attacks if any(kinks) else [attack.unsmoothed() for attack in attacks]


def _attack_tasks(
    attacks: Sequence[Attack],
    searches: Mapping[str, Search],
    model: Classifier,
    samples: ChosenSamples,
    request: Request,
) -> list[AttackTask]:
    precision = model.precision if model.dtype == torch.float32 else "float64"
    gradients = _gradients(model, samples, [attack.plan(searches[attack.name]) for attack in attacks])
    asked, first = (request.seed, precision, model, request.effort), samples.first.images
    return [
        AttackTask(attack, search, attack_record(attack, search, *asked, gradient, first))
        for attack, gradient in zip(attacks, gradients, strict=True)
        for search in [searches[attack.name]]
    ]


def _gradients(model: Classifier, samples: ChosenSamples, plans: Sequence[Plan]) -> list[GradientRecord | None]:
    """Return the record of the gradients that each plan takes of the model; plans that take the same share it."""
    ways = [_gradient_ways(plan) if model.knowledge == "gradients" else frozenset() for plan in plans]
    sample = (samples.rows[:GRADIENTS], samples.labels[:GRADIENTS])
    found = {taken: gradient_record(model, samples.first, sample, taken) for taken in set(ways)}
    return [found[taken] for taken in ways]


def _gradient_ways(plan: Plan) -> frozenset[Backward | None]:
    smoothed: frozenset[Backward | None] = frozenset({"smoothed"} if plan.has_smoothed_runs else ())
    return backward_rules(plan) | smoothed


def _settings(model: Classifier, samples: ChosenSamples, request: Request) -> ChunkSettings:
    """Return the settings of chunks; the batch size ``"auto"`` is measured."""
    count, size = len(samples.labels), DEFAULT_BATCH if request.batch_size is None else request.batch_size
    if size == "auto":
        size = fitting_batch(model, _on_device(model, samples.rows[:1]), count)
    kept = bytes_kept(model, _on_device(model, samples.rows[:_TRIED_BACKWARD]))
    return ChunkSettings(request.seed, size, not isinstance(request.batch_size, int), request.keep_adversarial, kept)


def _check_threats(attacks: Sequence[Attack], x: Tensor) -> None:
    """Refuse threat models that would make a model look robust because they reject what an attack finds."""
    for attack in attacks:
        sized = attack.nested and not attack.judges_last
        found = probe(attack.threat, x, attack.strengths, nested=sized, contains_clean=attack.contains_clean)
        if found:
            raise UserError(f"Attack {attack.name!r} cannot be trusted: {found[0]}")


def _on_device(model: Classifier, images: Tensor) -> Tensor:
    return images.to(model.device, model.dtype)


def _seconds_per_pair(model: Classifier, samples: ChosenSamples, batch: int) -> float:
    """Return the seconds of a forward and a backward pass of one sample.

    An accelerator is about as fast with one sample as with many, so it is measured with a batch.
    """
    if model.knowledge == "gradients" and not is_sync_free(model.device):
        while (seconds := seconds_of_a_batch(model, _on_device(model, samples.rows[:1]), batch)) is None and batch > 1:
            batch //= 2
        return (seconds or 0.0) / batch
    x = _on_device(model, samples.rows[:8]).requires_grad_(model.knowledge == "gradients")
    times = 1 + x.requires_grad  # the first pass is slower, and what can only be asked is asked once
    return min(seconds_of_a_pass(model, x) for _ in range(times)) / len(x)
