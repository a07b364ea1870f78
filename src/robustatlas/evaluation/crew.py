"""Those who do the work of an evaluation: this process, or others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from robustatlas.errors import UserError
from robustatlas.evaluation.desk import Desk
from robustatlas.evaluation.work import Doer, Found, Job

_MOST_TRIES = 3
"""Workers that may die over the same job before it is taken for the cause."""
_MOST_FAILURES = 2
"""Workers that may fail with an error over the same job: a sick device is not the model's fault."""


class Lost(Exception):  # noqa: N818
    """A worker died; the message says how."""


News = tuple[Job, Found | Exception]


class Crew(Protocol):
    """Does jobs; reports to the desk how far each is."""

    def free(self) -> bool:
        """Whether somebody can take a job now."""
        ...

    def busy(self) -> bool:
        """Whether somebody is at a job."""
        ...

    def give(self, job: Job) -> None:
        """Have a job done."""
        ...

    def news(self) -> Iterator[News]:
        """Wait until some job has ended; what came of each that has: an error, :class:`Lost` where its worker died."""
        ...


@dataclass
class Hand:
    """A worker elsewhere: what it is at, and whether it has its model."""

    job: Job | None = field(default=None, kw_only=True)
    ready: bool = field(default=False, kw_only=True)


H = TypeVar("H", bound=Hand)


class Hands(ABC, Generic[H]):
    """A crew of several workers elsewhere; the ``desk`` hears how far their jobs are."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.hands: list[H] = []

    def free(self) -> bool:
        return any(hand.ready and hand.job is None for hand in self.hands)

    def busy(self) -> bool:
        """Whether somebody is at a job, or on the way to take one."""
        return any(hand.job is not None for hand in self.hands) or not any(hand.ready for hand in self.hands)

    def give(self, job: Job) -> None:
        hand = next(hand for hand in self.hands if hand.ready and hand.job is None)
        hand.job = job
        self._order(hand, job)

    @abstractmethod
    def _order(self, hand: H, job: Job) -> None:
        """Send a worker its job."""

    @abstractmethod
    def _dismiss(self, hand: H) -> None:
        """Let a worker go that died or failed; there will be another in its place."""

    def _said(self, hand: H, word: str, *rest: Any) -> Iterator[News]:
        """Take in what a worker says, see :func:`robustatlas.evaluation.worker.serve`."""
        job = hand.job
        if word == "ready":
            hand.ready = True
        elif word == "failed" and job is None:
            raise rest[0]
        elif word == "failed" and job is not None:
            self._dismiss(hand)
            yield job, rest[0]
        elif word == "through" and job is not None:
            self.desk.report(job, rest[0])
        elif word == "found" and job is not None:
            hand.job = None
            yield job, rest[0]

    def _lost(self, hand: H, said: str) -> Iterator[News]:
        """Do without a worker whose process ended, as ``said``."""
        job = hand.job
        if job is None:
            raise UserError(f"{said} It had not begun; what it printed last says why.")
        self._dismiss(hand)
        yield job, Lost(said)


class Alone:
    """This process does one job after the other."""

    def __init__(self, doer: Doer, desk: Desk) -> None:
        self.doer, self.desk = doer, desk
        self.job: Job | None = None

    def free(self) -> bool:
        return self.job is None

    def busy(self) -> bool:
        return self.job is not None

    def give(self, job: Job) -> None:
        self.job = job

    def news(self) -> Iterator[News]:
        job, self.job = self.job, None
        if job is not None:
            yield job, self.doer.do(job, lambda through: self.desk.report(job, through))


def work_through(desk: Desk, crew: Crew) -> None:
    """Have all work of the desk done.

    A job whose worker died or failed is done again by another one, before either counts as the job's fault.

    Raises:
        UserError: what is wrong with the model, or workers that die over the same samples again and again.
    """
    tries = Counter[tuple[int, bool]]()
    while True:
        while crew.free() and _give(desk, crew):
            pass
        if crew.busy():
            _hear(desk, crew, tries)
        elif not desk.wait():
            return


def _give(desk: Desk, crew: Crew) -> bool:
    """Have the next job done, if there is one; a function of its own, as the next, so that no job and nothing that came
    of it is held while others are at work."""
    job = desk.next()
    if job is not None:
        crew.give(job)
    return job is not None


def _hear(desk: Desk, crew: Crew, tries: Counter[tuple[int, bool]]) -> None:
    """Enter what has been done; ``tries``: how many workers failed (False) or died (True) over a job, by its number."""
    for job, outcome in crew.news():
        if isinstance(outcome, Found):
            desk.finish(job, outcome)
            continue
        died = isinstance(outcome, Lost)
        tries[job.number, died] += 1
        if tries[job.number, died] >= (_MOST_TRIES if died else _MOST_FAILURES):
            raise _final(outcome, job)
        desk.display.note(f"{outcome} Its {len(job.index)} samples are given to another worker.")
        desk.give_back(job)


def _final(outcome: Exception, job: Job) -> Exception:
    if not isinstance(outcome, Lost):
        return outcome
    return UserError(
        f"{_MOST_TRIES} workers died over the same {len(job.index)} samples. {outcome} Memory may have run out: try "
        "fewer workers or a smaller batch size. Finished parts of the run are kept."
    )
