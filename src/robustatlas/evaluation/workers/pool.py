"""A pool of worker processes that share the jobs of an evaluation, a certification or a set of trainings.

Each worker of this machine is a ``ProcessPoolExecutor`` of one process, so each device belongs to one executor. An
executor of several processes ends all their jobs when one process dies.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from multiprocessing.context import ForkServerContext, ForkServerProcess
from multiprocessing.sharedctypes import RawValue
from types import ModuleType
from typing import Any, Protocol

import torch

from robustatlas.common.errors import UserError
from robustatlas.common.interrupts import delay_interrupts
from robustatlas.evaluation.workers.memory import hand_back_at_once
from robustatlas.evaluation.workers.travel import CannotShareError, unpacked

_ATTEMPTS = 2
"""Workers that may die or fail over one job: the first may have a sick device; a second one has the same cause."""
_SECONDS_BETWEEN_LOOKS = 0.5
"""Seconds after which the pool asks how far the jobs at work are, and whether there is room for more workers."""
_PRELOADED = ["robustatlas.evaluation.attack_task"] if sys.platform == "linux" else []
"""Modules that are imported before workers are forked. Libraries of macOS may not be forked once they are loaded."""

Report = Callable[[int], None]
"""A function that is called with the number of samples of a job that are finished."""
Do = Callable[[Any, Report], Any]
"""A function from (job, report) to the result of the job."""


class Workload(Protocol):
    """Work that every worker is sent before its first job."""

    def difference(self) -> str | None:
        """Return a sentence if what arrived in the worker is not what was sent, else None."""

    def do(self, job: Any, report: Report) -> Any:
        """Return the result of a job."""


class Jobs(Protocol):
    """A source of jobs that also receives their results; jobs and results can be pickled."""

    workers: int = 1
    """Number of jobs that are done at once; the pool keeps it up to date."""

    def next(self) -> Any | None:
        """Return the next job, or None if all are given out."""

    def report(self, job: Any, through: int) -> None:
        """Take notice that `through` samples of a job at work are finished."""
        return

    def finish(self, job: Any, outcome: Any) -> None:
        """Receive the result of a job."""

    def note_retry(self, job: Any, why: str) -> None:
        """Take notice that another worker does a job again; the sentence `why` says what happened."""

    def describe(self, job: Any) -> str:
        """Return the words for a job in the middle of a sentence."""


class WorkerDiedError(Exception):
    """A worker ended before its task; the message continues "A worker on cpu"."""


class Worker(Protocol):
    """A process elsewhere, on the device `place`; `beginning` is the future of its first task, :func:`begin`."""

    place: str
    beginning: Future[str | None]

    def submit_job(self, job: bytes) -> Future[bytes]:
        """Have the process call :func:`do_job`."""

    def finished_samples(self) -> int:
        """Return the number of samples of the job at work that are finished, as far as is known."""

    def result(self, future: Future[Any]) -> Any:
        """Return the result of a finished task, or raise its error; a :class:`WorkerDiedError` if the process ended."""

    def stop(self) -> None:
        """End the process, whatever it is doing."""


StartWorkers = Callable[[Sequence[Any]], Sequence[Worker]]
"""A function that starts as many workers as there is room for beside those that are given."""


@dataclass(frozen=True)
class _Attempt:
    """A job that a worker does for the `number`-th time, counted from 1."""

    job: Any
    number: int


@dataclass(frozen=True)
class _Task:
    """Task of a worker; without an `attempt` the worker is starting."""

    worker: Worker
    attempt: _Attempt | None = None


class Pool:
    """Workers that do all jobs of a source.

    Args:
        start: starts workers.
        jobs: the source.
    """

    def __init__(self, start: StartWorkers, jobs: Jobs) -> None:
        self.start, self.jobs = start, jobs
        self.workers: list[Worker] = []
        self.idle: list[Worker] = []
        self.tasks: dict[Future[Any], _Task] = {}
        self.returned: list[_Attempt] = []
        self.early_deaths = 0

    def run(self) -> None:
        """Have all jobs done. The workers end with this call, however it ends (Ctrl-C too).

        Raises:
            CannotShareError: a worker has another model, or workers die before their first job.
            UserError: two workers died over the same job; or what a worker raised, if a second one failed at the job.
        """
        try:
            while True:
                self._add_workers()
                self._submit_jobs()
                # Workers that are beginning need not be awaited: a cluster may never have room for them.
                if not self.idle or any(task.attempt is not None for task in self.tasks.values()):
                    self._await_tasks()
                else:
                    return
        finally:
            with delay_interrupts():
                for worker in self.workers:
                    worker.stop()

    def _add_workers(self) -> None:
        with delay_interrupts():  # so that no worker is started and not known here
            started = self.start(self.workers)
            self.workers += started
        self.tasks |= {worker.beginning: _Task(worker) for worker in started}
        self.jobs.workers = max(1, len(self.workers))

    def _submit_jobs(self) -> None:
        while self.idle and (attempt := self._next_attempt()) is not None:
            worker = self.idle.pop(0)
            # As bytes: torch would pickle tensors as names of shared memory, of which there may be too little.
            future = worker.submit_job(pickle.dumps(attempt.job, pickle.HIGHEST_PROTOCOL))
            self.tasks[future] = _Task(worker, attempt)

    def _next_attempt(self) -> _Attempt | None:
        if self.returned:
            return self.returned.pop(0)
        job = self.jobs.next()
        return None if job is None else _Attempt(job, 1)

    def _await_tasks(self) -> None:
        if not self.tasks:
            time.sleep(_SECONDS_BETWEEN_LOOKS)  # a cluster without any node
        finished, at_work = wait(self.tasks, _SECONDS_BETWEEN_LOOKS, FIRST_COMPLETED)
        for future in at_work:
            task = self.tasks[future]
            if task.attempt is not None:
                self.jobs.report(task.attempt.job, task.worker.finished_samples())
        for future in finished:
            self._take_result(self.tasks.pop(future), future)

    def _take_result(self, task: _Task, future: Future[Any]) -> None:
        try:
            result = task.worker.result(future)
        except Exception as error:
            task.worker.stop()
            self.workers.remove(task.worker)
            self._take_error(task, error)
            return
        self.idle.append(task.worker)
        if task.attempt is not None:
            self.jobs.finish(task.attempt.job, pickle.loads(result))
        elif result is not None:
            raise CannotShareError(result)
        else:
            self.early_deaths = 0

    def _take_error(self, task: _Task, error: Exception) -> None:
        died = isinstance(error, WorkerDiedError)
        if died:
            error = UserError(f"A worker on {task.worker.place} {error}.")
        if task.attempt is not None:
            self._try_again(task.attempt, error, died)
        elif not died:
            if isinstance(error, (UserError, torch.OutOfMemoryError)):
                raise error
            raise CannotShareError(f"A worker on {task.worker.place} cannot begin ({error}).")
        else:
            # Workers on a node of a cluster that goes away are replaced, as long as there are more of them elsewhere.
            self.early_deaths += 1
            if self.early_deaths > len(self.workers):
                raise CannotShareError(f"{error} It had not begun; what it printed last says why.")

    def _try_again(self, attempt: _Attempt, error: Exception, died: bool) -> None:
        job = attempt.job
        if attempt.number < _ATTEMPTS:
            self.jobs.note_retry(job, str(error))
            self.returned.append(_Attempt(job, attempt.number + 1))
        elif died:
            raise UserError(
                f"{_ATTEMPTS} workers died over the same {self.jobs.describe(job)}. {error} Memory may have run out: "
                "try fewer workers or a smaller batch size. What is finished is kept."
            )
        else:
            raise error


# What follows runs in the processes of workers.

_WORKLOADS: list[Workload] = []
"""Workload that the process of a worker was sent, from its first task on."""


def begin(content: bytes, device: str, threads: int) -> str | None:
    """Unpack a workload in the process of a worker, and return a sentence if it is not what was sent.

    Args:
        content: the packed workload.
        device: where its models compute.
        threads: of torch.
    """
    hand_back_at_once()
    torch.set_num_threads(threads)
    try:
        _WORKLOADS[:] = [unpacked(content, device)]
        return _WORKLOADS[0].difference()
    except BaseException as error:
        raise _picklable_error(error) from None


def do_job(job: bytes) -> bytes:
    """Return the pickled result of a pickled job, in the process of a worker."""
    try:
        return pickle.dumps(_WORKLOADS[0].do(pickle.loads(job), _report), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        raise _picklable_error(error) from None


def _report(samples: int) -> None:
    process = multiprocessing.current_process()
    if isinstance(process, WorkerProcess):  # and not an actor of Ray
        process.finished_samples.value = samples


def _picklable_error(error: BaseException) -> Exception:
    """Return an error that every process can unpickle."""
    if isinstance(error, (torch.OutOfMemoryError, UserError)):
        return type(error)(str(error))
    return RuntimeError(f"{type(error).__name__}: {error}")


# What follows starts workers on this machine.


class WorkerProcess(ForkServerProcess):
    """The process of a worker on this machine.

    It never sees the main script, so that a script without ``if __name__ == "__main__"`` is not run again in it. It
    ignores Ctrl-C, prints to the standard error, and ends with its parent, even if that is killed.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.finished_samples = RawValue("q", 0)
        self.environment = dict(os.environ)  # the fork server has that of its own start

    def start(self) -> None:
        start_fork_server()
        with _main_hidden():
            super().start()

    def run(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        os.dup2(2, 1)
        os.environ.clear()
        os.environ.update(self.environment)
        super().run()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


_HIDING = threading.Lock()


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Let multiprocessing find an empty main module; else it would import the user's script in the new process."""
    with _HIDING:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


_STARTED_BY: set[int] = set()
"""The process that has started the fork server; others are its forks."""


def can_start_workers() -> bool:
    """Return if this process may start others. A daemon of multiprocessing may not; nor may the fork of a process that
    has a fork server, which it cannot reach."""
    return not multiprocessing.current_process().daemon and _STARTED_BY.issubset({os.getpid()})


def start_fork_server() -> None:
    """Start the process that workers are forked from, unless it is running.

    It imports torch and this package once, in two to three seconds; this function does not wait for that. It ends with
    this process.
    """
    resource_tracker.ensure_running()  # whose start, in the next call, would let signals through
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _main_hidden():
            multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOADED)
            forkserver.ensure_running()  # inherits that Ctrl-C is blocked, and so do its children
        _STARTED_BY.add(os.getpid())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class _Context(ForkServerContext):
    """The context of an executor; keeps the processes that were started."""

    def __init__(self) -> None:
        super().__init__()
        self.processes: list[WorkerProcess] = []

    def Process(self, *args: Any, **options: Any) -> WorkerProcess:  # type: ignore[override]  # noqa: N802
        process = WorkerProcess(*args, **options)
        self.processes.append(process)
        return process


class LocalWorker:
    """A worker on this machine.

    Args:
        device: of torch, where it computes.
        threads: of torch.
        content: the packed workload.
    """

    def __init__(self, device: str, threads: int, content: bytes) -> None:
        context = _Context()
        self.place = device
        self.executor = ProcessPoolExecutor(max_workers=1, mp_context=context)
        self.beginning = self.executor.submit(begin, content, device, threads)
        (self.process,) = context.processes

    def submit_job(self, job: bytes) -> Future[bytes]:
        self.process.finished_samples.value = 0
        try:
            return self.executor.submit(do_job, job)
        except BrokenExecutor as error:  # it died while it had no job
            failed: Future[bytes] = Future()
            failed.set_exception(error)
            return failed

    def finished_samples(self) -> int:
        return int(self.process.finished_samples.value)

    def result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except BrokenExecutor:
            self.executor.shutdown()  # until the process has an exit code
            raise WorkerDiedError(_ending(self.process.exitcode)) from None

    def stop(self) -> None:
        self.process.kill()
        self.executor.shutdown(cancel_futures=True)


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"ended with code {code}"
    return f"was killed by signal {-code} ({signal.Signals(-code).name})"


def start_local_workers(
    devices: Sequence[str], threads: int, content: bytes, there: Sequence[LocalWorker]
) -> list[LocalWorker]:
    """Start a worker for each of the `devices` that no worker of those that are `there` has; a device may be given
    several times."""
    vacant = Counter(devices) - Counter(worker.place for worker in there)
    return [LocalWorker(device, threads, content) for device in vacant.elements()]
