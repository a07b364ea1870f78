"""Displays of the progress of a study, one for all of its steps."""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from robustatlas.common.wording import duration
from robustatlas.evaluation.progress import Announced, Progress
from robustatlas.training.display import TrainingDisplay


class StudyDisplay:
    """Receives the course of a study; this base shows nothing."""

    def step(self, name: str, number: int, of: int) -> None:
        """Begin the step ``number`` (from 1) of ``of`` steps."""

    def share(self, share: float) -> None:
        """Receive the share of the step that is done, in [0, 1]."""

    def finish_step(self, seconds: float) -> None:
        """Finish the step, which took ``seconds``."""

    def say(self, sentence: str) -> None:
        """Show a sentence."""


class StudyLines(StudyDisplay):
    """A plain line for each step, for logs."""

    def __init__(self) -> None:
        self.name = ""

    def step(self, name: str, number: int, of: int) -> None:
        self.name = f"[{number}/{of}] {name}"

    def finish_step(self, seconds: float) -> None:
        self.say(f"{self.name}: {duration(seconds)}")

    def say(self, sentence: str) -> None:
        print(sentence, file=sys.stderr, flush=True)


class StudyBars(StudyLines):
    """Two bars in a terminal, one of all steps and one of the step at work, and a line above them for each step."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=18))
        self.bars = Bars(*columns, TextColumn("{task.percentage:>3.0f} %"), TimeElapsedColumn(), console=console)
        self.all = self.bars.add_task("all steps", total=None)
        self.one = self.bars.add_task("", total=1.0)

    def step(self, name: str, number: int, of: int) -> None:
        super().step(name, number, of)
        self.bars.update(self.all, total=of, completed=number - 1)
        self.bars.reset(self.one, description=name, total=1.0)

    def share(self, share: float) -> None:
        self.bars.update(self.one, completed=share)

    def say(self, sentence: str) -> None:
        self.console.print(sentence, highlight=False, markup=False, soft_wrap=True)


class OfTraining(TrainingDisplay):
    """The course of a training, handed on as the share of a step."""

    def __init__(self, display: StudyDisplay) -> None:
        self.display, self.steps, self.told = display, 1, 0.0

    def begin(self, name: str, steps: int, done: int) -> None:
        self.steps = max(steps, 1)

    def update(self, done: int, loss: float | None) -> None:
        """Tell the share, a few times a second."""
        if time.perf_counter() - self.told > 0.2:
            self.told = time.perf_counter()
            self.display.share(done / self.steps)


class OfEvaluation(Progress):
    """The course of an evaluation, handed on as the share of a step."""

    def __init__(self, display: StudyDisplay) -> None:
        self.display, self.total = display, 1
        self.done: dict[str, int] = {}

    def begin(self, records: Sequence[Announced], samples: int) -> None:
        self.total = max(1, len(records) * samples)

    def update(self, record: Announced, settled: int) -> None:
        self._tell({**self.done, record.key: self.done.get(record.key, 0) + settled})

    def finish(self, record: Announced, columns: Mapping[str, NDArray[Any]]) -> None:
        self.done[record.key] = self.done.get(record.key, 0) + len(columns["index"])
        self._tell(self.done)

    def _tell(self, done: Mapping[str, int]) -> None:
        self.display.share(min(1.0, sum(done.values()) / self.total))
