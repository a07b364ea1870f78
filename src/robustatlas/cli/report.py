"""`robustatlas report`: one page for one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli._terminal import printable
from robustatlas.facts import chosen_reference
from robustatlas.facts.rows import read_about
from robustatlas.result import load_result


def report(
    runs: Annotated[list[Path], typer.Argument(help="One to five run directories; several are drawn over each other.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The HTML file.")] = Path("report.html"),
    reference: Annotated[
        str | None, typer.Option(help="Reference for CR and UAR: a name, a JSON file, or none.")
    ] = None,
    about: Annotated[
        Path | None,
        typer.Option(help="JSON: model name -> trained_on (attack -> strength), for the stability constant."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Data set of the runs, to show clean images next to kept adversarial examples.")
    ] = None,
) -> None:
    """Write a report: how robust, against what, where it breaks, what to trust.

    Without --reference, runs are held against the shipped reference that fits, as in `show`.
    """
    from robustatlas.datasets import load_dataset
    from robustatlas.report.page import build_report

    results = [load_result(run) for run in runs]
    known = {model: entry.trained_on for model, entry in read_about(about).items() if entry.tells_training}
    page = build_report(
        results,
        output,
        reference=chosen_reference(reference, results),
        trained_on=known,
        data=None if data is None else load_dataset(data),
    )
    typer.echo(f"Report: {printable(str(page.resolve()))}")
