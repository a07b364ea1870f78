"""The dispatcher of a run: it hands out the missing samples in chunks of equal time and stores their rows."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.wording import list_names
from robustatlas.evaluation.chunks import Chunk, ChunkResult, ChunkSettings, RowStore, Task
from robustatlas.evaluation.cores import SMALLEST_CHUNK
from robustatlas.evaluation.memory import bytes_of_a_part
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.samples import ChosenSamples
from robustatlas.outcomes.outcome import Booleans, Integers
from robustatlas.outcomes.records import sample_spans

_TYPICAL = 500
"""Forward and backward pairs of a sample that nothing is known of, on average over the tasks that may take so many."""


_FIXED = (0, 8, 16, 32, 64, 128, 256)
"""Cost of a chunk beside its samples, in samples: its last searches take steps that are as long as those of a full
batch. The value that fits the measured times best is taken."""


_LATEST = 64
"""Parts of a task that are looked at: work on many machines has too many to look at all of them each time."""


class Costs:
    """Seconds a sample of each task, and what a part costs whatever its length.

    A part of n samples takes b (n + f) seconds, with one b for each task and one f for all: they share a network and a
    loop. f is the one that fits the latest parts best.

    Args:
        weights: passes that a sample of each task takes at most.
        pair: seconds that the forward and backward pass of one sample take.

    Example:
        >>> costs = Costs([1.0, 2.0], pair=0.01)
        >>> costs.learn(0, seconds=30.0, samples=14)
        >>> costs.learn(0, seconds=50.0, samples=34)
        >>> costs.seconds_per_sample(0), costs.seconds_per_sample(1), costs.fixed
        (1.0, 2.0, 16)
    """

    def __init__(self, weights: Sequence[float], pair: float) -> None:
        share = min(1.0, _TYPICAL * len(weights) / max(sum(weights), 1.0))
        self._expected = [max(pair, 2e-12) * share * weight for weight in weights]
        self._known = [False] * len(weights)
        self._parts = [deque[tuple[int, float]](maxlen=_LATEST) for _ in weights]
        self._measured: dict[int, float] = {}
        self.fixed = 0

    def expect(self, task: int, seconds: float) -> None:
        """Expect seconds that a sample of a task took before, perhaps elsewhere; what is measured here replaces it."""
        if seconds > 0:
            self._expected[task], self._known[task] = seconds, True

    def learn(self, task: int, seconds: float, samples: int) -> None:
        """Learn the seconds of a chunk."""
        if seconds > 0:
            self._parts[task].append((samples, seconds))
            begun = {number: np.array(parts, float) for number, parts in enumerate(self._parts) if parts}
            largest = max(parts[:, 0].max() for parts in begun.values())
            tried = [fixed for fixed in _FIXED if 2 * fixed <= largest]  # more would rest on chance
            self.fixed = min(tried, key=lambda fixed: sum(_misfit(parts, fixed) for parts in begun.values()))
            self._measured = {number: _per_sample(parts, self.fixed) for number, parts in begun.items()}

    @property
    def measured(self) -> bool:
        """True if a chunk was measured."""
        return bool(self._measured)

    def planned(self, task: int) -> bool:
        """Return if nothing but its plan is known of a task."""
        return not self.measured and not self._known[task]

    def seconds_per_sample(self, task: int) -> float:
        """Return the seconds of a sample. Tasks that have not begun keep their expected ratio to those that have."""
        known = self._measured
        if task in known:
            return known[task]
        return self._expected[task] * (
            sum(known.values()) / sum(self._expected[number] for number in known) if known else 1.0
        )


def _per_sample(parts: NDArray[np.float64], fixed: int) -> float:
    """Return the seconds of a sample from the samples and seconds of measured chunks [P, 2]."""
    samples, seconds = parts.sum(0)
    return float(seconds / (samples + fixed * len(parts)))


def _misfit(parts: NDArray[np.float64], fixed: int) -> float:
    """Return the sum of squared relative errors of a fixed cost."""
    samples, seconds = parts.T
    return float(np.square(1 - _per_sample(parts, fixed) * (samples + fixed) / seconds).sum())


CHUNK_SECONDS = 45.0
"""Seconds of a chunk that are aimed at, so that a crash loses about a minute at most."""
_FULL_BATCH_SECONDS = 240.0
"""Seconds that a plan, which allows too much, may give a first chunk of a full batch. Smaller ones leave slots
empty."""
_GROWTH = 4
"""Factor by which a chunk may be larger than the one before it."""
_SHORTEST_SECONDS = 10.0
"""Seconds of the last chunks that several workers share, at least; these may have fewer samples than others."""
_LISTED_SPANS = 100
"""Ranges of samples that a sentence names, at most."""


@dataclass
class _MissingRows:
    """Samples of one task that are not handed out yet.

    Attributes:
        rows: positions among the chosen samples.
        size: samples of a chunk, by its time.
        most: samples of a chunk, by its memory.
        finished: number of a chunk at work -> its samples that are finished.
    """

    rows: Integers
    size: float
    most: int
    finished: dict[int, int] = field(default_factory=dict)


class Dispatcher:
    """Hands out chunks, one after the other, and stores what comes of them.

    Args:
        store: part of the run that holds the rows.
        tasks: tasks in this order; if several workers share them, the most expensive first.
        samples: chosen samples.
        mine: ``[N]`` samples to be done here.
        settings: how chunks are worked on.
        costs: cost of samples, known better with each chunk.
        workers: number of chunks at work at once.
        display: progress bar.
        samples_per_chunk: number of samples of a chunk; None to aim at equal times.
        first_seconds: seconds aimed at for the first chunk, after which it is decided who does the rest; None for a
            first chunk like the others.
    """

    def __init__(
        self,
        store: RowStore,
        tasks: Sequence[Task],
        samples: ChosenSamples,
        mine: Booleans,
        settings: ChunkSettings,
        costs: Costs,
        workers: int,
        display: Progress,
        *,
        samples_per_chunk: int | None = None,
        first_seconds: float | None = None,
    ) -> None:
        self.store, self.tasks, self.samples, self.settings = store, tasks, samples, settings
        self.costs, self.workers, self.display = costs, workers, display
        self.samples_per_chunk, self.first_seconds = samples_per_chunk, first_seconds
        self._chunks = 0
        self.missing: list[_MissingRows] = []
        display.begin([task.record for task in tasks], int(np.count_nonzero(mine)))
        for number, task in enumerate(tasks):
            stored = np.isin(samples.index, store.stored_samples(task.record, examples=settings.keep_adversarial))
            self._count_stored(number, samples.index[mine & stored])
            self.missing.append(self._missing_rows(number, np.flatnonzero(mine & ~stored)))
        self._most_expensive_first = sorted(range(len(tasks)), key=costs.seconds_per_sample, reverse=True)

    def _count_stored(self, number: int, index: Integers) -> None:
        """Show the rows that the run has of a task, and learn their cost."""
        if len(index):
            task = self.tasks[number]
            columns = self.store.columns(task.record, index, task.stored_columns)
            self.costs.expect(number, float(columns["seconds"].mean()))
            self.display.finish(task.record, columns)

    def _missing_rows(self, number: int, rows: Integers) -> _MissingRows:
        task, settings, cost = self.tasks[number], self.settings, self.costs.seconds_per_sample(number)
        sample = self.samples.rows[:1].nbytes
        room = bytes_of_a_part(sample, settings.kept, settings.batch_size)
        most = max(SMALLEST_CHUNK, int(room // max(sample * task.inputs_per_sample, 1)))
        full_batch = min(settings.batch_size, _FULL_BATCH_SECONDS / cost) if self.costs.planned(number) else 0
        return _MissingRows(rows, max(SMALLEST_CHUNK, CHUNK_SECONDS / cost, full_batch), most)

    @property
    def unfinished_samples(self) -> int:
        """Number of samples that are still to be handed out, of all tasks together."""
        return sum(len(missing.rows) for missing in self.missing)

    def next(self) -> Chunk | None:
        """Return the next chunk, or None if all are handed out."""
        for number in self._most_expensive_first if self.workers > 1 else range(len(self.tasks)):
            missing = self.missing[number]
            if len(missing.rows):
                rows, missing.rows = np.split(missing.rows, [self._chunk_size(number)])
                self._chunks += 1
                return Chunk.cut(self.samples, rows, self._chunks, number)
        return None

    def report(self, chunk: Chunk, finished: int) -> None:
        """Show that so many samples of a chunk at work are finished."""
        at_work = self.missing[chunk.task].finished
        at_work[chunk.number] = finished
        self.display.update(self.tasks[chunk.task].record, sum(at_work.values()))

    def finish(self, chunk: Chunk, result: ChunkResult) -> None:
        """Store the rows of a chunk."""
        task, missing = self.tasks[chunk.task], self.missing[chunk.task]
        self.store.write(task.record, result.columns, result.samples, result.examples, result.circumstances)
        missing.finished.pop(chunk.number, None)
        self.costs.learn(chunk.task, result.seconds, len(chunk.index))
        fitting = math.floor(CHUNK_SECONDS * len(chunk.index) / max(result.seconds, 1e-9))
        missing.size = min(max(SMALLEST_CHUNK, fitting), _GROWTH * missing.size)
        self.display.finish(task.record, result.columns)
        self.display.expect(self.work_seconds() / self.workers)

    def note_retry(self, chunk: Chunk, why: str) -> None:
        """Show that another worker does a chunk again; the sentence ``why`` says what happened."""
        self.missing[chunk.task].finished.pop(chunk.number, None)
        self.display.note(f"{why} Another worker does the {self.describe(chunk)} again.")

    def describe(self, chunk: Chunk) -> str:
        """Return the words for a chunk in the middle of a sentence: its samples of the data set."""
        spans = [
            str(first) if end == first + 1 else f"{first} to {end - 1}" for first, end in sample_spans(chunk.index)
        ]
        return f"samples {list_names(spans, at_most=_LISTED_SPANS)} of {self.tasks[chunk.task].record.name!r}"

    def work_seconds(self) -> float:
        """Return the seconds of work that are left, for one worker."""
        return sum(
            self.costs.seconds_per_sample(number) * len(missing.rows) for number, missing in enumerate(self.missing)
        )

    def _chunk_size(self, number: int) -> int:
        """Return the number of samples of the next chunk of a task.

        Chunks are equal and take about the time that is aimed at. They get shorter towards the end of work that several
        share (guided self-scheduling: Polychronopoulos and Kuck, 1987). No chunk is so short that more than half of it
        is what a chunk costs whatever its length, unless it would take longer than `_SHORTEST_SECONDS`.
        """
        missing, cost = self.missing[number], self.costs.seconds_per_sample(number)
        left = len(missing.rows)
        size = max(1.0, self.samples_per_chunk or min(missing.size, missing.most))
        if self.first_seconds is not None and self.samples_per_chunk is None and not self.costs.measured:
            size = min(size, max(SMALLEST_CHUNK, self.first_seconds / cost))
        chunks = math.ceil(left / size)
        if self.workers > 1 and self.samples_per_chunk is None:
            least = min(max(SMALLEST_CHUNK, self.costs.fixed), max(1.0, _SHORTEST_SECONDS / cost))
            guided = max(least, self.work_seconds() / (self.workers * cost))
            chunks = max(chunks, min(math.ceil(left / guided), math.floor(left / least)))
        return math.ceil(left / chunks)
