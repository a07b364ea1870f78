"""``robustatlas show``: what a run found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli._metrics_section import chosen_reference, parse_strength_of, print_metrics
from robustatlas.cli._tables import accuracy_tables


def show(
    run: Annotated[Path, typer.Argument(help="Run directory.")],
    explain: Annotated[bool, typer.Option(help="Define each number.")] = False,
    reference: Annotated[
        str | None,
        typer.Option(help="Reference by name or file; by default the shipped one that fits, 'none' for no reference."),
    ] = None,
    trained_on: Annotated[
        str | None,
        typer.Option(help="What the model was trained on, for SC, CR in and out: linf=8/255,l2=0.5, or none."),
    ] = None,
    union: Annotated[
        str | None,
        typer.Option(help="Attacks and their largest strengths for the union accuracy: linf=8/255,l2=0.5."),
    ] = None,
) -> None:
    """Print what a run found: accuracies at each strength, and every metric that the run supports.

    robustatlas show runs/mynet-cifar10 --trained-on linf=8/255 --explain
    """
    from robustatlas.outcomes import load_result

    training = parse_strength_of(trained_on, "--trained-on")
    attacks = parse_strength_of(union, "--union") or None
    result = load_result(run)
    chosen = chosen_reference(reference, result)
    console = Console()
    print_metrics(
        result,
        console,
        explain=explain,
        reference=chosen,
        trained_on=training,
        union=attacks,
        before=accuracy_tables(result),
    )
    for warning in result.manifest.context.warnings:
        console.print(f"[yellow]Warning:[/yellow] {warning}")
