"""A crew of workers elsewhere: who gets which job, and what becomes of one whose worker died or failed."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from robustatlas.common.errors import UserError

_MOST_TRIES = 3
"""Workers that may die over the same job before it is taken for the cause."""
_MOST_FAILURES = 2
"""Workers that may fail with an error over the same job: a sick device is not the model's fault."""

Do = Callable[[Any, Callable[[int], None]], Any]
"""From (job, report): do the job, calling ``report`` with how much of it is through; what came of it is returned."""


class Jobs(Protocol):
    """Hands out jobs and takes in what came of them, all of it picklable."""

    workers: int = 1
    """Jobs that are done at once, as far as is known; a crew corrects it."""

    def next(self) -> Any | None:
        """A job that nobody does; None where there is none at the moment."""

    def report(self, job: Any, through: int) -> None:
        """So much of a job at work is through."""
        return

    def finish(self, job: Any, outcome: Any) -> None:
        """A job is done; what came of it."""

    def again(self, job: Any, why: str) -> None:
        """A job is begun anew by another worker; ``why`` is a sentence."""

    def called(self, job: Any) -> str:
        """The job in the middle of a sentence."""


class _Line(Protocol):
    """To a worker at ``where``, for what :func:`~robustatlas.evaluation.workers.serving.serve` hears and says; where
    that has died, it says "lost", or "gone" where its place is, and how that came about."""

    where: str

    def say(self, message: Any) -> None: ...
    def hear(self) -> bytes: ...
    def kill(self) -> None: ...
    def stop(self) -> None: ...


class _Place(Protocol):
    """Where workers can be: starts as many more as there is room for beside those that are ``there``, and waits until
    some of them are speaking, which it returns."""

    def start(self, there: Sequence[Any]) -> Sequence[_Line]: ...
    def speaking(self, lines: Sequence[Any]) -> Sequence[_Line]: ...


@dataclass
class _Order:
    job: Any
    died: int = 0
    failed: int = 0


@dataclass
class _Worker:
    line: _Line
    order: _Order | None = None
    ready: bool = False


class Crew:
    """Workers at a ``place``, each of which is sent ``content`` and then ``jobs``."""

    def __init__(self, place: _Place, content: Any, jobs: Jobs) -> None:
        self.place, self.content, self.jobs = place, content, jobs
        self.workers: list[_Worker] = []
        self.returned: list[_Order] = []

    def work(self) -> None:
        """Have all jobs done; whatever ends this (Ctrl-C too) ends the workers.

        A job whose worker died or failed is done again by another one, before either counts as the job's fault.

        Raises:
            UserError: workers that die over the same job again and again, or before they have begun; what a worker
                raises again and again.
        """
        try:
            while True:
                self._start()
                while self._give():
                    pass
                if any(worker.order for worker in self.workers) or not any(worker.ready for worker in self.workers):
                    self._listen()
                else:
                    return
        finally:
            for worker in self.workers:
                worker.line.kill()
            for worker in self.workers:
                worker.line.stop()

    def _start(self) -> None:
        lines = self.place.start([worker.line for worker in self.workers])
        self.workers += [_Worker(line) for line in lines]
        self.jobs.workers = max(1, len(self.workers))

    def _give(self) -> bool:
        """Have the next job done, if there are one and a worker for it."""
        worker = next((worker for worker in self.workers if worker.ready and worker.order is None), None)
        if worker is None:
            return False
        if self.returned:
            worker.order = self.returned.pop(0)
        elif (job := self.jobs.next()) is not None:
            worker.order = _Order(job)
        else:
            return False
        worker.line.say(pickle.dumps(worker.order.job, pickle.HIGHEST_PROTOCOL))
        return True

    def _listen(self) -> None:
        waiting = [worker for worker in self.workers if worker.order is not None or not worker.ready]
        speaking = self.place.speaking([worker.line for worker in waiting])
        for worker in waiting:
            if worker.line in speaking:
                self._take_in(worker, *pickle.loads(worker.line.hear()))

    def _take_in(self, worker: _Worker, word: str, what: Any = None) -> None:
        order = worker.order
        if word == "hello":
            worker.line.say(self.content)
        elif word == "ready":
            worker.ready = True
        elif word == "through" and order is not None:
            self.jobs.report(order.job, what)
        elif word == "found" and order is not None:
            worker.order = None
            self.jobs.finish(order.job, what)
        else:
            worker.line.stop()
            self.workers.remove(worker)
            error = what if word == "failed" else UserError(f"A worker on {worker.line.where} {what}.")
            if order is not None:
                self._again(order, error, died=word != "failed")
            elif word == "failed":
                raise error
            elif word == "lost":
                raise UserError(f"{error} It had not begun; what it printed last says why.")

    def _again(self, order: _Order, error: Exception, died: bool) -> None:
        order.died, order.failed = order.died + died, order.failed + (not died)
        if order.failed >= _MOST_FAILURES:
            raise error
        if order.died >= _MOST_TRIES:
            raise UserError(
                f"{_MOST_TRIES} workers died over the same {self.jobs.called(order.job)}. {error} Memory may have run "
                "out: try fewer workers or a smaller batch size. What is finished is kept."
            )
        self.jobs.again(order.job, f"{error}")
        self.returned.append(order)
