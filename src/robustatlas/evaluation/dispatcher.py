"""The dispatcher of an evaluation: hands out the work that a run lacks, in parts, and enters what came of each."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.wording import some
from robustatlas.evaluation.costs import Costs
from robustatlas.evaluation.memory import bytes_of_a_part
from robustatlas.evaluation.plan import Integers, Work
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.work import Found, Job, Manner
from robustatlas.outcomes.records import spans_of

SECONDS = 45.0
"""Aimed at for a part: the most that a crash loses is about a minute."""

_OF_A_BATCH = 240.0
"""Seconds that a plan, which says too much, may give a first part of a whole batch: in smaller parts slots stay empty.
"""

SMALLEST, _GROWTH = 16, 4

_SHORTEST = 10.0
"""Seconds aimed at, at least, for the parts at the end of work that several share; these may have fewer samples."""


_SPANS = 100
"""Ranges of samples that a sentence names."""


class Undertaking(Protocol):
    """What is to be done to samples: an attack, or a certificate."""

    @property
    def record(self) -> Any:
        """As a run knows it."""

    @property
    def told(self) -> tuple[str, ...]:
        """Columns that are read of what a run has already."""

    @property
    def held(self) -> int:
        """Inputs that a sample takes the memory of."""


class Store(Protocol):
    """Where what is found ends: the outcomes of a run, or its certificates."""

    def done(self, record: Any, *, examples: bool = False) -> Integers:
        """Positions of the samples that it holds."""

    def columns(self, record: Any, index: Integers, wanted: Sequence[str] = ...) -> dict[str, NDArray[Any]]:
        """What it holds of some samples."""

    def write(
        self,
        record: Any,
        columns: Mapping[str, NDArray[Any]],
        samples: Mapping[str, NDArray[Any]],
        examples: Any = ...,
        about: Mapping[str, str] | None = ...,
    ) -> None:
        """Publish a part."""


@dataclass
class _Pile:
    """What a task still lacks: ``rows`` of the work that nobody here is at, samples of a part by its time (``size``)
    and by its memory (``most``), and of each job at work how many samples are through."""

    rows: Integers
    size: float
    most: int
    active: dict[int, int] = field(default_factory=dict)


class Dispatcher:
    """Hands out jobs, one after the other, and publishes what is found.

    Args:
        run: where everything ends.
        tasks: what is to be done, in this order; the dearest first where several ``workers`` share it.
        work: the samples.
        mine: ``[N]``: which of them are to be done here.
        manner: how.
        costs: what samples cost, known better with each part.
        part: samples a part; None to aim at equal times.
        workers: how many jobs are done at once.
        display: is told.
        short: seconds aimed at for the first part, by which it is decided who does the rest; None for one like others.
    """

    def __init__(
        self,
        run: Store,
        tasks: Sequence[Undertaking],
        work: Work,
        mine: NDArray[np.bool_],
        manner: Manner,
        costs: Costs,
        part: int | None,
        workers: int,
        display: Progress,
        short: float | None = None,
    ) -> None:
        self.run, self.tasks, self.work, self.manner = run, tasks, work, manner
        self.costs, self.part, self.workers, self.display = costs, part, workers, display
        self.short = short
        sample = work.rows[:1].nbytes
        room = bytes_of_a_part(sample, manner.kept, manner.batch_size)
        self._least = SMALLEST
        self._number = 0
        self.piles: list[_Pile] = []
        display.begin([task.record for task in tasks], int(np.count_nonzero(mine)))
        for number, task in enumerate(tasks):
            held = np.isin(work.index, run.done(task.record, examples=manner.keep_adversarial))
            if (known := mine & held).any():
                columns = run.columns(task.record, work.index[known], task.told)
                costs.expect(number, float(columns["seconds"].mean()))
                display.finish(task.record, columns)
            most, cost = max(SMALLEST, int(room // max(sample * task.held, 1))), costs.of(number)
            filled = min(manner.batch_size, _OF_A_BATCH / cost) if costs.planned(number) else 0
            size = max(SMALLEST, SECONDS / cost, filled)
            self.piles.append(_Pile(np.flatnonzero(mine & ~held), size, most))
        self._dearest_first = sorted(range(len(tasks)), key=costs.of, reverse=True)

    @property
    def lacking(self) -> int:
        """Samples that are still to be done, of all tasks together."""
        return sum(len(pile.rows) for pile in self.piles)

    def next(self) -> Job | None:
        """Return the next job, or None if all are given out."""
        for number in self._dearest_first if self.workers > 1 else range(len(self.tasks)):
            pile = self.piles[number]
            if len(pile.rows):
                rows, pile.rows = np.split(pile.rows, [self._count(number)])
                return self._job(number, rows)
        return None

    def report(self, job: Job, through: int) -> None:
        """So many samples of a job at work are through."""
        active = self.piles[job.task].active
        active[job.number] = through
        self.display.update(self.tasks[job.task].record, sum(active.values()))

    def finish(self, job: Job, found: Found) -> None:
        """Publish what came of a job."""
        task, pile = self.tasks[job.task], self.piles[job.task]
        self.run.write(task.record, found.columns, found.samples, found.examples, found.about)
        pile.active.pop(job.number, None)
        self.costs.learn(job.task, found.seconds, len(job.index))
        fitting = math.floor(SECONDS * len(job.index) / max(found.seconds, 1e-9))
        pile.size = min(max(SMALLEST, fitting), _GROWTH * pile.size)
        self.display.finish(task.record, found.columns)
        self.display.expect(self.remaining() / self.workers)

    def again(self, job: Job, why: str) -> None:
        """Take notice that another worker does a job again; the sentence ``why`` says what happened."""
        self.piles[job.task].active.pop(job.number, None)
        self.display.note(f"{why} Another worker does the {self.called(job)} again.")

    def called(self, job: Job) -> str:
        """Return the words for a job in the middle of a sentence: which samples of the data set it has."""
        spans = [str(first) if end == first + 1 else f"{first} to {end - 1}" for first, end in spans_of(job.index)]
        return f"samples {some(spans, at_most=_SPANS)} of {self.tasks[job.task].record.name!r}"

    def remaining(self) -> float:
        """Seconds of work that are left, for one worker."""
        return sum(self.costs.of(number) * len(pile.rows) for number, pile in enumerate(self.piles))

    def _count(self, number: int) -> int:
        """Samples of the next part of a task. Parts are equal and take about the time aimed at. They get shorter
        towards the end of work that several share (guided self-scheduling: Polychronopoulos and Kuck, 1987). No part is
        so short that more than half of it is what a part costs whatever its length, unless it would take longer than
        `_SHORTEST`."""
        pile, cost = self.piles[number], self.costs.of(number)
        left = len(pile.rows)
        size = max(1.0, self.part or min(pile.size, pile.most))
        if self.short is not None and self.part is None and not self.costs.measured:
            size = min(size, max(SMALLEST, self.short / cost))
        parts = math.ceil(left / size)
        if self.workers > 1 and self.part is None:
            least = min(max(self._least, self.costs.fixed), max(1.0, _SHORTEST / cost))
            guided = max(least, self.remaining() / (self.workers * cost))
            parts = max(parts, min(math.ceil(left / guided), math.floor(left / least)))
        return math.ceil(left / parts)

    def _job(self, number: int, rows: Integers) -> Job:
        self._number += 1
        return Job.of(self.work, rows, self._number, number)
