"""The work between preparation and result: all rows that a run lacks are computed, here or by workers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from robustatlas.common.errors import UserError, warn
from robustatlas.common.wording import pluralise
from robustatlas.evaluation.chunks import ChunkRunner, ChunkSettings, ModelWorkload, RowStore, Task
from robustatlas.evaluation.cores import Cores, can_share
from robustatlas.evaluation.costs import Costs
from robustatlas.evaluation.dispatcher import Dispatcher
from robustatlas.evaluation.identity import ModelProbe
from robustatlas.evaluation.memory import bytes_at_work, bytes_loaded, ran_out
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.request import Request
from robustatlas.evaluation.samples import ChosenSamples
from robustatlas.evaluation.workers import CannotShareError, Cluster, run_jobs, share_jobs, start_fork_server
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import Backward
from robustatlas.outcomes import Identity, Run

SECONDS_OF_FIRST_CHUNK = 5.0
"""Seconds that the plan allows for the chunk after which it is decided if workers pay. It takes less, because plans
allow too much."""
_PLAN_ABOVE_WORK = 10.0
"""Factor by which the plan of an attack may exceed its work: most samples are finished long before the last run."""


@dataclass(frozen=True)
class PreparedTasks:
    """Tasks on chosen samples that have passed the checks.

    Attributes:
        model: classifier under test.
        samples: samples that are asked for.
        tasks: attacks or certificates, whatever a run has of them.
        identity: identity of the run.
        warnings: warnings of the checks.
        settings: how chunks are worked on.
        display: progress bar.
        unit_seconds: seconds of a sample with cost weight 1, before any chunk is measured.
    """

    model: Classifier
    samples: ChosenSamples
    tasks: Sequence[Task]
    identity: Identity
    warnings: Sequence[str]
    settings: ChunkSettings
    display: Progress
    unit_seconds: float

    @property
    def batch_size(self) -> int:
        """Samples in the batch."""
        return min(self.settings.batch_size, len(self.samples.labels))

    @property
    def classes(self) -> int:
        """Number of classes of the model."""
        return len(self.identity.model.probe[0])

    def bytes_per_process(self) -> float:
        """Return the bytes that one process takes, with the network and the data."""
        image = self.samples.rows[:1].to(self.model.dtype).nbytes
        at_work = bytes_at_work(image, self.settings.kept, self.batch_size, len(self.samples.labels))
        return bytes_loaded(self.model.device) + at_work

    @contextmanager
    def explaining_memory(self) -> Iterator[None]:
        """Turn an error of memory that ran out into a sentence that says what to do.

        Raises:
            UserError: memory ran out inside the block.
        """
        try:
            yield
        except Exception as error:
            if not ran_out(error):
                raise
            size, halves = self.batch_size, self.settings.halves
            fewer = size > 1 and not halves
            advice = f"a batch size of {size // 2}" if fewer else "a smaller network, or on another device"
            raise UserError(
                f"{self.model.device} ran out of memory with {pluralise(1 if halves else size, 'sample')} at work at "
                f"once; run the same again with {advice}. Finished parts of the run are kept."
            ) from error


def show_warning(display: Progress, warning: str) -> None:
    """Show a warning beside the progress bar, and as a Python warning."""
    display.warn(warning)
    warn(warning)


def complete(
    run: Run,
    store: RowStore,
    ready: PreparedTasks,
    request: Request,
    ways: Collection[Backward | None],
    cores: Cores | None = None,
) -> None:
    """Compute all rows of the tasks that the run lacks, until every stored part can be read.

    Args:
        run: the run.
        store: the part of the run that holds rows of these tasks.
        ready: tasks and samples.
        request: places, part and sizes of chunks.
        ways: ways in which the tasks take gradients; workers must have the same gradients.
        cores: cores among which this process may share the work; None if it never does by itself.
    """
    places, workers = request.places(ready.model), request.worker_count(ready.model)
    costs = Costs([task.cost_weight(ready.classes) for task in ready.tasks], ready.unit_seconds)
    mine = request.part_mask(len(ready.samples.index))
    shared = cores if cores is not None and request.shares and cores.count > 1 and can_share(ready.model) else None
    first_seconds = None if shared is None else SECONDS_OF_FIRST_CHUNK
    while True:
        dispatcher = Dispatcher(
            store,
            ready.tasks,
            ready.samples,
            mine,
            ready.settings,
            costs,
            workers,
            ready.display,
            samples_per_chunk=request.shard_size,
            first_seconds=first_seconds,
        )
        if dispatcher.unfinished_samples:
            _run_tasks(dispatcher, ready, places, shared, ways)
        else:
            has_all = f"{run.path or 'the run'} has all of it, results of {run.identity.created}"
            ready.display.note(f"Nothing to do: {has_all}.")
        if store.can_read_records(task.record for task in ready.tasks):
            return


def _run_tasks(
    dispatcher: Dispatcher,
    ready: PreparedTasks,
    places: Sequence[str] | Cluster,
    cores: Cores | None,
    ways: Collection[Backward | None],
) -> None:
    """Run all chunks: by workers at the ``places``, or in this process until the rest is worth several processes."""
    runner = ChunkRunner(ready.model, tuple(ready.tasks), ready.settings)
    with ready.explaining_memory():
        if places:
            _share(runner, dispatcher, ready, places, None, ways)
            return
        if cores is not None:
            worth = WorthOfWorkers(cores, dispatcher, ready.bytes_per_process())
            run_jobs(runner.run, dispatcher, until=lambda: worth.processes() > 1)
            if not dispatcher.unfinished_samples:
                return
            count = worth.processes()
            try:
                dispatcher.display.note(f"{count} processes share the rest.")
                _share(runner, dispatcher, ready, [str(ready.model.device)] * count, 1, ways)
                return
            except CannotShareError as error:
                dispatcher.display.note(f"{error} So one process does all of it.")
        run_jobs(runner.run, dispatcher)


def _share(
    runner: ChunkRunner,
    dispatcher: Dispatcher,
    ready: PreparedTasks,
    places: Sequence[str] | Cluster,
    threads: int | None,
    ways: Collection[Backward | None],
) -> None:
    """Have the chunks run by workers, each of which must have the same model, logits and gradients."""
    probe = ModelProbe.take(ready.model, ready.identity, ready.samples.rows.shape[1:], ways)
    share_jobs(ModelWorkload(runner, probe), f"The model {ready.model.name}", places, threads, dispatcher)


class WorthOfWorkers:
    """The number of processes that the rest of the work is worth, asked after each chunk that this process has run.

    If they may well be several, the fork server gets ready meanwhile. What may well be lies half way, on a logarithmic
    scale, between what is certain and what the plan allows.

    Args:
        cores: cores that may be used.
        dispatcher: dispatcher of the work, whose first chunk is short.
        memory: bytes of one process.
    """

    def __init__(self, cores: Cores, dispatcher: Dispatcher, memory: float) -> None:
        self.cores, self.dispatcher, self.memory = cores, dispatcher, memory
        if self._processes(plan_above_work=_PLAN_ABOVE_WORK**0.5) > 1:
            start_fork_server()

    def processes(self) -> int:
        """Return the number of processes; 1 if this process goes on alone."""
        return self._processes(1.0 if self.dispatcher.costs.measured else _PLAN_ABOVE_WORK)

    def _processes(self, plan_above_work: float) -> int:
        seconds = self.dispatcher.work_seconds() / plan_above_work
        return self.cores.processes(seconds, self.dispatcher.unfinished_samples, self.memory)
