"""The work itself: one attack on some samples, part by part, each part published when it is whole."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas import engine
from robustatlas.attacks.definition import Attack
from robustatlas.bundle import take
from robustatlas.classifier import Classifier
from robustatlas.classifier.rejection import folded
from robustatlas.evaluation.plan import Task, Work
from robustatlas.noise import Noise
from robustatlas.objectives import margin_of
from robustatlas.outcomes.records import AttackRecord, circumstances
from robustatlas.outcomes.store import AdversarialExamples, Run
from robustatlas.progress import Progress
from robustatlas.search import search_named

Arrays = dict[str, NDArray[Any]]

_SECONDS = 45.0
"""Aimed at for a part: the most that a crash loses is about a minute."""

_PASSES = 500
"""Forward and backward pairs a sample that the first part is sized for."""

_SMALLEST, _GROWTH = 16, 4

_BYTES = 2**28
"""Inputs of a part: it holds them twice, as they are and as the smallest examples found."""


@dataclass(frozen=True)
class Manner:
    """How the work is done; none of it changes the numbers but ``seed``.

    ``part``: samples a part, None to aim at equal times; ``pair``: seconds that one sample's forward and backward pass
    take.
    """

    seed: int
    batch_size: int
    keep_adversarial: bool
    part: int | None
    pair: float


def carry_out(
    model: Classifier, run: Run, task: Task, work: Work, missing: NDArray[np.bool_], manner: Manner, display: Progress
) -> None:
    """Attack the ``missing`` [N] samples of ``work`` and publish what is found, part by part."""
    sample = work.images[:1].nbytes * (len(task.attack.strengths) + 1 if task.search == "frontier" else 1)
    for rows in _parts(np.flatnonzero(missing), manner, max(_SMALLEST, _BYTES // max(sample, 1))):
        begun = time.perf_counter()
        ledger = _attacked(model, task, work, rows, manner, partial(display.update, task.record))
        index = work.index[rows]
        seconds = np.full(len(rows), (time.perf_counter() - begun) / len(rows))
        columns = _columns(task.record, task.attack, ledger, index) | {"seconds": seconds}
        if model.draws is not None:
            columns |= _possible(columns, ledger)
        examples = _examples(task.attack, ledger, index) if manner.keep_adversarial else None
        about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
        run.write(task.record, columns, _sample_columns(model, ledger, index, manner), examples, about)
        display.finish(task.record, columns)


def _parts(rows: NDArray[np.int64], manner: Manner, most: int) -> Iterator[NDArray[np.int64]]:
    """``rows`` in parts of equal size, of about as many as the time for one allows, and at most ``most``."""
    size = manner.part or max(_SMALLEST, math.floor(_SECONDS / max(_PASSES * manner.pair, 1e-9)))
    while len(rows):
        size = manner.part or min(size, most)
        count = math.ceil(len(rows) / math.ceil(len(rows) / size))
        begun = time.perf_counter()
        yield rows[:count]
        rows = rows[count:]
        if manner.part is None:
            fitting = math.floor(_SECONDS * count / max(time.perf_counter() - begun, 1e-9))
            size = min(max(_SMALLEST, fitting), _GROWTH * size)


def _attacked(
    model: Classifier, task: Task, work: Work, rows: NDArray[np.int64], manner: Manner, report: Callable[[int], None]
) -> engine.Ledger:
    attack, taken = task.attack, torch.from_numpy(rows)
    model = model.judged_by(attack.errors)
    x = work.images[taken].to(model.device, model.dtype)
    labels = work.labels[taken].to(model.device)
    noise = Noise.of(manner.seed, torch.from_numpy(work.index[rows]).to(x.device), attack.name)
    strengths = torch.tensor(attack.strengths, dtype=x.dtype, device=x.device)
    ledger = engine.open_ledger(model, attack, x, labels, noise, strengths, manner.batch_size)
    todo = torch.ones_like(labels, dtype=torch.bool) if attack.repairs else ledger.clean_prediction == labels
    schedule = search_named(task.search)(attack, strengths, ledger.ranking.shape[1], todo)
    return engine.run(model, attack, ledger, schedule, manner.batch_size, report)


def _sample_columns(model: Classifier, ledger: engine.Ledger, index: NDArray[np.int64], manner: Manner) -> Arrays:
    columns = {
        "index": index,
        "label": ledger.labels.cpu().numpy(),
        "clean_prediction": ledger.clean_prediction.cpu().numpy(),
        "clean_margin": ledger.clean_margin.float().cpu().numpy(),
    }
    if model.rejection is not None and model.draws is None:
        columns |= clean_answers(model, ledger.x, ledger.labels, manner.batch_size)
    return columns


def clean_answers(model: Classifier, x: Tensor, labels: Tensor, batch: int) -> Arrays:
    """What a model that rejects says of clean inputs: its class whether it rejects or not, whether it does, and the
    margin to what is accepted and wrong."""
    answers = []
    for part, truth in zip(torch.split(x, batch), torch.split(labels, batch), strict=True):
        with torch.no_grad():
            logits = model.logits(part, verifying=True)
        margin = margin_of(folded(logits, truth, "accepted").softmax(1), truth)
        answers.append((logits[:, :-1].argmax(1), logits.argmax(1) == logits.shape[1] - 1, margin.float()))
    names = ("clean_prediction", "clean_rejected", "clean_margin")
    columns = {
        name: torch.cat(parts).cpu().numpy() for name, parts in zip(names, zip(*answers, strict=True), strict=True)
    }
    return columns | {"clean_rejected": columns["clean_rejected"].astype(np.int8)}


def _columns(record: AttackRecord, attack: Attack, ledger: engine.Ledger, index: NDArray[np.int64]) -> Arrays:
    """The evidence of a finished ledger.

    Where runs are judged by their last iterate, or each strength by itself, the size of a sample is the smallest
    strength that fooled it; 0 says that its clean input is misclassified.
    """
    strengths = np.array(record.strengths)
    prediction, labels = ledger.clean_prediction.cpu().numpy(), ledger.labels.cpu().numpy()
    mistaken = prediction != labels
    wrong = mistaken & (not attack.repairs)
    judged, found = ledger.fooled.cpu().numpy(), ledger.found_class.cpu().numpy()
    size = ledger.best_size.double().cpu().numpy()
    if attack.judges_last or not record.monotone:
        reached = judged == 1
        size = np.where(reached.any(1), strengths[reached.argmax(1)], np.inf)
    at_zero = wrong if record.monotone else mistaken
    judged[wrong] = 1
    seen = ledger.margins[:, : len(strengths)].double().cpu().numpy()
    margins = np.minimum.accumulate(seen, axis=1) if record.monotone else seen
    margins[wrong] = np.minimum(margins[wrong], ledger.clean_margin.double().cpu().numpy()[wrong, None])
    return {
        "index": index,
        "minimal_size": np.where(at_zero, 0.0, size),
        "found_class": np.where(at_zero, prediction, found),
        "forward": ledger.forward.cpu().numpy(),
        "backward": ledger.backward.cpu().numpy(),
        "rejected": ledger.rejected.cpu().numpy(),
        "margins": np.where(np.isfinite(margins), margins, np.nan).astype(np.float32),
        "fooled": judged,
    }


def _possible(columns: Arrays, ledger: engine.Ledger) -> Arrays:
    """What is added of a randomised model."""
    possible = ledger.possible_size.double().cpu().numpy()
    return {"possible_size": np.minimum(columns["minimal_size"], possible)}


def _examples(attack: Attack, ledger: engine.Ledger, index: NDArray[np.int64]) -> AdversarialExamples:
    rows = ledger.best_size.isfinite().nonzero().squeeze(1)
    images = attack.threat.apply(ledger.x[rows], take(ledger.best_theta, rows)) if len(rows) else ledger.x[:0]
    return index[rows.cpu().numpy()], images.detach().float().cpu().numpy()
