"""``robustatlas merge``: several runs as one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli._terminal import accuracy_tables, safe
from robustatlas.outcomes import merge as merge_runs
from robustatlas.result import Result


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Run directories of one model and data set.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder of the joined run.")],
) -> None:
    """Join runs of the same model and data; they themselves stay as they are.

    Where several hold the same attack on the same sample, the smallest example counts. Runs that older versions wrote
    are converted.

    robustatlas merge runs/first runs/second -o runs/both
    """
    merged = Result.of_run(merge_runs(runs, output))
    console = Console()
    console.print(accuracy_tables(merged))
    console.print(f"Run: {safe(output)}   More: robustatlas show {safe(output)}", highlight=False, soft_wrap=True)
