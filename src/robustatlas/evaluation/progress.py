"""Progress of an evaluation: a bar with rate, time left and robust accuracy so far, or plain lines in a log."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from robustatlas.common.escaping import terminal_text
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import format_duration

D = TypeVar("D")

_LINE_EVERY = 30.0
"""Seconds between the lines of a log."""


class Announced(Protocol):
    """Record of an attack or a certificate, as far as a display needs it."""

    survivor_word: ClassVar[str]

    @property
    def name(self) -> str:
        """Name of the attack."""

    @property
    def key(self) -> str:
        """Distinct for each piece of work."""

    @property
    def strengths(self) -> tuple[float, ...]:
        """Strengths of the attack, increasing."""

    def withstands(self, columns: Mapping[str, NDArray[Any]], place: int) -> NDArray[np.bool_]:
        """``[M]``: whether samples of which ``columns`` were found withstand the strength at that place."""


class Progress:
    """Receives the course of an evaluation; this base shows nothing. Give an object of your own to
    ``evaluate(progress=...)``."""

    def begin(self, records: Sequence[Announced], samples: int) -> None:
        """The work: ``samples`` under each of the attacks."""

    def warn(self, message: str) -> None:
        """A warning of the checks before the work, or of what was noticed during it. It is a Python warning as well,
        which is why the displays of this module show nothing here."""

    def note(self, message: str) -> None:
        """Something to know that is not a warning."""

    def update(self, record: Announced, settled: int) -> None:
        """``settled`` samples of the parts at work are through."""

    def finish(self, record: Announced, columns: Mapping[str, NDArray[Any]]) -> None:
        """A part is through; ``columns``: what was found (see OUTCOME_COLUMNS and CERTIFIED_COLUMNS); of what the run
        had already ``index``, ``seconds`` and what ``record.withstands`` looks at."""

    def expect(self, seconds: float) -> None:
        """All that is left will take about so long, by what each attack has cost so far."""


class _Tally:
    """Samples through so far, and how many of them resist the middle strength."""

    def __init__(self, record: Announced) -> None:
        self.begun: float | None = None
        self.found = self.through = self.robust = 0
        self.record = record
        self.middle = (len(record.strengths) - 1) // 2

    def start(self) -> None:
        if self.begun is None:
            self.begun, self.found = time.perf_counter(), self.through

    def add(self, columns: Mapping[str, NDArray[Any]]) -> None:
        robust = self.record.withstands(columns, self.middle)
        self.through += len(robust)
        self.robust += int(np.count_nonzero(robust))

    @property
    def note(self) -> str:
        if not self.through:
            return ""
        share = 100 * self.robust / self.through
        return (
            f"{share:.1f} % {self.record.survivor_word} at "
            f"{format_strength(self.record.strengths[self.middle], attack=self.record.name)}"
        )

    def rate(self, settled: int = 0) -> float:
        """Samples a second since the work began; what was found in the run does not count."""
        if self.begun is None:
            return 0.0
        return (self.through + settled - self.found) / max(time.perf_counter() - self.begun, 1e-9)


class BarProgress(Progress):
    """Bars in a terminal, one an attack."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=18),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TextColumn("{task.fields[left]}"),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self.total: TaskID | None = None
        self.samples = 0
        self.tasks: dict[str, TaskID] = {}
        self.tallies: dict[str, _Tally] = {}

    def begin(self, records: Sequence[Announced], samples: int) -> None:
        self.samples = samples
        for record in records:
            self.tasks[record.key] = self._row(record.name, samples)
            self.tallies[record.key] = _Tally(record)

    def _row(self, name: str, total: int | None) -> TaskID:
        return self.bars.add_task(name, total=total, start=False, rate="", note="", left="")

    def expect(self, seconds: float) -> None:
        if self.total is None and len(self.tasks) > 1:
            self.total = self._row("all", len(self.tallies) * self.samples)
        if self.total is not None:
            through = sum(tally.through for tally in self.tallies.values())
            self.bars.update(self.total, completed=through, left=f"{format_duration(seconds)} left")

    def note(self, message: str) -> None:
        self.console.print(terminal_text(message), highlight=False)

    def update(self, record: Announced, settled: int) -> None:
        tally, task = self.tallies[record.key], self.tasks[record.key]
        if tally.begun is None:
            tally.start()
            self.bars.start_task(task)
        rate = tally.rate(settled)
        through = tally.through + settled
        left = f"{format_duration((self.samples - through) / rate)} left" if rate else ""
        self.bars.update(task, completed=through, rate=f"{rate:.3g}/s" if rate else "", left=left)

    def finish(self, record: Announced, columns: Mapping[str, NDArray[Any]]) -> None:
        tally = self.tallies[record.key]
        tally.add(columns)
        self.bars.update(self.tasks[record.key], completed=tally.through, note=tally.note)
        if tally.through >= self.samples:
            self.bars.update(self.tasks[record.key], left="")


class LineProgress(Progress):
    """Plain lines, for logs: at the end of each part and every half minute."""

    def __init__(self) -> None:
        self.samples = 0
        self.tallies: dict[str, _Tally] = {}
        self.last = time.perf_counter()

    def begin(self, records: Sequence[Announced], samples: int) -> None:
        self.samples = samples
        self.tallies = {record.key: _Tally(record) for record in records}

    def note(self, message: str) -> None:
        self._say(message)

    def update(self, record: Announced, settled: int) -> None:
        self.tallies[record.key].start()
        if time.perf_counter() - self.last > _LINE_EVERY:
            self._line(record, settled)

    def finish(self, record: Announced, columns: Mapping[str, NDArray[Any]]) -> None:
        self.tallies[record.key].add(columns)
        self._line(record, 0)

    def expect(self, seconds: float) -> None:
        if len(self.tallies) > 1 and seconds > 0:
            self._say(f"All attacks: {format_duration(seconds)} left")

    def _line(self, record: Announced, settled: int) -> None:
        tally = self.tallies[record.key]
        through, rate = tally.through + settled, tally.rate(settled)
        parts = [f"{through}/{self.samples} samples", tally.note]
        if rate:
            parts += [f"{rate:.3g} samples/s", f"{format_duration((self.samples - through) / rate)} left"]
        self._say(f"{record.name}: {', '.join(part for part in parts if part)}")
        self.last = time.perf_counter()

    @staticmethod
    def _say(message: str) -> None:
        print(message, file=sys.stderr, flush=True)


def progress_shown(progress: bool | Progress | None) -> AbstractContextManager[Progress]:
    """The display that ``evaluate(progress=...)`` asks for."""
    return choose_display(progress, Progress, LineProgress, BarProgress)


@contextmanager
def choose_display(
    progress: bool | D | None, silent: type[D], lines: Callable[[], D], barred: Callable[[Console], Any]
) -> Iterator[D]:
    """The display of a kind that ``progress`` asks for: one's own, ``lines``, or where standard error is a terminal
    one with ``bars``, and by default that; else a ``silent`` one."""
    console = Console(stderr=True, highlight=False)
    if isinstance(progress, silent):
        yield progress
    elif not progress and (progress is not None or not console.is_terminal):
        yield silent()
    elif console.is_terminal:
        display = barred(console)
        with display.bars:
            yield display
    else:
        yield lines()
