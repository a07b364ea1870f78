"""One training of the command line, and what is said at its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._stopped import stopped_by_hand
from robustatlas.cli._terminal import safe
from robustatlas.common.wording import strength

if TYPE_CHECKING:
    from robustatlas.data import Dataset
    from robustatlas.training import Trained
    from robustatlas.training.request import TrainingRequest


def carry_out(asked: TrainingRequest, data: Dataset, extra: Dataset | None, out: Path, seed: int) -> None:
    from robustatlas.report.training import write_training_page

    with stopped_by_hand(lambda: f"Stopped. The checkpoint is in {out}; the same command goes on from there."):
        trained = asked.train(data, out, seed, extra, progress=True)
    _say(trained, out, write_training_page(out))


def _say(trained: Trained, out: Path, page: Path) -> None:
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out accuracy, %")
    table.add_column("", justify="right")
    for name, value in trained.card.accuracies.items():
        at = trained.card.trained_on.get(name)
        table.add_row(name if at is None else f"{name} {strength(at, of=name)}", f"{value:.1f}")
    console.print(table)
    for note in trained.card.notes:
        console.print(safe(note), soft_wrap=True)
    for warning in trained.card.warnings:
        console.print(f"[yellow]Warning:[/yellow] {safe(warning)}", soft_wrap=True)
    console.print(f"Weights and card: {safe(out)}   Figure: {safe(page)}", soft_wrap=True)
