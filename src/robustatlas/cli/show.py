"""``robustatlas show``: what a run found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli._metrics_section import print_metrics
from robustatlas.cli._tables import accuracy_tables


def show(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    explain: Annotated[bool, typer.Option(help="Define each number.")] = False,
) -> None:
    """Print what a run found: accuracies at each strength, and every metric that the run supports.

    robustatlas show runs/mynet-cifar10 --explain
    """
    from robustatlas.outcomes import load_result

    result = load_result(run)
    console = Console()
    console.print(accuracy_tables(result))
    print_metrics(result, console, explain=explain)
    for warning in result.manifest.context.warnings:
        console.print(f"[yellow]Warning:[/yellow] {warning}")
