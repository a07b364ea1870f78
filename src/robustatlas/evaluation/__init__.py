"""``evaluate``: attacks x samples -> the table of a run, with progress and resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack, Effort, Plan, Procedure, Search
from robustatlas.classifier import Classifier, seeded, undisturbed
from robustatlas.errors import UserError, brief, warn
from robustatlas.evaluation.checks import check_arguments
from robustatlas.evaluation.costs import Costs, weight_of
from robustatlas.evaluation.desk import Desk
from robustatlas.evaluation.forecast import Expected, Forecast, expected_of
from robustatlas.evaluation.gradients import gradient_record
from robustatlas.evaluation.identity import check_answers, identity_of
from robustatlas.evaluation.memory import fitting_batch, ran_out
from robustatlas.evaluation.plan import (
    Attacks,
    Data,
    Samples,
    Strengths,
    Task,
    Work,
    chosen_attacks,
    found_otherwise,
    record_of,
    samples_of,
    tasks_for,
    those_that_fit,
)
from robustatlas.evaluation.reading import Question, diagnosed, question_of
from robustatlas.evaluation.work import Doer, Manner, doing_elsewhere
from robustatlas.outcomes import CallRecord, Identity, Run
from robustatlas.outcomes.gradients import GradientRecord
from robustatlas.outcomes.records import command_line, now, spans_of
from robustatlas.progress import Progress, progress_shown
from robustatlas.result import Result
from robustatlas.sanity import GRADIENTS, check_attacks, check_model, ways_back
from robustatlas.scalars import real
from robustatlas.threats.probe import probe
from robustatlas.wording import counted, void_sentence
from robustatlas.workers import Cluster, cluster_of, work_elsewhere, work_here
from robustatlas.workers.share import share_of

DEFAULT_BATCH = 256
_USUAL = 0.6
"""Of the most passes that plans may take, what samples take on average."""

__all__ = ["DEFAULT_BATCH", "Cluster", "Expected", "Forecast", "evaluate", "forecast"]


def evaluate(
    model: Classifier | nn.Module | Callable[[Tensor], Any],
    data: Data,
    attacks: Attacks = ("linf", "l2"),
    search: Search | None = None,
    procedure: Procedure = "default",
    strengths: Strengths | None = None,
    samples: Samples = None,
    seed: int = 0,
    run: str | Path | None = None,
    batch_size: int | Literal["auto"] | None = None,
    *,
    effort: Effort = "default",
    exclude: Sequence[str] = (),
    shard_size: int | None = None,
    keep_adversarial: bool = False,
    diagnose: bool = True,
    progress: bool | Progress | None = None,
    part: str | tuple[int, int] | None = None,
    workers: int | None = None,
    devices: Sequence[str] | None = None,
    ray: bool | str | Cluster | None = None,
) -> Result:
    """Find, for each sample and attack, the smallest strength at which the model errs.

    Args:
        model: a :class:`Classifier`, or a network from inputs in [0, 1] to logits.
        data: a :class:`Dataset`, images ``[N, ...]`` in [0, 1] and labels ``[N]``, or a ``torch.utils.data.Dataset``.
        attacks: names of the catalogue, names of suites, or :class:`Attack` objects. What a suite has and the data
            cannot take (colour attacks on grey images) is left out with a warning.
        search: ``"descent"`` (whole curves for about the price of one point), ``"bisection"`` (MultiRobustBench) or
            ``"every"`` (each strength by itself), ``"frontier"`` (lowest margins, for the hypervolume) or
            ``"minimum"`` (smallest sizes, for curves without a grid), for all attacks; default: what each attack asks
            for.
        procedure: ``"default"`` (sound sets, strong search) or ``"paper"`` (each attack exactly as its source ran it).
        strengths: increasing strengths per attack; default: the catalogue's grid.
        samples: the first ``samples`` of the data, their positions, or a mask; default: all.
        seed: of all random numbers. Results depend on it and on nothing like batch size, order, parts or resume.
        run: directory to write to. What is in it is kept and never computed again: an interrupted run goes on, and a
            finished one can be given more attacks, samples and strengths. ``None``: in memory.
        batch_size: samples at work at once. By default 256, and fewer where memory runs out; ``"auto"`` tries what
            the device is fast with.
        effort: ``"low"`` (fewer passes), ``"default"``, or ``"high"`` (several times as many, for the numbers
            of a paper); of the default procedure.
        exclude: names of attacks to leave out of the suites.
        shard_size: samples per file, the most that a crash can lose (default: about 45 seconds of work).
        keep_adversarial: keep the smallest adversarial example of each sample.
        diagnose: look at samples before the work, to tell whether the numbers can be trusted (see
            :func:`robustatlas.diagnose`): at 32, or as many as cost a twentieth of the passes.
        progress: show a progress bar (default: where standard error is a terminal), or an object of your own.
        part: ``"I/N"`` with I from 0 to N-1: only every N-th of the samples, from the I-th on. The run's plan covers
            all of them, so that N machines that know nothing of each other fill one directory, or several to be merged.
        workers: processes that share the work; what they find is what one finds. Several evaluations of one run
            directory share its work too, each in its own process.
        devices: where the workers compute, such as ``["cuda:0", "cuda:1"]``; default: where the model is.
        ray: work on a cluster of Ray: ``True`` for one on this machine (with ``workers``), the address of a running
            one, or a :class:`Cluster`. What is found comes back here; no disk needs to be shared.

    Returns:
        the attacks, samples (of the part) and strengths asked for; :func:`load_result` reads all that a run directory
        holds.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1]))
        >>> result = evaluate(net, data, attacks="linf", strengths={"linf": [0.1, 0.5]})
        >>> result.minimal_size("linf").shape
        (5,)
    """
    seed, batch_size, shard_size, workers = check_arguments(
        seed=seed,
        run=run,
        batch_size=batch_size,
        exclude=exclude,
        shard_size=shard_size,
        keep_adversarial=keep_adversarial,
        progress=progress,
        workers=workers,
        devices=devices,
    )
    share = share_of(part)
    cluster = cluster_of(ray, workers)
    classifier, work = _given(model, data, samples)
    with _surroundings(classifier, seed), progress_shown(progress) as display:
        ready = prepared(classifier, work, attacks, search, procedure, strengths, exclude, seed, display, effort)
        manner = manner_of(ready, batch_size, seed, keep_adversarial)
        if batch_size == "auto":
            display.note(
                f"{counted(manner.batch_size, 'sample')} at work at once is what {ready.model.device} is fast with."
            )
        store = Run.begin(run, ready.identity)
        check_answers(classifier, store, work)
        with store.claims() as claims:
            with claims.alone("plan"):
                for note in found_otherwise(ready.tasks, store):
                    display.note(note)
                tasks = _planned(store, ready)
            weights = [weight_of(task, ready.classes) for task in tasks]
            if diagnose:
                with claims.alone("diagnosis"):
                    verdict = diagnosed(store, ready.model, _question(ready, seed, manner, sum(weights)))
                if verdict.doubted:
                    _tell(display, verdict.warned)
            costs = Costs(weights, ready.pair)
            places = _places(workers, devices, classifier)
            mine = share.mask(len(work.index))
            hands = max(1, len(places)) if cluster is None else cluster.workers or 2
            whole = False
            while not whole:
                desk = Desk(store, tasks, work, mine, manner, costs, claims, shard_size, hands, display)
                if not desk.lacking:
                    display.note(
                        f"Nothing to do: {store.path or 'the run'} has all of it, results of {store.identity.created}."
                    )
                else:
                    _work_through(desk, ready, tasks, manner, cluster or places)
                whole = store.intact(task.record for task in tasks)
        grids = {attack.name: attack.strengths for attack in ready.attacks}
        result = Result.of_run(store, list(grids), work.index[mine], grids)
        for attack in ready.attacks:
            if sentence := _rejections(result, attack):
                _tell(display, sentence)
    return result


def forecast(
    model: Classifier | nn.Module | Callable[[Tensor], Any],
    data: Data,
    attacks: Attacks = ("linf", "l2"),
    search: Search | None = None,
    procedure: Procedure = "default",
    strengths: Strengths | None = None,
    samples: Samples = None,
    seed: int = 0,
    run: str | Path | None = None,
    batch_size: int | Literal["auto"] | None = None,
    *,
    effort: Effort = "default",
    exclude: Sequence[str] = (),
    keep_adversarial: bool = False,
    progress: bool | Progress | None = None,
    part: str | tuple[int, int] | None = None,
    workers: int | None = None,
    devices: Sequence[str] | None = None,
    budget: float = 5.0,
) -> Forecast:
    """What :func:`evaluate` would do with these arguments, and how long it would take here. Nothing is written.

    Each attack is tried for about ``budget`` seconds on samples that ``run`` lacks; the other arguments are those of
    :func:`evaluate`.

    Args:
        model: as of :func:`evaluate`.
        data: as of :func:`evaluate`.
        attacks, search, procedure, strengths, samples, seed, effort, exclude: as of :func:`evaluate`.
        run, batch_size, keep_adversarial, progress, part, workers, devices: as of :func:`evaluate`.
        budget: seconds for which each attack is tried, about.

    Returns:
        passes, seconds and bytes on disk, attack by attack.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1]))
        >>> [(each.attack, each.samples) for each in forecast(net, data, "linf").expected]
        [('linf', 5)]
    """
    seed, batch_size, _, workers = check_arguments(
        seed=seed,
        run=run,
        batch_size=batch_size,
        exclude=exclude,
        shard_size=None,
        keep_adversarial=keep_adversarial,
        progress=progress,
        workers=workers,
        devices=devices,
    )
    if not 0 < real(budget) < inf:
        raise UserError(f"budget={brief(repr(budget))}; expected a positive number of seconds.")
    share = share_of(part)
    classifier, work = _given(model, data, samples)
    with _surroundings(classifier, seed), progress_shown(progress) as display:
        ready = prepared(classifier, work, attacks, search, procedure, strengths, exclude, seed, display, effort)
        manner = manner_of(ready, batch_size, seed, keep_adversarial)
        store = Run.begun(run, ready.identity) or Run(ready.identity)
        check_answers(classifier, store, work)
        mine = share.mask(len(work.index))
        expected = []
        for task in (task for asked in ready.tasks for task in tasks_for(asked, store)):
            missing = mine & ~np.isin(work.index, store.done(task.record, examples=keep_adversarial))
            if missing.any():
                expected.append(expected_of(classifier, task, work, missing, manner, real(budget)))
    return Forecast(tuple(expected), max(1, len(_places(workers, devices, classifier))), manner.batch_size)


@dataclass(frozen=True)
class Prepared:
    """An evaluation that has passed the checks.

    ``tasks``: one an attack, whatever a run has of it; ``warnings``: what the checks said; ``classes``: of the model;
    ``pair``: seconds that the forward and backward pass of one sample take.
    """

    model: Classifier
    work: Work
    attacks: Sequence[Attack]
    tasks: Sequence[Task]
    identity: Identity
    warnings: Sequence[str]
    pair: float

    @property
    def classes(self) -> int:
        """Of the model."""
        return len(self.identity.model.probe[0])


def prepared(
    model: Classifier,
    work: Work,
    attacks: Attacks,
    search: Search | None,
    procedure: Procedure,
    strengths: Strengths | None,
    exclude: Sequence[str],
    seed: int,
    display: Progress,
    effort: Effort = "default",
) -> Prepared:
    """Choose the attacks, and check that they, the model and the data fit each other; warnings go to ``display``."""
    precision = model.precision if model.dtype == torch.float32 else "float64"
    asked = chosen_attacks(attacks, procedure, strengths, exclude, model, effort)
    searches = {attack.name: attack.searched_by(search) for attack in asked}
    warnings = check_attacks(model, asked, work.rows) + check_model(model, work.rows, work.labels)
    asked, left_out = those_that_fit(asked, attacks, _probed(model, work.rows[:1]))
    _probe(asked, _probed(model, work.rows[:4]))
    for warning in [*warnings, *left_out]:
        _tell(display, warning)
    plans = [attack.plans[searches[attack.name]] for attack in asked]
    tasks = [
        Task(attack, search, record_of(attack, search, seed, precision, model, effort, gradient))
        for attack, gradient in zip(asked, _gradients(model, work, plans), strict=True)
        for search in [searches[attack.name]]
    ]
    lost = {task.record.name: task.record.gradient.without for task in tasks if task.record.gradient is not None}
    if void := {name: share for name, share in lost.items() if share}:
        _tell(display, void_sentence(void))
    identity = identity_of(model, work.rows.shape[1:], work.record)
    return Prepared(model, work, asked, tasks, identity, (*warnings, *left_out), _seconds_of_a_pair(model, work))


def _tell(display: Progress, warning: str) -> None:
    display.warn(warning)
    warn(warning)


def _gradients(model: Classifier, work: Work, plans: Sequence[Plan]) -> list[GradientRecord | None]:
    """The gradients that each plan takes of the model; looked at once for all that take the same."""
    ways = [ways_back(plan) if model.knowledge == "gradients" else frozenset() for plan in plans]
    sample = (work.rows[:GRADIENTS], work.labels[:GRADIENTS])
    found = {taken: gradient_record(model, work.first, sample, taken) for taken in set(ways)}
    return [found[taken] for taken in ways]


def manner_of(
    ready: Prepared, batch_size: int | Literal["auto"] | None, seed: int, keep_adversarial: bool = False
) -> Manner:
    """How the work is to be done; finds out what fits where the batch size is ``"auto"``."""
    size = batch_size or DEFAULT_BATCH
    if size == "auto":
        size = fitting_batch(ready.model, _probed(ready.model, ready.work.rows[:1]), len(ready.work.labels))
    return Manner(seed, min(size, len(ready.work.labels)), not isinstance(batch_size, int), keep_adversarial)


def _given(
    model: Classifier | nn.Module | Callable[[Tensor], Any], data: Data, samples: Samples
) -> tuple[Classifier, Work]:
    with undisturbed():
        return model if isinstance(model, Classifier) else Classifier(model), samples_of(data, samples)


@contextmanager
def _surroundings(model: Classifier, seed: int) -> Iterator[None]:
    """What everything is computed in."""
    with undisturbed(), seeded(seed, model.device), model.evaluating():
        yield


def _planned(store: Run, ready: Prepared) -> list[Task]:
    """The tasks that bring a run to what is asked, announced in it."""
    tasks = [task for asked in ready.tasks for task in tasks_for(asked, store)]
    plan = CallRecord(
        attacks=tuple(task.record.key for task in tasks),
        spans=spans_of(ready.work.index),
        created=now(),
        command=command_line(),
        warnings=tuple(ready.warnings),
    )
    store.add([task.record for task in tasks], plan)
    return tasks


def _places(workers: int | None, devices: Sequence[str] | None, model: Classifier) -> list[str]:
    """The device of each worker; none where this process works alone."""
    if devices is None:
        return [str(model.device)] * workers if workers is not None and workers > 1 else []
    count = max(workers or 0, len(devices))
    return [devices[number % len(devices)] for number in range(count)]


def _question(ready: Prepared, seed: int, manner: Manner, pairs: float) -> Question:
    """What a diagnosis beside the evaluation asks, which takes at most so many ``pairs`` of passes a sample."""
    plans = [task.attack.plans[task.search] for task in ready.tasks]
    return question_of(ready.work, ready.attacks, plans, seed, manner.batch_size, passes=_USUAL * 2 * pairs)


def _work_through(
    desk: Desk, ready: Prepared, tasks: Sequence[Task], manner: Manner, places: Sequence[str] | Cluster
) -> None:
    """Have the work of the desk done: by this process where there are no ``places``."""
    size, device = manner.batch_size, ready.model.device
    fewer = size > 1 and not manner.halves
    try:
        if not places:
            work_here(Doer(ready.model, tasks, manner).do, desk)
        else:
            shape, threads = ready.work.rows.shape[1:], torch.get_num_threads()
            each = 1 if isinstance(places, Cluster) else max(1, threads // len(places))
            make = partial(doing_elsewhere, ready.model, tuple(tasks), manner, ready.identity, shape)
            work_elsewhere(make, f"The model {ready.model.name}", places, each, desk)
    except Exception as error:
        if not ran_out(error):
            raise
        advice = f"a batch size of {size // 2}" if fewer else "a smaller network, or on another device"
        raise UserError(
            f"{device} ran out of memory with {counted(1 if manner.halves else size, 'sample')} at work at once; run "
            f"the same again with {advice}. Finished parts of the run are kept."
        ) from error


def _probe(attacks: Sequence[Attack], x: Tensor) -> None:
    """Refuse sets that would make a model look robust by rejecting what an attack finds."""
    for attack in attacks:
        sized = attack.nested and not attack.judges_last
        found = probe(attack.threat, x, attack.strengths, nested=sized, contains_clean=attack.contains_clean)
        if found:
            raise UserError(f"Attack {attack.name!r} cannot be trusted: {found[0]}")


def _probed(model: Classifier, images: Tensor) -> Tensor:
    return images.to(model.device, model.dtype)


def _seconds_of_a_pair(model: Classifier, work: Work) -> float:
    """Seconds that the forward and backward pass of one sample take."""
    x = _probed(model, work.rows[:8]).requires_grad_(model.knowledge == "gradients")
    begun = time.perf_counter()
    logits = model.logits(x)
    if x.requires_grad and logits.requires_grad:
        torch.autograd.grad(logits.sum(), x, allow_unused=True)
    return (time.perf_counter() - begun) / len(x)


def _rejections(result: Result, attack: Attack) -> str | None:
    """A sentence where verification refused more of what a search took for examples than it confirmed."""
    outcome = result.outcome(attack.name)
    found = int(np.isfinite(outcome.minimal_size[result.clean]).sum())
    if outcome.rejected <= found:
        return None
    return (
        f"Verification rejected {outcome.rejected} candidates of {attack.name!r} ({found} samples have a confirmed "
        "example): they lie outside of [0, 1] or are classified correctly when looked at again, so the robust "
        "accuracies under it may be too high."
    )
