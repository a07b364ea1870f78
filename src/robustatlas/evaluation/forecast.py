"""What an evaluation will take, before it is begun: measured in seconds on a few samples."""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.attacks.passes import expected_passes, limited_passes
from robustatlas.common.errors import UserError, brief
from robustatlas.common.scalars import real
from robustatlas.evaluation.cores import can_share, cores_for
from robustatlas.evaluation.costs import weight_of
from robustatlas.evaluation.dispatcher import SECONDS, SMALLEST
from robustatlas.evaluation.identity import check_answers
from robustatlas.evaluation.plan import Data, Task, Work, tasks_for
from robustatlas.evaluation.prepared import Model, given, prepared, surroundings
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.work import Job, Manner, done
from robustatlas.models.classifier import Classifier, Passes
from robustatlas.outcomes.columns import OUTCOME_COLUMNS
from robustatlas.outcomes.records import AttackRecord

_FEW = 8
"""Samples that are attacked to the end, if time allows."""

_FILE_BYTES = 6_000
"""Of a part, whatever it holds: measured on parts of a few samples."""


@dataclass(frozen=True)
class Expected:
    """What one attack will take.

    Attributes:
        attack: its name.
        samples: that the run lacks.
        passes: forward and backward passes a sample, as far as is known.
        bounded: ``passes`` are an upper bound: the probe was not through in its time.
        seconds: for all samples, by one worker like this one.
        bytes: on disk, at most.
        usual: passes a sample by the plan alone, for a model of which nothing is known.

    Example:
        >>> Expected("linf", samples=100, passes=300.0, bounded=False, seconds=60.0, bytes=4e4).seconds
        60.0
    """

    attack: str
    samples: int
    passes: float
    bounded: bool
    seconds: float
    bytes: float
    usual: float = math.nan


@dataclass(frozen=True)
class Forecast:
    """What an evaluation will take, attack by attack; ``workers`` share its ``seconds``.

    Attributes:
        expected: one entry for each attack.
        workers: processes that share the work.
        batch_size: samples at work at once.
        beginning: seconds before the first sample, such as for reading a network.
        memory: bytes that each process takes, with the network and the data; on an accelerator those there. None: not
            known.

    Example:
        >>> linf = Expected("linf", samples=100, passes=300.0, bounded=False, seconds=60.0, bytes=4e4)
        >>> Forecast((linf,), workers=2, batch_size=256).expected[0].attack
        'linf'
    """

    expected: tuple[Expected, ...]
    workers: int
    batch_size: int
    beginning: float = 0.0
    memory: float | None = None

    @property
    def seconds(self) -> float:
        """For all attacks, by all workers."""
        return self.beginning + sum(each.seconds for each in self.expected) / self.workers

    @property
    def bytes(self) -> float:
        """For all attacks, on disk."""
        return sum(each.bytes for each in self.expected)

    @property
    def passes(self) -> float:
        """Of all samples under all attacks."""
        return sum(each.passes * each.samples for each in self.expected)


def forecasted(model: Model, data: Data, request: Request, budget: float) -> Forecast:
    """:func:`robustatlas.evaluation.forecast`, of a request."""
    if not 0 < real(budget) < math.inf:
        raise UserError(f"budget={brief(repr(budget))}; expected a positive number of seconds.")
    classifier, work = given(model, data, request)
    cores = request.cores or cores_for(classifier, work.rows)
    with cores.used(), surroundings(classifier, request) as display:
        ready = prepared(classifier, work, request, display)
        store = request.begun(ready.identity)
        check_answers(ready.model, store, ready.work)
        mine = request.mine(len(ready.work.index))
        expected, memory = [], ready.memory()
        for task in (task for asked in ready.tasks for task in tasks_for(asked, store)):
            held = store.done(task.record, examples=request.keep_adversarial)
            missing = mine & ~np.isin(ready.work.index, held)
            if missing.any():
                expected.append(expected_of(ready.model, task, ready.work, missing, ready.manner, real(budget)))
    workers = request.worker_count(ready.model)
    if request.shares and can_share(ready.model):
        seconds, samples = (sum(getattr(each, what) for each in expected) for what in ("seconds", "samples"))
        workers = cores.processes(seconds, samples, memory)
    return Forecast(tuple(expected), workers, ready.at_once, memory=memory)


class _Enough(Exception):  # noqa: N818
    """The probe has had its time."""


def _stopped_after(seconds: float) -> Callable[[Passes], None]:
    """What lets the first pass be made, and no other one that would begin after so many seconds."""
    until = time.perf_counter() + seconds

    def watch(passes: Passes) -> None:
        if passes.forward and time.perf_counter() > until:
            raise _Enough

    return watch


def expected_of(
    model: Classifier, task: Task, work: Work, missing: NDArray[np.bool_], manner: Manner, budget: float
) -> Expected:
    """What a task will take, from about ``budget`` seconds of it: first a full batch, for the pace, then a few samples
    to the end, for the passes."""
    rows = np.flatnonzero(missing)
    spread = rows[np.linspace(0, len(rows) - 1, min(len(rows), max(_FEW, manner.batch_size))).round().astype(int)]
    begun = time.perf_counter()
    passes, through, pace = _probe(model, task, work, spread, manner, budget / 2)
    if not through:
        few = spread[np.linspace(0, len(spread) - 1, min(_FEW, len(spread))).round().astype(int)]
        left = budget - (time.perf_counter() - begun)
        passes, through, _ = _probe(model, task, work, few, manner, max(left, budget / 2))
    classes = model.logits(work.rows[:1].to(model.device, model.dtype)).shape[1]
    most, usual = (
        2 * weight_of(task, classes, by) * (1 if model.draws is None else model.draws)
        for by in (limited_passes, expected_passes)
    )
    passes = passes if through else most
    return Expected(
        attack=task.record.name,
        samples=len(rows),
        passes=passes,
        bounded=not through,
        seconds=passes * pace * len(rows),
        bytes=_bytes_of(task.record, work, len(rows), passes * pace, manner),
        usual=usual,
    )


def _probe(
    model: Classifier, task: Task, work: Work, rows: NDArray[np.int64], manner: Manner, seconds: float
) -> tuple[float, bool, float]:
    """Attack some samples for some seconds: passes a sample so far, whether they are through, and seconds a pass."""
    job, begun, through = Job.of(work, rows), time.perf_counter(), False
    with model.counting(_stopped_after(seconds)) as passes, suppress(_Enough):
        done(model, task, job, manner, lambda count: None)
        through = True
    taken = passes.forward + passes.backward
    return taken / len(rows), through, (time.perf_counter() - begun) / max(taken, 1)


def _bytes_of(record: AttackRecord, work: Work, samples: int, seconds: float, manner: Manner) -> float:
    row = sum(
        np.dtype(kind).itemsize * (len(record.strengths) if dimensions == 2 else 1)
        for kind, dimensions in OUTCOME_COLUMNS.values()
    )
    part = min(samples, max(SMALLEST, SECONDS / max(seconds, 1e-9)))
    image = 4 * math.prod(work.rows.shape[1:]) if manner.keep_adversarial else 0
    return samples * (row + image) + math.ceil(samples / max(part, 1)) * _FILE_BYTES
