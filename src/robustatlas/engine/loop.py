"""The loop of every attack: *continuous batching* of attack runs.

A batch has a fixed number of *slots*. A slot holds one run of one sample: its strength, target, optimizer state and
step. All runs of a batch are of one kind (equal settings), so one forward and one backward pass serve the whole batch.
A slot whose run has ended is refilled with the next sample that waits for a run of that kind. One sample's way, under
the descent of ``linf`` with 4 slots:

.. code-block:: text

    step  slot 2      what happens to sample 17
       0  17: bound   it enters slot 2; its schedule says: bound, towards the nearest class
    1-25  17: bound   forward and objective, gradient, judge, move; a misclassified point becomes its candidate
      25  31: bound   the run ends, a separate pass verifies the candidate of size .031, sample 31 takes the slot
     ...  -           sample 17 waits until all samples have made their bounds
      90  17: restart its schedule says: restart from the example of size .031
     ...  -           three restarts in a row find nothing smaller
     160  17: ascend  an ascent at strength .03, the largest below .031
     180  17: ascend  it fails, and so does the second kind: sample 17 is settled at .031
     181  42: ascend  sample 42 takes the slot

A step is three calls of :mod:`robustatlas.engine.batch`: forward and objective, gradient, judge; then the optimizer
moves. The host looks for ended runs every few steps (:mod:`robustatlas.common.host`). Until then an ended run repeats
its last step, of which nothing is entered but the passes; so results do not depend on how often the host looks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from robustatlas.attacks.search.plan import AttackRun
from robustatlas.common.bundle import join
from robustatlas.common.host import indices, maybe_any, stride, to_host
from robustatlas.engine.ahead import evaluate_ahead, points_at_once
from robustatlas.engine.batch import Batch, end_runs, evaluate_batch, fill_slots, select_rows
from robustatlas.engine.evidence import (
    has_clearer_mistake,
    record_in_full,
    record_margins,
    record_queries,
    record_true,
    verify,
)
from robustatlas.engine.execution import Execution, Setting, begin, prepare
from robustatlas.engine.judging import size_to_beat
from robustatlas.engine.queue import Queue
from robustatlas.engine.records import check_finite


@dataclass(frozen=True)
class NextKind:
    """Numbers that the host reads, in one transfer, to choose the kind of runs that comes next.

    Attributes:
        finite: all logits were finite.
        settled: number of samples that are through.
        attempt: the earliest attempt that any sample waits for; their number if none waits.
        waiting: number of samples that wait for each kind.
    """

    finite: bool
    settled: int
    attempt: int
    waiting: tuple[int, ...]

    @classmethod
    def read(cls, execution: Execution, kind_of: Tensor) -> Self:
        """Read the numbers; ``kind_of`` [N]: the kind of run that each sample waits for, -1 if it is through."""
        schedule = execution.schedule
        waiting = torch.stack([kind_of == kind for kind in range(len(schedule.kinds))]).sum(1)
        attempt = torch.where(schedule.done, len(schedule.attempts), schedule.attempt).min()
        finite, settled, first, *counts = to_host(execution.records.finite, schedule.done.sum(), attempt, *waiting)
        return cls(bool(finite), settled, first, tuple(counts))


@dataclass(frozen=True)
class EndedRuns:
    """Numbers that the host reads, in one transfer, when it looks for ended runs.

    Attributes:
        finite: all logits were finite.
        ended: number of runs that have ended.
        candidates: number of ended runs with an example to verify.
        clearer: number of those with a larger mistake, of a sweep, that is clear where the example is not.
        doubtful: for each step in reduced precision, the number of margins to compute again.
        returning: what has become of samples whose runs ended before (see :class:`~robustatlas.engine.queue.Queue`).
    """

    finite: bool
    ended: int
    candidates: int
    clearer: int
    doubtful: tuple[int, ...]
    returning: tuple[int, ...]

    @classmethod
    def read(cls, execution: Execution, batch: Batch, fresh: Tensor, queue: Queue) -> Self:
        """Read the numbers; ``fresh`` [B]: the run has ended with an example to verify."""
        doubtful = execution.rough.counts() if execution.rough else []
        returning = queue.counts()
        clearer = [] if batch.clear is None else [(fresh & has_clearer_mistake(batch)).sum()]
        finite, ended, candidates, *others = to_host(
            execution.records.finite, batch.ended.sum(), fresh.sum(), *doubtful, *returning, *clearer
        )
        steps = len(doubtful)
        second = others.pop() if clearer else 0
        return cls(bool(finite), ended, candidates, second, tuple(others[:steps]), tuple(others[steps:]))


def run(
    setting: Setting,
    report: Callable[[int], None] = lambda settled: None,
    execution: Execution | None = None,
) -> Execution:
    """Carry out the schedule of a setting. Results do not depend on the number of slots.

    The kind of the earliest attempt comes first, so that samples wait for each other rather than run alone.

    Args:
        setting: what is asked; it is not changed.
        report: called with the number of samples that are through, whenever it changes.
        execution: a new one of the setting (see :func:`~robustatlas.engine.execution.begin`) that is advanced, so that
            a caller keeps what was found if memory runs out.

    Returns:
        the execution at its end.
    """
    execution = begin(setting) if execution is None else execution
    schedule = execution.schedule
    prepare(execution)
    _skip_hopeless_runs(execution, torch.arange(len(schedule.done), device=schedule.done.device))
    settled = 0
    while True:
        kind_of = torch.where(schedule.done, -1, schedule.kind_of[schedule.attempt])
        following = NextKind.read(execution, kind_of)
        if following.settled != settled:
            report(settled := following.settled)
        if following.attempt == len(schedule.attempts):
            check_finite(execution.attack, following.finite)
            return execution
        kind = schedule.kinds.index(schedule.attempts[following.attempt].run.settings)
        rows = indices(kind_of == kind, following.waiting[kind])
        _run_kind(execution, schedule.kinds[kind], Queue(schedule, kind, rows, rows[:0], report))


def _run_kind(execution: Execution, run: AttackRun, queue: Queue) -> None:
    """Make the runs of the samples of ``queue``, all of one kind, until each is settled or waits for another kind."""
    batch = fill_slots(execution, run, queue.pop(execution.slots))
    steps = _steps_between_looks(execution, run) if execution.model.knowledge == "gradients" else 1
    while len(batch.rows):
        for _ in range(steps):
            batch = _step(execution, run, batch)
        batch = _retire_ended_runs(execution, run, batch, queue)
        if not len(batch.rows) and not len(queue.rows):
            return  # the choice of the next kind reads about all samples at once
        free = execution.slots - len(batch.rows)
        queue.read_if_needed(free, execution.slots)
        if free and len(queue.rows):
            batch = join(batch, fill_slots(execution, run, queue.pop(free)))


def _step(execution: Execution, run: AttackRun, batch: Batch) -> Batch:
    """Make one step of all runs of the batch."""
    if (count := points_at_once(execution, run, batch)) > 1:
        batch, evaluation = evaluate_ahead(execution, run, batch, count)
        state = run.optimizer.step(batch.problem, batch.state, evaluation)
    else:
        evaluation, state = evaluate_batch(execution, run, batch)
    record_margins(execution, run, batch, evaluation)
    record_queries(execution, batch, evaluation)
    execution.records.finite &= (evaluation.logits.abs() < torch.inf).all()
    return end_runs(batch, run, execution.schedule, evaluation, state, execution.records.forward)


def _retire_ended_runs(execution: Execution, run: AttackRun, batch: Batch, queue: Queue) -> Batch:
    """Verify and enter what ended runs have found, tell the schedule, and return the runs that go on."""
    records, schedule = execution.records, execution.schedule
    if execution.rough is None and not maybe_any(batch.ended):
        return batch
    fresh = batch.ended & (batch.candidate_size < size_to_beat(records, schedule, run, batch.rows))
    read = EndedRuns.read(execution, batch, fresh, queue)
    check_finite(execution.attack, read.finite)
    queue.settle_unknown(*read.returning)
    for doubtful, count in zip(execution.rough.pop_steps() if execution.rough else [], read.doubtful, strict=True):
        record_in_full(execution, doubtful, count)
    if not read.ended:
        return batch
    over = select_rows(replace(batch, state=None), batch.ended, read.ended)
    found = indices(select_rows(fresh, batch.ended, read.ended), read.candidates)
    fooled = verify(execution, over, found, run.judge, clearer=read.clearer)
    record_true(execution, run, over)
    schedule.charge(over.rows, over.before + over.trace.evaluations)
    schedule.advance(over.rows, fooled, records.best_size[over.rows], over.trace.smallest)
    if schedule.query_limit is not None:
        schedule.done[over.rows] |= schedule.query_limit.is_exceeded(records.forward[over.rows])
    _skip_hopeless_runs(execution, over.rows)
    queue.unknown = over.rows
    left: Batch = select_rows(batch, ~batch.ended, len(batch.rows) - read.ended)
    return left


def _steps_between_looks(execution: Execution, run: AttackRun) -> int:
    """Return the number of steps from look to look, so that the host looks when runs end.

    Runs of full length decide, or, where these are longer than the host would wait and rules may end some in half that
    time, the first that may end.
    """
    length, usual = run.optimizer.steps + 1, stride(execution.records.x.device)
    rules = [rule for rule in execution.schedule.early_stops if rule.can_end(run.optimizer)]
    first = min((rule.earliest_end(run.optimizer) for rule in rules), default=length)
    if 2 * first <= usual < length:
        length = first
    return math.ceil(length / max(1, round(length / usual)))


def _skip_hopeless_runs(execution: Execution, rows: Tensor) -> None:
    """Let the schedule of the samples ``rows`` pass over runs that cannot succeed, as if they had failed.

    They are runs inside of a set that is certified, by optimizers that stay in it. What they would have changed are
    the margins on record and the passes; no size and no class.
    """
    if execution.certified is None:
        return
    records, schedule = execution.records, execution.schedule
    stays_inside = [not attempt.run.optimizer.minimum_size for attempt in schedule.attempts]
    inside = torch.tensor(stays_inside, device=rows.device)
    most = [attempt.run.maximal_passes(schedule.chooses) for attempt in schedule.attempts]
    passes = torch.tensor(most, device=rows.device)
    while True:
        rows = rows[~schedule.done[rows]]
        certain = schedule.epsilon(rows, records.best_size[rows]) <= execution.certified[rows]
        rows = rows[certain & inside[schedule.attempt[rows]]]
        if not len(rows):
            return
        if schedule.on_grid:
            level = schedule.level[rows]
            records.fooled[rows, level] = records.fooled[rows, level].clamp_min(0)
        records.saved[rows] += passes[schedule.attempt[rows]]
        size = records.best_size[rows]
        schedule.advance(rows, torch.zeros_like(rows, dtype=torch.bool), size, torch.full_like(size, torch.inf))
