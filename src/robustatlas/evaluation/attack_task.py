"""The task of an attack: it attacks the samples of a chunk and turns what the engine found into rows of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from robustatlas import engine
from robustatlas.attacks.definition import Attack, Search
from robustatlas.attacks.passes import maximal_passes
from robustatlas.attacks.search import search_named
from robustatlas.common.bundle import take_rows
from robustatlas.common.noise import Noise
from robustatlas.engine.numerics import JUDGED
from robustatlas.engine.records import Records, check_finite
from robustatlas.engine.typical import enter_draws, look_at_draws
from robustatlas.evaluation.chunks import Chunk, ChunkResult, ChunkSettings, Columns, Report, Task, join_rows
from robustatlas.evaluation.memory import forget, ran_out
from robustatlas.models.classifier import Classifier, seeded
from robustatlas.models.classifier.rejection import fold_rejection
from robustatlas.models.objectives import margin_of
from robustatlas.outcomes.identity import circumstances
from robustatlas.outcomes.outcome import Booleans, Floats, Integers
from robustatlas.outcomes.parts import AdversarialExamples
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.strengths import snap_sizes
from robustatlas.threats.levels import apply_threat, check_levels, round_to_levels


@dataclass(frozen=True)
class CertifiedBefore:
    """Sizes within which certificates of the same run say that no adversarial example exists.

    Attributes:
        index: ``[K]`` positions in the data set, increasing.
        sizes: ``[K]`` certified sizes.
    """

    index: Integers
    sizes: Floats

    def sizes_of_samples(self, index: Integers) -> Floats:
        """Return the certified sizes of the samples ``index`` [M]; 0 for samples without a certificate."""
        place = np.searchsorted(self.index, index).clip(max=len(self.index) - 1)
        return np.where(self.index[place] == index, self.sizes[place], 0.0)


@dataclass(frozen=True)
class AttackTask(Task):
    """One attack at some strengths by one search.

    Attributes:
        attack: the attack, bound to the model and the data.
        search: the search over its strengths.
        record: record that determines its numbers.
        certified: sizes within which the search makes no runs; None if nothing is certified.
    """

    attack: Attack
    search: Search
    record: AttackRecord
    certified: CertifiedBefore | None = field(default=None, compare=False)

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """Columns that the progress bar needs of stored rows."""
        return ("minimal_size", "seconds", *(() if self.record.monotone else ("fooled",)))

    @property
    def inputs_per_sample(self) -> int:
        """Number of inputs whose memory one sample takes: searches that share examples keep one per strength."""
        return len(self.attack.strengths) + 1 if search_named(self.search).shares else 1

    def cost_weight(self, classes: int) -> float:
        """Return the pairs of a forward and a backward pass that a sample takes at most."""
        return self.pass_pairs(classes, maximal_passes)

    def pass_pairs(self, classes: int, passes: Callable[..., int]) -> float:
        """Return the pairs of a forward and a backward pass of a sample, by a rule that counts the ``passes`` of a
        plan: :func:`~robustatlas.attacks.passes.maximal_passes` or ``expected_passes``."""
        strengths = len(self.attack.strengths)
        searched = passes(self.attack.plan(self.search), self.search, strengths, classes, self.attack.threat.chooses)
        return (searched + strengths * self.attack.typical) / 2

    def run(self, model: Classifier, chunk: Chunk, settings: ChunkSettings, report: Report) -> ChunkResult:
        """Attack the samples of a chunk; a batch that does not fit into memory is halved, and finished samples stay."""
        begun = time.perf_counter()
        x, labels = chunk.inputs(model)
        if self.attack.eight_bit:
            check_levels(x)
        waiting, batch_size = np.arange(len(chunk.index)), settings.batch_size
        finished: list[_FinishedRows] = []
        with seeded(settings.seed, model.device):
            while len(waiting):
                before, rows = len(chunk.index) - len(waiting), torch.from_numpy(waiting).to(x.device)
                # A copy of all samples would double the memory of a chunk, so the first batch takes them as they are.
                images, truth = (x[rows], labels[rows]) if before else (x, labels)
                index, counted = chunk.index[waiting], _add_finished_samples(before, report)
                batch = _AttackedBatch.attack(self, model, images, truth, index, settings, batch_size, counted)
                if not batch.fits:
                    batch_size = max(1, min(batch_size, len(index)) // 2)
                if batch.settled.any():
                    rows_of_chunk = waiting[batch.settled]
                    finished.append(batch.finished_rows(rows_of_chunk, batch_size, settings.keep_adversarial))
                waiting, fits = waiting[~batch.settled], batch.fits
                del batch
                if not fits:
                    forget(model.device)
        order = np.argsort(np.concatenate([each.rows for each in finished]))
        columns = join_rows([each.columns for each in finished], order)
        samples = join_rows([each.samples for each in finished], order)
        seconds = time.perf_counter() - begun
        columns["seconds"] = np.full(len(order), seconds / len(order))
        about = circumstances(device=str(model.device), threads=str(torch.get_num_threads()))
        examples = [each.examples for each in finished if each.examples is not None]
        return ChunkResult(columns, samples, _join_examples(examples), about, seconds, batch_size)


@dataclass(frozen=True)
class _FinishedRows:
    """Rows of samples whose search has ended.

    Attributes:
        rows: ``[M]`` positions in the chunk.
        columns: outcomes.
        samples: clean outcomes.
        examples: adversarial examples, if they are stored.
    """

    rows: Integers
    columns: Columns
    samples: Columns
    examples: AdversarialExamples | None


@dataclass(frozen=True)
class _AttackedBatch:
    """Samples of a chunk under attack, as far as memory allowed.

    Attributes:
        task, model: the attack and the classifier under test.
        index: ``[M]`` positions in the data set.
        records: what the engine recorded; None if memory ran out before the first step.
        settled: ``[M]`` samples whose search has ended; what is known of them is final.
        typical: ``[M, S]`` shares of random draws that are classified correctly, if the attack asks for them.
        fits: False if memory ran out.
    """

    task: AttackTask
    model: Classifier
    index: Integers
    records: Records | None
    settled: Booleans
    typical: Tensor | None
    fits: bool

    @classmethod
    def attack(
        cls,
        task: AttackTask,
        model: Classifier,
        x: Tensor,
        labels: Tensor,
        index: Integers,
        settings: ChunkSettings,
        batch_size: int,
        report: Report,
    ) -> _AttackedBatch:
        """Attack samples ``x`` [M, ...]. If memory runs out and the batch may be halved, return what is finished."""
        attack, gradient = task.attack, task.record.gradient
        # Smoothed by what the run recorded when the model was first measured, wherever this chunk is attacked.
        attacked = model if gradient is None else model.with_smoothing(gradient.kinks)
        attacked = attacked.with_errors(attack.errors)
        noise = Noise.for_samples(settings.seed, torch.from_numpy(index).to(x.device), attack.name)
        records, draws, fits = None, None, True
        settled = np.zeros(len(index), np.bool_)
        certified = None if task.certified is None else torch.from_numpy(task.certified.sizes_of_samples(index)).to(x)
        try:
            setting = engine.Setting(attacked, attack, task.search, x, labels, noise, batch_size, certified)
            execution = engine.begin(setting)
            if attack.typical:
                draws = look_at_draws(execution)
            records = execution.records
            engine.run(setting, report, execution)
        except Exception as error:
            if not settings.halves or min(batch_size, len(index)) == 1 or not ran_out(error):
                raise
            fits = False
        if records is not None:
            settled = execution.schedule.done.cpu().numpy()
            if draws is not None:
                enter_draws(execution, draws)
        typical = None if draws is None else draws.right
        return cls(task, model, index, records, settled, typical, fits)

    def finished_rows(self, rows: Integers, batch_size: int, keep_adversarial: bool) -> _FinishedRows:
        """Return the rows of the settled samples, which stand at ``rows`` [M] of the chunk."""
        columns, samples = self._outcomes(batch_size)
        if not keep_adversarial:
            return _FinishedRows(rows, columns, samples, None)
        examples = self._adversarial_examples()
        columns["as_file"] = self._examples_as_files(examples, batch_size)
        return _FinishedRows(rows, columns, samples, examples)

    @property
    def _recorded(self) -> Records:
        assert self.records is not None
        return self.records

    def _outcomes(self, batch_size: int) -> tuple[Columns, Columns]:
        """Return the outcomes and the clean outcomes of the settled samples."""
        model, attack, records, rows = self.model, self.task.attack, self._recorded, np.flatnonzero(self.settled)
        check_finite(attack, bool(records.finite))
        columns = _outcome_columns(self.task.record, attack, records, self.index)
        if records.queries.shape[1]:
            columns["queries"] = _queries(columns, records, np.array(self.task.record.strengths))
        if self.typical is not None:
            columns["typical"] = self.typical.double().cpu().numpy()
        if model.draws is not None:
            columns |= _columns_of_draws(columns, records)
        if attack.plan(self.task.search).has_smoothed_runs:
            true, found = records.true_size.double().cpu().numpy(), columns["minimal_size"]
            columns["true_size"] = np.where(found > 0, np.maximum(true, found), 0.0)
        if self.task.certified is not None:
            columns["saved"] = records.saved.cpu().numpy()
        samples = join_rows([_clean_columns(records, self.index)], rows)
        if (model.rejection is not None or attack.errors == "improbable") and model.draws is None:
            chosen = slice(None) if self.settled.all() else torch.from_numpy(rows).to(records.x.device)
            samples |= clean_answers(model, records.x[chosen], records.labels[chosen], batch_size)
        return join_rows([columns], rows), samples

    def _adversarial_examples(self) -> AdversarialExamples:
        """Return the positions in the data set and the inputs of the examples found of the settled samples."""
        records, attack = self._recorded, self.task.attack
        broken = records.best_size.isfinite() & torch.from_numpy(self.settled).to(records.x.device)
        rows = broken.nonzero().squeeze(1)
        theta = take_rows(records.best_theta, rows)
        images = apply_threat(attack.threat, records.x[rows], theta, attack.eight_bit) if len(rows) else records.x[:0]
        return self.index[rows.cpu().numpy()], images.detach().float().cpu().numpy()

    def _examples_as_files(self, examples: AdversarialExamples, batch_size: int) -> Integers:
        """Return for each settled sample [M] 1 if its example is still misclassified after rounding to 8 bits, -1 if it
        is not, and 0 if it has no example."""
        records, index = self._recorded, self.index[self.settled]
        found = np.zeros(len(index), np.int64)
        rows = torch.from_numpy(np.flatnonzero(np.isin(self.index, examples[0]))).to(records.x.device)
        model = self.model.with_errors(self.task.attack.errors)
        rounded = round_to_levels(torch.from_numpy(examples[1])).to(records.x)
        wrong = []
        for images, chosen in zip(torch.split(rounded, batch_size), torch.split(rows, batch_size), strict=True):
            with torch.no_grad():
                noise = records.noise.take(chosen).child(JUDGED)
                wrong.append(model.judge(images, records.labels[chosen], noise).wrong.cpu())
        if wrong:
            found[np.isin(index, examples[0])] = np.where(torch.cat(wrong).numpy(), 1, -1)
        return found


def _add_finished_samples(before: int, report: Report) -> Report:
    """Return a report that counts the ``before`` samples of a chunk that were finished earlier."""
    return lambda more: report(before + more)


def _join_examples(parts: Sequence[AdversarialExamples]) -> AdversarialExamples | None:
    if not parts:
        return None
    return np.concatenate([index for index, _ in parts]), np.concatenate([images for _, images in parts])


def _clean_columns(records: Records, index: Integers) -> Columns:
    return {
        "index": index,
        "label": records.labels.cpu().numpy(),
        "clean_prediction": records.clean_prediction.cpu().numpy(),
        "clean_margin": records.clean_margin.float().cpu().numpy(),
    }


def clean_answers(model: Classifier, x: Tensor, labels: Tensor, batch: int) -> Columns:
    """Return the predictions and margins of clean inputs, whatever counts as an error in the attack.

    The margin of a model that rejects is that to the classes that it accepts; a column says which inputs it rejects.
    """
    answers = []
    rejects = model.rejection is not None
    for part, truth in zip(torch.split(x, batch), torch.split(labels, batch), strict=True):
        with torch.no_grad():
            logits = model.logits(part, verifying=True)
        margin = margin_of((fold_rejection(logits, truth, "accepted") if rejects else logits).softmax(1), truth)
        classes = logits[:, :-1] if rejects else logits
        answers.append((classes.argmax(1), logits.argmax(1) == logits.shape[1] - 1, margin.float()))
    names = ("clean_prediction", "clean_rejected", "clean_margin")
    columns = {
        name: torch.cat(parts).cpu().numpy() for name, parts in zip(names, zip(*answers, strict=True), strict=True)
    }
    refused = columns.pop("clean_rejected").astype(np.int8)
    return columns | {"clean_rejected": refused} if rejects else columns


def _outcome_columns(record: AttackRecord, attack: Attack, records: Records, index: Integers) -> Columns:
    """Return the outcomes of an attack, one row for each sample.

    If runs are judged by their last iterate, or each strength by itself, the size of a sample is the smallest strength
    that fooled it. Size 0 says that the clean input is misclassified.
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


def _queries(columns: Columns, records: Records, strengths: Floats) -> Integers:
    """Return the queries [N, S] until the first example within each strength; -1 if no example is verified there."""
    size = snap_sizes(columns["minimal_size"], strengths)[:, None]
    seen = np.where(size == 0, 1, records.queries.cpu().numpy())
    return np.where(size <= strengths, seen, -1)


def _columns_of_draws(columns: Columns, records: Records) -> Columns:
    """Return the columns that only randomised models have."""
    possible = records.possible_size.double().cpu().numpy()
    return {
        "possible_size": np.minimum(columns["minimal_size"], possible),
        "mistakes": records.mistakes.cpu().numpy(),
        "drawn": records.drawn.cpu().numpy(),
    }
