"""The work itself: one attack on some samples, by whoever does it and wherever."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas import engine
from robustatlas.attacks.definition import Attack
from robustatlas.common.bundle import take
from robustatlas.common.noise import Noise
from robustatlas.data import as_inputs
from robustatlas.engine.numerics import JUDGED
from robustatlas.engine.records import Records, check_finite
from robustatlas.engine.typical import typical_accuracies
from robustatlas.evaluation.identity import ModelProbe
from robustatlas.evaluation.memory import forget, ran_out
from robustatlas.evaluation.plan import Task, Work
from robustatlas.evaluation.workers import Do, Report
from robustatlas.evaluation.workers.memory import hand_back
from robustatlas.models.classifier import Classifier, seeded, undisturbed
from robustatlas.models.classifier.rejection import folded
from robustatlas.models.objectives import margin_of
from robustatlas.outcomes.circumstances import circumstances
from robustatlas.outcomes.parts import AdversarialExamples
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.strengths import snapped
from robustatlas.threats.levels import as_file, check_levels, shown

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Manner:
    """How the work is done; none of it changes the numbers but ``seed``. ``batch_size``: inputs at work at once, of one
    sample each, or several points of a sweep. ``halves``: half of that where memory runs out. ``kept``: bytes that a
    forward pass keeps of a sample, as far as known."""

    seed: int
    batch_size: int
    halves: bool = False
    keep_adversarial: bool = False
    kept: float = 0.0


@dataclass(frozen=True)
class Job:
    """A part of a task, with all that is needed to do it: ``stored`` [M, ...] as :meth:`Rows.stored` gives them,
    ``labels`` [M], and ``index`` [M] in the data set. ``number`` tells jobs from one another."""

    number: int
    task: int
    stored: Tensor
    labels: Tensor
    index: NDArray[np.int64]

    @classmethod
    def of(cls, work: Work, rows: NDArray[np.int64], number: int = 0, task: int = 0) -> Job:
        """The samples at some rows [M] of the work."""
        at = torch.from_numpy(rows)
        return cls(number, task, work.rows.stored(at), work.labels[at], work.index[rows])


@dataclass(frozen=True)
class Found:
    """What came of a job: outcomes (OUTCOME_COLUMNS), clean outcomes (SAMPLE_COLUMNS), examples where they are kept;
    ``about``: where and with what it was computed; ``seconds`` that it took; ``batch_size`` that memory allowed."""

    columns: Arrays
    samples: Arrays
    examples: AdversarialExamples | None
    about: dict[str, str]
    seconds: float
    batch_size: int


def done(model: Classifier, task: Task, job: Job, manner: Manner, report: Callable[[int], None]) -> Found:
    """Attack the samples of a job; ``report`` is called with how many are through, whenever that changes."""
    begun = time.perf_counter()
    x = as_inputs(job.stored.to(model.device)).to(model.dtype)
    labels = job.labels.to(model.device)
    if task.attack.eight_bit:
        check_levels(x)
    waiting, slots = np.arange(len(job.index)), manner.batch_size
    places: list[NDArray[np.int64]] = []
    pieces: list[tuple[Arrays, Arrays]] = []
    examples: list[AdversarialExamples] = []
    with seeded(manner.seed, model.device):
        while len(waiting):
            through = len(job.index) - len(waiting)
            if through:
                rows = torch.from_numpy(waiting).to(x.device)
                batch = _Batch(model, task, x[rows], labels[rows], job.index[waiting], manner.seed)
            else:
                batch = _Batch(model, task, x, labels, job.index, manner.seed)
            whole = batch.run(slots, manner.halves, report, through)
            settled = batch.settled()
            if not whole:
                slots = max(1, min(slots, len(settled)) // 2)
            if settled.any():
                places.append(waiting[settled])
                pieces.append(batch.found(settled, slots))
                if manner.keep_adversarial:
                    examples.append(batch.examples(settled))
                    pieces[-1][0]["as_file"] = batch.as_files(examples[-1], settled, slots)
            waiting = waiting[~settled]
            if not whole:
                del batch
                forget(model.device)
    order = np.argsort(np.concatenate(places))
    columns, samples = (_stacked([piece[kind] for piece in pieces], order) for kind in (0, 1))
    seconds = time.perf_counter() - begun
    columns["seconds"] = np.full(len(order), seconds / len(order))
    about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
    return Found(columns, samples, _joined(examples), about, seconds, slots)


class Doer:
    """Does the jobs of some tasks one after the other, and remembers what memory allowed."""

    def __init__(self, model: Classifier, tasks: Sequence[Task], manner: Manner) -> None:
        self.model, self.tasks = model, tasks
        self._manners = [manner] * len(tasks)

    def do(self, job: Job, report: Callable[[int], None] = lambda through: None) -> Found:
        """Do a job; ``report`` is called with how many of its samples are through, whenever that changes."""
        manner = self._manners[job.task]
        found = done(self.model, self.tasks[job.task], job, manner, report)
        self._manners[job.task] = replace(manner, batch_size=found.batch_size)
        hand_back()
        return found


@dataclass(frozen=True)
class ModelWork:
    """The workload of a worker that evaluates or certifies a model.

    Attributes:
        model: the copy of the worker, which `do_chunk` uses too.
        probe: what the copy must answer.
        do_chunk: does one chunk.
    """

    model: Classifier
    probe: ModelProbe
    do_chunk: Do

    def difference(self) -> str | None:
        """Return a sentence if the copy is another model than the one that was sent."""
        with undisturbed(), self.model.evaluating():
            return self.probe.difference(self.model)

    def do(self, job: Job, report: Report) -> Found:
        """Return what was found of the samples of a chunk."""
        with undisturbed(), self.model.evaluating():
            found: Found = self.do_chunk(job, report)
            return found


class _Batch:
    """The samples of a job at work under one attack: ``x`` [M, ...], ``labels`` [M], ``index`` [M]."""

    def __init__(
        self, model: Classifier, task: Task, x: Tensor, labels: Tensor, index: NDArray[np.int64], seed: int
    ) -> None:
        self.model, self.task, self.x, self.labels, self.index, self.seed = model, task, x, labels, index, seed
        self.records: Records  # from the run on
        self.typical: Tensor | None = None
        self.through: Tensor | None = None

    def run(self, slots: int, halves: bool, report: Callable[[int], None], before: int) -> bool:
        """Do the work; False where ``halves`` allows to stop because memory ran out, and fewer slots are possible;
        ``before``: samples of the job that were through already."""
        attack, search, gradient = self.task.attack, self.task.search, self.task.record.gradient
        # Smoothed by what the run recorded when the model was first measured, wherever this part is done.
        model = self.model if gradient is None else self.model.smoothed_by(gradient.kinks)
        model = model.judged_by(attack.errors)
        try:
            noise = Noise.of(self.seed, torch.from_numpy(self.index).to(self.x.device), attack.name)
            sizes = self.task.certified_at(self.index)
            certified = None if sizes is None else torch.from_numpy(sizes).to(self.x)
            setting = engine.Setting(model, attack, search, self.x, self.labels, noise, slots, certified)
            execution = engine.begin(setting)
            if attack.typical:
                self.typical = typical_accuracies(model, attack, execution.records, slots)
            self.records, self.through = execution.records, execution.schedule.done
            engine.run(setting, lambda more: report(before + more), execution)
        except Exception as error:
            if not halves or min(slots, len(self.index)) == 1 or not ran_out(error):
                raise
            return False
        return True

    def settled(self) -> NDArray[np.bool_]:
        """``[M]``: samples that are through; what is known of them is final."""
        if self.through is None:
            return np.zeros(len(self.index), np.bool_)
        return self.through.cpu().numpy()

    def found(self, settled: NDArray[np.bool_], slots: int) -> tuple[Arrays, Arrays]:
        """Outcomes and clean outcomes of the settled samples."""
        model, records, rows = self.model, self.records, np.flatnonzero(settled)
        check_finite(self.task.attack, bool(records.finite))
        columns = _columns(self.task.record, self.task.attack, records, self.index)
        if records.queries.shape[1]:
            columns["queries"] = _queries(columns, records, np.array(self.task.record.strengths))
        if self.typical is not None:
            columns["typical"] = self.typical.double().cpu().numpy()
        if model.draws is not None:
            columns |= _drawn(columns, records)
        if self.task.attack.plan(self.task.search).has_smoothed_runs:
            true, found = records.true_size.double().cpu().numpy(), columns["minimal_size"]
            columns["true_size"] = np.where(found > 0, np.maximum(true, found), 0.0)
        if self.task.certified is not None:
            columns["saved"] = records.saved.cpu().numpy()
        samples = _stacked([_sample_columns(records, self.index)], rows)
        if (model.rejection is not None or self.task.attack.errors == "improbable") and model.draws is None:
            taken = slice(None) if settled.all() else torch.from_numpy(rows).to(records.x.device)
            samples |= clean_answers(model, records.x[taken], records.labels[taken], slots)
        return _stacked([columns], rows), samples

    def examples(self, settled: NDArray[np.bool_]) -> AdversarialExamples:
        """Positions in the data set and inputs of the examples found of the settled samples."""
        records, attack = self.records, self.task.attack
        broken = records.best_size.isfinite() & torch.from_numpy(settled).to(records.x.device)
        rows = broken.nonzero().squeeze(1)
        theta = take(records.best_theta, rows)
        images = shown(attack.threat, records.x[rows], theta, attack.eight_bit) if len(rows) else records.x[:0]
        return self.index[rows.cpu().numpy()], images.detach().float().cpu().numpy()

    def as_files(self, examples: AdversarialExamples, settled: NDArray[np.bool_], slots: int) -> NDArray[np.int64]:
        """``[M]`` of the settled samples: 1 where the example still is one as an 8-bit file holds it, -1 where it is
        not, 0 where there is none."""
        records, index = self.records, self.index[settled]
        found = np.zeros(len(index), np.int64)
        rows = torch.from_numpy(np.flatnonzero(np.isin(self.index, examples[0]))).to(records.x.device)
        model = self.model.judged_by(self.task.attack.errors)
        held = as_file(torch.from_numpy(examples[1])).to(records.x)
        wrong = []
        for part, of in zip(torch.split(held, slots), torch.split(rows, slots), strict=True):
            with torch.no_grad():
                noise = records.noise.take(of).child(JUDGED)
                wrong.append(model.judged(part, records.labels[of], noise).wrong.cpu())
        if wrong:
            found[np.isin(index, examples[0])] = np.where(torch.cat(wrong).numpy(), 1, -1)
        return found


def _stacked(pieces: Sequence[Arrays], order: NDArray[np.int64]) -> Arrays:
    return {name: np.concatenate([piece[name] for piece in pieces])[order] for name in pieces[0]}


def _joined(parts: Sequence[AdversarialExamples]) -> AdversarialExamples | None:
    if not parts:
        return None
    index, images = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    return index, images


def _sample_columns(records: Records, index: NDArray[np.int64]) -> Arrays:
    return {
        "index": index,
        "label": records.labels.cpu().numpy(),
        "clean_prediction": records.clean_prediction.cpu().numpy(),
        "clean_margin": records.clean_margin.float().cpu().numpy(),
    }


def clean_answers(model: Classifier, x: Tensor, labels: Tensor, batch: int) -> Arrays:
    """What a model says of clean inputs, whatever counts as an error in the attack: its class, and the margin to what
    is wrong; of one that rejects, its class and whether it rejects, and the margin to what is accepted and wrong."""
    answers = []
    rejects = model.rejection is not None
    for part, truth in zip(torch.split(x, batch), torch.split(labels, batch), strict=True):
        with torch.no_grad():
            logits = model.logits(part, verifying=True)
        margin = margin_of((folded(logits, truth, "accepted") if rejects else logits).softmax(1), truth)
        classes = logits[:, :-1] if rejects else logits
        answers.append((classes.argmax(1), logits.argmax(1) == logits.shape[1] - 1, margin.float()))
    names = ("clean_prediction", "clean_rejected", "clean_margin")
    columns = {
        name: torch.cat(parts).cpu().numpy() for name, parts in zip(names, zip(*answers, strict=True), strict=True)
    }
    refused = columns.pop("clean_rejected").astype(np.int8)
    return columns | {"clean_rejected": refused} if rejects else columns


def _columns(record: AttackRecord, attack: Attack, records: Records, index: NDArray[np.int64]) -> Arrays:
    """The evidence of a finished records.

    Where runs are judged by their last iterate, or each strength by itself, the size of a sample is the smallest
    strength that fooled it; 0 says that its clean input is misclassified.
    """
    strengths = np.array(record.strengths)
    prediction, labels = records.clean_prediction.cpu().numpy(), records.labels.cpu().numpy()
    mistaken = prediction != labels
    wrong = mistaken & (not attack.repairs)
    judged, found = records.fooled.cpu().numpy(), records.found_class.cpu().numpy()
    size = records.best_size.double().cpu().numpy()
    if attack.judges_last or not record.monotone:
        reached = judged == 1
        size = np.where(reached.any(1), strengths[reached.argmax(1)], np.inf)
    at_zero = wrong if record.monotone else mistaken
    judged[wrong] = 1
    seen = records.margins[:, : len(strengths)].double().cpu().numpy()
    margins = np.minimum.accumulate(seen, axis=1) if record.monotone else seen
    margins[wrong] = np.minimum(margins[wrong], records.clean_margin.double().cpu().numpy()[wrong, None])
    return {
        "index": index,
        "minimal_size": np.where(at_zero, 0.0, size),
        "found_class": np.where(at_zero, prediction, found),
        "true_size": np.full(len(index), -1.0),
        "found_run": np.where(at_zero, -1, records.found_run.cpu().numpy()),
        "forward": records.forward.cpu().numpy(),
        "backward": records.backward.cpu().numpy(),
        "rejected": records.rejected.cpu().numpy(),
        "margins": np.where(np.isfinite(margins), margins, np.nan).astype(np.float32),
        "fooled": judged,
    }


def _queries(columns: Arrays, records: Records, strengths: NDArray[np.float64]) -> NDArray[np.int64]:
    """``[N, S]``: the queries until the first example within a strength, of samples that are verified to be broken
    there."""
    size = snapped(columns["minimal_size"], strengths)[:, None]
    seen = np.where(size == 0, 1, records.queries.cpu().numpy())
    return np.where(size <= strengths, seen, -1)


def _drawn(columns: Arrays, records: Records) -> Arrays:
    """What is added of a randomised model."""
    possible = records.possible_size.double().cpu().numpy()
    return {
        "possible_size": np.minimum(columns["minimal_size"], possible),
        "mistakes": records.mistakes.cpu().numpy(),
        "drawn": records.drawn.cpu().numpy(),
    }
