"""What a person sees while the work goes on: a bar with rate, time left and robust accuracy so far, or plain lines in
a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """Receives the course of an evaluation; this base shows nothing. Give an object of your own to
    ``evaluate(progress=...)``."""

    def begin(self, attacks: Sequence[str], samples: int) -> None:
        """The work: ``samples`` under each of ``attacks``."""

    def warn(self, message: str) -> None:
        """A warning of the checks before the work."""

    def update(self, attack: str, settled: int) -> None:
        """``settled`` samples of the shard at work are through."""

    def finish(self, attack: str, minimal_strength: NDArray[np.float64], strengths: Sequence[float]) -> None:
        """A shard is through (or was found on disk)."""


class _Tally:
    """Samples through so far, and how many of them resist the middle strength."""

    def __init__(self) -> None:
        self.through = 0
        self.robust = 0

    def add(self, minimal_strength: NDArray[np.float64], middle: float) -> str:
        self.through += len(minimal_strength)
        self.robust += int((minimal_strength > middle).sum())
        return f"{100 * self.robust / self.through:.1f} % robust at {middle:g}"


def _middle(strengths: Sequence[float]) -> float:
    return strengths[(len(strengths) - 1) // 2]


class BarProgress(Progress):
    """Bars in a terminal, one an attack."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=18),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self.tasks: dict[str, TaskID] = {}
        self.tallies: dict[str, _Tally] = {}
        self.begun: dict[str, float] = {}

    def begin(self, attacks: Sequence[str], samples: int) -> None:
        for attack in attacks:
            self.tasks[attack] = self.bars.add_task(attack, total=samples, start=False, rate="", note="")
            self.tallies[attack] = _Tally()

    def warn(self, message: str) -> None:
        self.console.print(f"[yellow]Warning:[/yellow] {message}", highlight=False)

    def update(self, attack: str, settled: int) -> None:
        if attack not in self.begun:
            self.begun[attack] = time.perf_counter()
            self.bars.start_task(self.tasks[attack])
        through = self.tallies[attack].through + settled
        rate = through / max(time.perf_counter() - self.begun[attack], 1e-9)
        self.bars.update(self.tasks[attack], completed=through, rate=f"{rate:.1f}/s" if through else "")

    def finish(self, attack: str, minimal_strength: NDArray[np.float64], strengths: Sequence[float]) -> None:
        note = self.tallies[attack].add(minimal_strength, _middle(strengths))
        self.update(attack, 0)
        self.bars.update(self.tasks[attack], note=note)


class LineProgress(Progress):
    """One plain line per finished shard, for logs."""

    def __init__(self) -> None:
        self.samples = 0
        self.begun = time.perf_counter()
        self.tallies: dict[str, _Tally] = {}

    def begin(self, attacks: Sequence[str], samples: int) -> None:
        self.samples = samples
        self.tallies = {attack: _Tally() for attack in attacks}

    def warn(self, message: str) -> None:
        print(f"Warning: {message}", file=sys.stderr, flush=True)

    def finish(self, attack: str, minimal_strength: NDArray[np.float64], strengths: Sequence[float]) -> None:
        note = self.tallies[attack].add(minimal_strength, _middle(strengths))
        through = sum(t.through for t in self.tallies.values())
        elapsed = time.perf_counter() - self.begun
        left = elapsed / through * (self.samples * len(self.tallies) - through)
        print(
            f"{attack}: {self.tallies[attack].through}/{self.samples} samples, {note}, "
            f"{through / elapsed:.1f} samples/s, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def progress_shown(progress: bool | Progress | None) -> Iterator[Progress]:
    """The display that ``evaluate(progress=...)`` asks for."""
    console = Console(stderr=True)
    if isinstance(progress, Progress):
        yield progress
    elif progress or (progress is None and console.is_terminal):
        if not console.is_terminal:
            yield LineProgress()
            return
        display = BarProgress(console)
        with display.bars:
            yield display
    else:
        yield Progress()
