"""The unit of work of a run: a task, a chunk of samples, and the rows that come of it.

A :class:`Task` is an attack or a certificate. A run that lacks rows of it hands out its samples in chunks, here or to
workers, and stores the rows of each chunk as soon as it is finished.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.data import as_inputs
from robustatlas.evaluation.identity import ModelProbe
from robustatlas.evaluation.samples import ChosenSamples
from robustatlas.evaluation.workers.memory import hand_back
from robustatlas.models.classifier import Classifier, undisturbed
from robustatlas.outcomes.outcome import Integers
from robustatlas.outcomes.parts import AdversarialExamples

Columns = dict[str, NDArray[Any]]
"""Name of a column -> one value or one row of values for each sample."""
Report = Callable[[int], None]
"""A function that is called with the number of samples of a chunk that are finished, whenever it changes."""


@dataclass(frozen=True)
class ChunkSettings:
    """Settings of the work on chunks. Only the seed changes numbers.

    Attributes:
        seed: seed of all random numbers.
        batch_size: inputs in the batch: one for each sample, or several points of a sweep of one sample.
        halves: True if the batch is halved when it does not fit into memory.
        keep_adversarial: True if adversarial examples are stored.
        kept: bytes per sample that a forward pass keeps for the backward pass, as far as known.
    """

    seed: int
    batch_size: int
    halves: bool = False
    keep_adversarial: bool = False
    kept: float = 0.0


@dataclass(frozen=True)
class Chunk:
    """Samples of one task, with the inputs that it needs.

    Attributes:
        number: number that tells chunks of one evaluation from each other.
        task: position of the task.
        stored: ``[M, ...]`` images as :meth:`robustatlas.data.Rows.stored` returns them.
        labels: ``[M]`` labels.
        index: ``[M]`` positions in the data set.
    """

    number: int
    task: int
    stored: Tensor
    labels: Tensor
    index: Integers

    @classmethod
    def cut(cls, samples: ChosenSamples, rows: Integers, number: int = 0, task: int = 0) -> Chunk:
        """Return the chunk of ``samples`` at ``rows`` [M]."""
        at = torch.from_numpy(rows)
        return cls(number, task, samples.rows.read(at), samples.labels[at], samples.index[rows])

    def inputs(self, model: Classifier) -> tuple[Tensor, Tensor]:
        """Return the images [M, ...] in [0, 1] and the labels [M] on the device of ``model``."""
        x = as_inputs(self.stored.to(model.device)).to(model.dtype)
        return x, self.labels.to(model.device)


@dataclass(frozen=True)
class ChunkResult:
    """The rows that came of a chunk.

    Attributes:
        columns: rows of the task: ``OUTCOME_COLUMNS``, or those of a certificate.
        samples: clean outcomes: ``SAMPLE_COLUMNS``.
        examples: adversarial examples, if they are stored.
        circumstances: device and versions with which the rows were computed.
        seconds: wall-clock time.
        batch_size: batch size that memory allowed.
    """

    columns: Columns
    samples: Columns
    examples: AdversarialExamples | None
    circumstances: dict[str, str]
    seconds: float
    batch_size: int


class Task(ABC):
    """One attack or one certificate, and the record under which a run keeps its rows.

    Attributes:
        record: record of the attack or the certificate.
    """

    record: Any

    @property
    @abstractmethod
    def stored_columns(self) -> tuple[str, ...]:
        """Columns that the progress bar needs of rows that a run has already."""

    @property
    @abstractmethod
    def inputs_per_sample(self) -> int:
        """Number of inputs whose memory one sample takes."""

    @abstractmethod
    def run(self, model: Classifier, chunk: Chunk, settings: ChunkSettings, report: Report) -> ChunkResult:
        """Return the rows of the samples of a chunk."""

    @abstractmethod
    def cost_weight(self, classes: int) -> float:
        """Return the work that a sample may take at most, relative to the other tasks of the same run."""


class RowStore(Protocol):
    """The part of a run that holds the rows of its tasks: of its attacks, or of its certificates."""

    def stored_samples(self, record: Any, *, examples: bool = False) -> Integers:
        """Return the positions in the data set of the samples that have rows."""

    def columns(self, record: Any, index: Integers, wanted: Sequence[str] = ...) -> Columns:
        """Return columns of the rows of some samples."""

    def write(
        self,
        record: Any,
        columns: Mapping[str, NDArray[Any]],
        samples: Mapping[str, NDArray[Any]],
        examples: Any = ...,
        about: Mapping[str, str] | None = ...,
    ) -> None:
        """Store the rows of a chunk."""

    def can_read_records(self, records: Any) -> bool:
        """Return if every stored part can be read; those that cannot count as missing from now on."""


class ChunkRunner:
    """Runs chunks of several tasks one after the other, and remembers the batch size that memory allowed for each.

    Args:
        model: classifier under test.
        tasks: tasks, in the order that chunks number them.
        settings: settings of all chunks.
    """

    def __init__(self, model: Classifier, tasks: Sequence[Task], settings: ChunkSettings) -> None:
        self.model, self.tasks = model, tasks
        self._settings = [settings] * len(tasks)

    def run(self, chunk: Chunk, report: Report = lambda finished: None) -> ChunkResult:
        """Return the rows of a chunk."""
        settings = self._settings[chunk.task]
        result = self.tasks[chunk.task].run(self.model, chunk, settings, report)
        self._settings[chunk.task] = replace(settings, batch_size=result.batch_size)
        hand_back()
        return result


@dataclass(frozen=True)
class ModelWorkload:
    """The workload of a worker that evaluates or certifies a model.

    Attributes:
        runner: runs the chunks, with the worker's own copy of the model.
        probe: logits and gradients that the copy must give.
    """

    runner: ChunkRunner
    probe: ModelProbe

    def difference(self) -> str | None:
        """Return a sentence if the copy is another model than the one that was sent."""
        model = self.runner.model
        with undisturbed(), model.evaluating():
            return self.probe.difference(model)

    def do(self, chunk: Chunk, report: Report) -> ChunkResult:
        """Return the rows of a chunk."""
        with undisturbed(), self.runner.model.evaluating():
            return self.runner.run(chunk, report)


def join_rows(parts: Sequence[Columns], order: Integers) -> Columns:
    """Join the rows of several parts and put them into an order [N]."""
    return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}
