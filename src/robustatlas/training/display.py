"""Displays of a training: a bar with the remaining time, or a plain line for each epoch in a log."""

import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from robustatlas.evaluation.progress import choose_display

_REFRESH = 0.2


class TrainingDisplay:
    """Base of displays of a training; it shows nothing. ``train(progress=...)`` accepts your own subclass.

    Example:
        >>> class Quiet(TrainingDisplay):
        ...     pass
        >>> isinstance(Quiet(), TrainingDisplay)
        True
    """

    def begin(self, name: str, steps: int, done: int) -> None:
        """Begin the display of ``steps`` updates, of which ``done`` are finished already."""

    def update(self, done: int, loss: float | None) -> None:
        """Show that ``done`` updates are finished, with the ``loss`` of the last one if it is known."""

    def epoch(self, record: Mapping[str, Any]) -> None:
        """Show the record of an epoch, which also goes to the log."""

    def warn(self, message: str) -> None:
        """Show a warning, which is a Python warning as well."""


def format_record(record: Mapping[str, Any]) -> str:
    """Return the numbers of an epoch in one line.

    >>> format_record({"loss": 0.51, "training_accuracy": 80.2, "clean": 91.0, "robust": 71.25})
    'loss 0.510, training 80.2 %, held out: clean 91.0 %, robust 71.2 %'
    >>> each = {"robust/a": 70.0, "robust/b": 65.0}
    >>> format_record({"loss": 0.5, "training_accuracy": 80.0, "clean": 91.0, "robust": 60.0} | each)
    'loss 0.500, training 80.0 %, held out: clean 91.0 %, a 70.0 %, b 65.0 %, all 60.0 %'
    """
    text = f"loss {record['loss']:.3f}, training {record['training_accuracy']:.1f} %"
    if record.get("clean") is not None:
        text += f", held out: clean {record['clean']:.1f} %"
        own = [f"{key.removeprefix('robust/')} {value:.1f} %" for key, value in record.items() if "/" in key]
        if len(own) > 1:
            text += f", {', '.join(own)}"
        if record.get("robust") is not None:
            text += f", {'all' if len(own) > 1 else 'robust'} {record['robust']:.1f} %"
    return text


class BarDisplay(TrainingDisplay):
    """Bar in a terminal, with a line for each epoch above it."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[note]}"),
            console=console,
        )
        self.task = self.bars.add_task("", total=None, note="")
        self.refreshed = 0.0

    def begin(self, name: str, steps: int, done: int) -> None:
        self.bars.reset(self.task, description=name, total=steps, completed=done, note="")

    def update(self, done: int, loss: float | None) -> None:
        """Move the bar, a few times a second."""
        if time.perf_counter() - self.refreshed > _REFRESH:
            self.refreshed = time.perf_counter()
            self.bars.update(self.task, completed=done, note="" if loss is None else f"loss {loss:.3f}")

    def epoch(self, record: Mapping[str, Any]) -> None:
        self.console.print(f"epoch {record['epoch']}/{record['epochs']}: {format_record(record)}", highlight=False)


class LineDisplay(TrainingDisplay):
    """Plain line for each epoch, for logs."""

    def __init__(self) -> None:
        self.name, self.begun = "", time.perf_counter()
        self.first: int | None = None

    def begin(self, name: str, steps: int, done: int) -> None:
        self.name, self.begun = name, time.perf_counter()

    def epoch(self, record: Mapping[str, Any]) -> None:
        if self.first is None:
            self.first = record["epoch"] - 1
        made = record["epoch"] - self.first
        left = (time.perf_counter() - self.begun) / max(made, 1) * (record["epochs"] - record["epoch"])
        print(
            f"{self.name}: epoch {record['epoch']}/{record['epochs']}, {format_record(record)}, {left:.0f} s left",
            file=sys.stderr,
            flush=True,
        )


def open_display(progress: bool | TrainingDisplay | None) -> AbstractContextManager[TrainingDisplay]:
    """Return the display that ``train(progress=...)`` asks for: by default a bar where standard error is a terminal."""
    return choose_display(progress, TrainingDisplay, LineDisplay, BarDisplay)
