"""``evaluate``: attacks x samples -> the table of a run, with progress and resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from robustatlas.attacks.definition import Attack, Procedure, Search
from robustatlas.bundle import per_sample
from robustatlas.classifier import Classifier, Origin, seeded, undisturbed
from robustatlas.datasets import Dataset
from robustatlas.errors import UserError
from robustatlas.evaluation.checks import check_arguments
from robustatlas.evaluation.plan import (
    Attacks,
    Samples,
    Strengths,
    Task,
    Work,
    chosen_attacks,
    record_of,
    samples_of,
    tasks_for,
    those_that_fit,
)
from robustatlas.evaluation.work import Manner, carry_out
from robustatlas.noise import Noise
from robustatlas.outcomes import Identity, ModelRecord, Plan, Run
from robustatlas.outcomes.records import command_line, now, spans_of
from robustatlas.progress import Progress, progress_shown
from robustatlas.result import Result
from robustatlas.sanity import check_attacks, check_model
from robustatlas.threats.probe import probe
from robustatlas.wording import counted

DEFAULT_BATCH = 256

__all__ = ["DEFAULT_BATCH", "evaluate"]


def evaluate(
    model: Classifier | nn.Module | Callable[[Tensor], Any],
    data: Dataset | tuple[Tensor | NDArray[Any], Tensor | NDArray[Any]],
    attacks: Attacks = ("linf", "l2"),
    search: Search | None = None,
    procedure: Procedure = "default",
    strengths: Strengths | None = None,
    samples: Samples = None,
    seed: int = 0,
    run: str | Path | None = None,
    batch_size: int | None = None,
    *,
    exclude: Sequence[str] = (),
    shard_size: int | None = None,
    keep_adversarial: bool = False,
    progress: bool | Progress | None = None,
) -> Result:
    """Find, for each sample and attack, the smallest strength at which the model errs.

    Args:
        model: a :class:`Classifier`, or a network from inputs in [0, 1] to logits.
        data: a :class:`Dataset`, or images ``[N, ...]`` in [0, 1] and labels ``[N]``.
        attacks: names of the catalogue, names of suites, or :class:`Attack` objects. What a suite has and the data
            cannot take (colour attacks on grey images) is left out with a warning.
        search: ``"descent"`` (whole curves for about the price of one point), ``"bisection"`` (MultiRobustBench) or
            ``"every"`` (each strength by itself) or ``"frontier"`` (lowest margins, for the hypervolume), for all
            attacks; default: what each attack asks for.
        procedure: ``"default"`` (sound sets, strong search) or ``"paper"`` (each attack exactly as its source ran it).
        strengths: increasing strengths per attack; default: the catalogue's grid.
        samples: the first ``samples`` of the data, their positions, or a mask; default: all.
        seed: of all random numbers. Results depend on it and on nothing like batch size, order, parts or resume.
        run: directory to write to. What is in it is kept and never computed again: an interrupted run goes on, and a
            finished one can be given more attacks, samples and strengths. ``None``: in memory.
        batch_size: samples at work at once (default 256); halve it where memory runs out.
        exclude: names of attacks to leave out of the suites.
        shard_size: samples per file, the most that a crash can lose (default: about 45 seconds of work).
        keep_adversarial: keep the smallest adversarial example of each sample.
        progress: show a progress bar (default: where standard error is a terminal), or an object of your own.

    Returns:
        the attacks, samples and strengths asked for; :func:`load_result` reads all that a run directory holds.

    Raises:
        UserError: what was given does not fit, in one sentence.

    Example:
        >>> net = nn.Sequential(nn.Flatten(), nn.Linear(4, 3))
        >>> data = (torch.rand(5, 1, 2, 2), torch.tensor([0, 1, 2, 0, 1]))
        >>> result = evaluate(net, data, attacks="linf", strengths={"linf": [0.1, 0.5]})
        >>> result.minimal_size("linf").shape
        (5,)
    """
    check_arguments(
        seed=seed,
        run=run,
        batch_size=batch_size,
        exclude=exclude,
        shard_size=shard_size,
        keep_adversarial=keep_adversarial,
        progress=progress,
    )
    with undisturbed():
        classifier = model if isinstance(model, Classifier) else Classifier(model)
        work = samples_of(data, samples)
    size = min(batch_size or DEFAULT_BATCH, len(work.labels))
    precision = classifier.precision if classifier.dtype == torch.float32 else "float64"
    with (
        undisturbed(),
        seeded(seed, classifier.device),
        classifier.evaluating(),
        progress_shown(progress) as display,
    ):
        asked = chosen_attacks(attacks, procedure, strengths, exclude, classifier)
        searches = {attack.name: attack.searched_by(search) for attack in asked}
        warnings = check_attacks(classifier, asked, work.images) + check_model(classifier, work.images, work.labels)
        asked, left_out = those_that_fit(asked, attacks, _probed(classifier, work.images[:1]))
        _probe(asked, _probed(classifier, work.images[:4]))
        for warning in [*warnings, *left_out]:
            display.warn(warning)
        store = Run.begin(run, identity_of(classifier, work))
        tasks = [
            task
            for attack in asked
            for task in tasks_for(
                Task(
                    attack, searches[attack.name], record_of(attack, searches[attack.name], seed, precision, classifier)
                ),
                store,
            )
        ]
        plan = Plan(
            attacks=tuple(task.record.key for task in tasks),
            spans=spans_of(work.index),
            created=now(),
            command=command_line(),
            warnings=(*warnings, *left_out),
        )
        store.add([task.record for task in tasks], plan)
        try:
            pair = _seconds_of_a_pair(classifier, work)
            manner = Manner(seed, size, keep_adversarial, shard_size, pair)
            _carry_out_all(classifier, store, tasks, work, manner, display)
        except torch.OutOfMemoryError as error:
            advice = f"a batch size of {size // 2}" if size > 1 else "a smaller network, or on another device"
            raise UserError(
                f"{classifier.device} ran out of memory with {counted(size, 'sample')} at work at once; run the same "
                f"again with {advice}. Finished parts of the run are kept."
            ) from error
        grids = {attack.name: attack.strengths for attack in asked}
        result = Result.of_run(store, list(grids), work.index, grids)
        for attack in asked:
            if sentence := _rejections(result, attack):
                display.warn(sentence)
    return result


def _carry_out_all(
    model: Classifier, run: Run, tasks: Sequence[Task], work: Work, manner: Manner, display: Progress
) -> None:
    display.begin([task.record for task in tasks], len(work.index))
    lacking = False
    for task in tasks:
        missing = ~np.isin(work.index, run.done(task.record, examples=manner.keep_adversarial))
        if not missing.all():
            display.finish(task.record, run.columns(task.record, work.index[~missing]))
        lacking = lacking or bool(missing.any())
        carry_out(model, run, task, work, missing, manner, display)
    if not lacking:
        display.note(f"Nothing to do: {run.path or 'the run'} has all of it, results of {run.identity.created}.")


def _probe(attacks: Sequence[Attack], x: Tensor) -> None:
    """Refuse sets that would make a model look robust by rejecting what an attack finds."""
    for attack in attacks:
        sized = attack.nested and not attack.judges_last
        found = probe(attack.threat, x, attack.strengths, nested=sized, contains_clean=attack.contains_clean)
        if found:
            raise UserError(f"Attack {attack.name!r} cannot be trusted: {found[0]}")


def _probed(model: Classifier, images: Tensor) -> Tensor:
    return images.to(model.device, model.dtype)


def identity_of(model: Classifier, work: Work) -> Identity:
    """What the run is about, with the logits of a few drawn images shaped like the data, from bright to dark."""
    index = torch.arange(8)
    drawn = Noise.of(0, index, "probe").uniform(*work.images.shape[1:])
    images = _probed(model, drawn ** per_sample(2.0 ** (index - 3.5), drawn))
    with torch.no_grad():
        logits = model.logits(images, verifying=True)
    known, origin = model.identity(), model.origin or Origin("")
    return Identity(
        model=ModelRecord(
            name=model.name,
            source=known.source or "",
            weights_sha256=known.weights_sha256,
            code_sha256=known.code_sha256,
            probe=tuple(tuple(row) for row in logits.double().cpu().tolist()),
            licence=origin.licence,
            home=origin.home,
            library=origin.library,
        ),
        data=work.record,
        created=now(),
    )


def _seconds_of_a_pair(model: Classifier, work: Work) -> float:
    """Seconds that the forward and backward pass of one sample take."""
    x = _probed(model, work.images[:8]).requires_grad_(model.knowledge == "gradients")
    begun = time.perf_counter()
    logits = model.logits(x)
    if x.requires_grad:
        torch.autograd.grad(logits.sum(), x)
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
