"""An evaluation before its work: the model, the data and the attacks, chosen and checked against each other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack, Plan, Search
from robustatlas.checks.sanity import GRADIENTS, check_attacks, check_classes, check_model, ways_back
from robustatlas.common.errors import UserError, warn
from robustatlas.common.host import looking_is_free
from robustatlas.common.wording import invalid_sentence
from robustatlas.evaluation.gradients import gradient_record
from robustatlas.evaluation.identity import identity_of
from robustatlas.evaluation.memory import (
    bytes_at_work,
    bytes_kept,
    bytes_loaded,
    fitting_batch,
    seconds_of_a_batch,
    seconds_of_a_pass,
)
from robustatlas.evaluation.plan import (
    EIGHT_BIT,
    Data,
    Task,
    Work,
    chosen_attacks,
    record_of,
    samples_of,
    those_that_fit,
)
from robustatlas.evaluation.progress import Progress, progress_shown
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.work import Manner
from robustatlas.models.classifier import Classifier, seeded, undisturbed
from robustatlas.models.classifier.backward import Backward
from robustatlas.models.classifier.failing import with_what_gradient_it_has
from robustatlas.models.classifier.smoothing import kinks_at
from robustatlas.outcomes import Identity
from robustatlas.outcomes.records import GradientRecord
from robustatlas.threats.levels import check_levels
from robustatlas.threats.probe import probe

DEFAULT_BATCH = 256
_BACK = 2
"""Samples by which it is tried whether the backward pass of a model fails, and what a pass keeps."""
_LOOKED_AT = 64
"""Samples that are looked at for pixels that no 8-bit file holds, before the work; all are when their turn comes."""

Model = Classifier | nn.Module | Callable[[Tensor], Any]


@dataclass(frozen=True)
class Prepared:
    """An evaluation that has passed the checks.

    ``tasks``: one an attack, whatever a run has of it. ``warnings``: what the checks said. ``manner``: how the work is
    to be done. ``pair``: seconds that the forward and backward pass of one sample take. ``display``: is told.
    """

    model: Classifier
    work: Work
    tasks: Sequence[Task]
    identity: Identity
    warnings: Sequence[str]
    manner: Manner
    pair: float
    display: Progress

    @property
    def attacks(self) -> list[Attack]:
        """One a task."""
        return [task.attack for task in self.tasks]

    @property
    def at_once(self) -> int:
        """Samples at work at once."""
        return min(self.manner.batch_size, len(self.work.labels))

    def memory(self) -> float:
        """Bytes that a process takes for the work, with all that this one has taken so far."""
        image = self.work.rows[:1].to(self.model.dtype).nbytes
        at_work = bytes_at_work(image, self.manner.kept, self.at_once, len(self.work.labels))
        return bytes_loaded(self.model.device) + at_work

    @property
    def classes(self) -> int:
        """Of the model."""
        return len(self.identity.model.probe[0])


def given(model: Model, data: Data, request: Request) -> tuple[Classifier, Work]:
    """The model as one thing, and the samples that are asked for."""
    with undisturbed():
        return model if isinstance(model, Classifier) else Classifier(model), samples_of(
            data, request.samples, request.seed, request.run
        )


@contextmanager
def surroundings(model: Classifier, request: Request) -> Iterator[Progress]:
    """What everything is computed in, and where progress is shown."""
    with (
        undisturbed(),
        seeded(request.seed, model.device),
        model.evaluating(),
        progress_shown(request.progress) as display,
    ):
        yield display


def prepared(model: Classifier, work: Work, request: Request, display: Progress) -> Prepared:
    """Choose the attacks, and check that they, the model and the data fit each other; warnings go to ``display``."""
    named = request.attacks_on(model)
    asked = chosen_attacks(request, model, work.first.images)
    if request.pixels == EIGHT_BIT:
        check_levels(work.rows[:_LOOKED_AT])
    searches = {attack.name: attack.searched_by(request.search) for attack in asked}
    warnings = check_attacks(model, asked, work.rows) + check_model(model, work.rows, work.labels)
    warnings += check_classes(work.labels, work.classes, model, drawn=request.by_number)
    model = with_what_gradient_it_has(model, work.rows[:_BACK])
    asked, left_out = those_that_fit(asked, named, _probed(model, work.rows[:1]))
    model, asked = _smoothed(model, asked, searches, work)
    _probe(asked, _probed(model, work.rows[:4]))
    for warning in [*warnings, *left_out]:
        tell(display, warning)
    tasks = _tasks(asked, searches, model, work, request)
    lost = {task.record.name: task.record.gradient.without for task in tasks if task.record.gradient is not None}
    if invalid := {name: share for name, share in lost.items() if share}:
        tell(display, invalid_sentence(invalid))
    identity, manner = identity_of(model, work.rows.shape[1:], work.record), _manner_of(model, work, request)
    pair = _seconds_of_a_pair(model, work, min(manner.batch_size, len(work.labels)))
    return Prepared(model, work, tasks, identity, (*warnings, *left_out), manner, pair, display)


def _smoothed(
    model: Classifier, attacks: list[Attack], searches: Mapping[str, Search], work: Work
) -> tuple[Classifier, list[Attack]]:
    """The model with what its ReLUs are smoothed by, where a plan asks for that; where none can be, plans without."""
    if model.knowledge != "gradients" or not any(
        attack.plan(searches[attack.name]).has_smoothed_runs for attack in attacks
    ):
        return model, attacks
    kinks = kinks_at(model, _probed(model, work.first.images))
    return model.smoothed_by(kinks), attacks if any(kinks) else [attack.unsmoothed() for attack in attacks]


def tell(display: Progress, warning: str) -> None:
    """Say a warning where the progress is shown, and as Python's warning."""
    display.warn(warning)
    warn(warning)


def _tasks(
    attacks: Sequence[Attack], searches: Mapping[str, Search], model: Classifier, work: Work, request: Request
) -> list[Task]:
    precision = model.precision if model.dtype == torch.float32 else "float64"
    gradients = _gradients(model, work, [attack.plan(searches[attack.name]) for attack in attacks])
    return [
        Task(
            attack,
            search,
            record_of(attack, search, request.seed, precision, model, request.effort, gradient, work.first.images),
        )
        for attack, gradient in zip(attacks, gradients, strict=True)
        for search in [searches[attack.name]]
    ]


def _gradients(model: Classifier, work: Work, plans: Sequence[Plan]) -> list[GradientRecord | None]:
    """The gradients that each plan takes of the model; looked at once for all that take the same."""
    ways = [_ways(plan) if model.knowledge == "gradients" else frozenset() for plan in plans]
    sample = (work.rows[:GRADIENTS], work.labels[:GRADIENTS])
    found = {taken: gradient_record(model, work.first, sample, taken) for taken in set(ways)}
    return [found[taken] for taken in ways]


def _ways(plan: Plan) -> frozenset[Backward | None]:
    smoothed: frozenset[Backward | None] = frozenset({"smoothed"} if plan.has_smoothed_runs else ())
    return ways_back(plan) | smoothed


def _manner_of(model: Classifier, work: Work, request: Request) -> Manner:
    """How the work is to be done; finds out what fits where the batch size is ``"auto"``."""
    count, size = len(work.labels), DEFAULT_BATCH if request.batch_size is None else request.batch_size
    if size == "auto":
        size = fitting_batch(model, _probed(model, work.rows[:1]), count)
    kept = bytes_kept(model, _probed(model, work.rows[:_BACK]))
    return Manner(request.seed, size, not isinstance(request.batch_size, int), request.keep_adversarial, kept)


def _probe(attacks: Sequence[Attack], x: Tensor) -> None:
    """Refuse threat models that would make a model look robust by rejecting what an attack finds."""
    for attack in attacks:
        sized = attack.nested and not attack.judges_last
        found = probe(attack.threat, x, attack.strengths, nested=sized, contains_clean=attack.contains_clean)
        if found:
            raise UserError(f"Attack {attack.name!r} cannot be trusted: {found[0]}")


def _probed(model: Classifier, images: Tensor) -> Tensor:
    return images.to(model.device, model.dtype)


def _seconds_of_a_pair(model: Classifier, work: Work, batch: int) -> float:
    """Seconds that the forward and backward pass of one sample take; of an accelerator, which is about as fast with one
    as with many, in a batch."""
    if model.knowledge == "gradients" and not looking_is_free(model.device):
        while (seconds := seconds_of_a_batch(model, _probed(model, work.rows[:1]), batch)) is None and batch > 1:
            batch //= 2
        return (seconds or 0.0) / batch
    x = _probed(model, work.rows[:8]).requires_grad_(model.knowledge == "gradients")
    times = 1 + x.requires_grad  # the first pass is slower, and what can only be asked is asked once
    return min(seconds_of_a_pass(model, x) for _ in range(times)) / len(x)
