"""The forecast of a request before it is begun: passes counted from the plans, times the seconds of a pass."""

import math
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.attacks.passes import expected_passes
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import real_or_nan
from robustatlas.evaluation.attack_task import AttackTask
from robustatlas.evaluation.chunks import Chunk
from robustatlas.evaluation.cores import SMALLEST_CHUNK, can_share, choose_cores
from robustatlas.evaluation.dispatcher import CHUNK_SECONDS
from robustatlas.evaluation.identity import check_answers
from robustatlas.evaluation.preparation import Model, PreparedAttacks, evaluation_context, open_model, prepare_attacks
from robustatlas.evaluation.request import Data, Request
from robustatlas.evaluation.resume import missing_tasks
from robustatlas.evaluation.throughput import DeviceThroughput
from robustatlas.models.classifier import Passes
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.tables import OUTCOME_COLUMNS

_FILE_BYTES = 6_000
"""Bytes of a part on disk beside its samples: measured on parts of a few samples."""


@dataclass(frozen=True)
class Expected:
    """Forecast of one attack, one certificate, one model of a field or one entry of a study.

    Attributes:
        name: of the attack, the model or the entry.
        number: samples, or steps of a study, that are missing.
        passes: forward and backward passes of one image, in all; 0 of certificates.
        seconds: for all of it, by one worker.
        bytes: on disk.
        is_upper_bound: whether ``seconds`` is an upper bound.
        unknown: why nothing can be said; empty where all is known.

    Example:
        >>> Expected("linf", number=100, passes=3e4, seconds=60.0, bytes=4e4).passes
        30000.0
    """

    name: str
    number: int
    passes: float = 0.0
    seconds: float = 0.0
    bytes: float = 0.0
    is_upper_bound: bool = False
    unknown: str = ""


@dataclass(frozen=True)
class Forecast:
    """Forecast of a request, row by row; ``workers`` share its ``seconds``.

    Attributes:
        expected: the rows.
        workers: processes that share the work.
        batch_size: samples at work at once; None: not the same for all rows.
        beginning: seconds before the first sample, such as for reading a network.
        memory: bytes that each process takes, with the network and the data; on an accelerator those there. None: not
            known.

    Example:
        >>> linf = Expected("linf", number=100, passes=3e4, seconds=60.0, bytes=4e4)
        >>> Forecast((linf,), workers=2, batch_size=256).seconds
        30.0
    """

    expected: tuple[Expected, ...]
    workers: int = 1
    batch_size: int | None = None
    beginning: float = 0.0
    memory: float | None = None

    @property
    def seconds(self) -> float:
        """For all rows, by all workers."""
        return self.beginning + sum(each.seconds for each in self.expected) / self.workers

    @property
    def bytes(self) -> float:
        """For all rows, on disk."""
        return sum(each.bytes for each in self.expected)

    @property
    def passes(self) -> float:
        """For all rows."""
        return sum(each.passes for each in self.expected)

    @property
    def is_upper_bound(self) -> bool:
        """True if the seconds of some row are an upper bound."""
        return any(each.is_upper_bound for each in self.expected)

    def as_row(self, name: str) -> Expected:
        """Return the sums of all rows as one row of a longer forecast."""
        samples = sum(each.number for each in self.expected)
        return Expected(name, samples, self.passes, self.seconds, self.bytes, self.is_upper_bound)


def forecasted(
    model: Model, data: Data, request: Request, budget: float, throughput: DeviceThroughput | None = None
) -> Forecast:
    """Return the forecast of an evaluation, as :func:`robustatlas.evaluation.forecast`, of a request."""
    if not 0 < real_or_nan(budget) < math.inf:
        raise UserError(f"budget={shorten(repr(budget))}; expected a positive number of seconds.")
    classifier, samples = open_model(model, data, request)
    cores = request.cores or choose_cores(classifier, samples.rows)
    with cores.limit_threads(), evaluation_context(classifier, request) as display:
        ready = prepare_attacks(classifier, samples, request, display)
        store = request.open_run(ready.identity)
        check_answers(ready.model, store, ready.samples)
        mine = request.part_mask(len(ready.samples.index))
        expected, memory = [], ready.bytes_per_process()
        for task in (task for asked in ready.tasks for task in missing_tasks(asked, store)):
            held = store.stored_samples(task.record, examples=request.keep_adversarial)
            missing = np.flatnonzero(mine & ~np.isin(ready.samples.index, held))
            if len(missing):
                pace = (
                    _measure_pace(ready, task, missing, real_or_nan(budget))
                    if throughput is None
                    else _throughput_pace(ready, throughput)
                )
                expected.append(_expected(ready, task, len(missing), pace))
    workers = request.worker_count(ready.model)
    if throughput is None and request.shares and can_share(ready.model):
        seconds, number = sum(each.seconds for each in expected), sum(each.number for each in expected)
        workers = cores.processes(seconds, number, memory)
    return Forecast(tuple(expected), workers, ready.batch_size, memory=memory if throughput is None else None)


def expected_task_passes(task: AttackTask, classes: int, draws: int | None) -> float:
    """Return the forward and backward passes of a sample that the plan of a task usually takes."""
    return 2 * task.pass_pairs(classes, expected_passes) * (1 if draws is None else draws)


def _expected(ready: PreparedAttacks, task: AttackTask, samples: int, seconds_a_pass: float) -> Expected:
    passes = expected_task_passes(task, ready.classes, ready.model.draws)
    seconds = passes * seconds_a_pass
    size = _bytes_on_disk(ready, task.record, samples, seconds)
    return Expected(task.record.name, samples, passes * samples, seconds * samples, size)


def _throughput_pace(ready: PreparedAttacks, throughput: DeviceThroughput) -> float:
    """Return the seconds of a pass on a device of known throughput."""
    image = ready.samples.rows[:1].to(ready.model.device, ready.model.dtype)
    return throughput.seconds_a_pass(ready.model.net, image)


class _TrialFinished(Exception):  # noqa: N818
    """The trial has had its time."""


def _stop_after(seconds: float) -> Callable[[Passes], None]:
    """Return a watch that lets the first pass be made, and no other one that begins after ``seconds``."""
    until = time.perf_counter() + seconds

    def watch(passes: Passes) -> None:
        if passes.forward and time.perf_counter() > until:
            raise _TrialFinished

    return watch


def _measure_pace(ready: PreparedAttacks, task: AttackTask, missing: NDArray[np.int64], budget: float) -> float:
    """Attack a batch of the missing samples for ``budget`` seconds and return the seconds of a pass."""
    count = min(len(missing), ready.settings.batch_size)
    chunk = Chunk.cut(ready.samples, missing[np.linspace(0, len(missing) - 1, count).round().astype(int)])
    begun = time.perf_counter()
    with ready.model.counting(_stop_after(budget)) as passes, suppress(_TrialFinished):
        task.run(ready.model, chunk, ready.settings, lambda finished: None)
    return (time.perf_counter() - begun) / max(passes.forward + passes.backward, 1)


def _bytes_on_disk(ready: PreparedAttacks, record: AttackRecord, samples: int, seconds: float) -> float:
    """Return the bytes of ``samples`` rows in parts, where a sample takes ``seconds``."""
    row = sum(
        np.dtype(column.kind).itemsize * math.prod(column.shape(1, len(record.strengths)))
        for column in OUTCOME_COLUMNS.values()
    )
    part = min(samples, max(SMALLEST_CHUNK, CHUNK_SECONDS / max(seconds, 1e-9)))
    image = 4 * math.prod(ready.samples.rows.shape[1:]) if ready.settings.keep_adversarial else 0
    return samples * (row + image) + math.ceil(samples / max(part, 1)) * _FILE_BYTES


def join_forecasts(forecasts: Iterable[tuple[str, Forecast]]) -> Forecast:
    """Return the forecast of several requests that are done one after the other, a row for each."""
    known = list(forecasts)
    memories = [each.memory * each.workers for _, each in known if each.memory is not None]
    return Forecast(tuple(each.as_row(name) for name, each in known), memory=max(memories, default=None))
