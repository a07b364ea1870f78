"""`robustatlas report`: one page for one or several runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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

    Without --reference, runs on CIFAR-10 are held against multirobustbench-cifar10.
    """
    from robustatlas.datasets import load_dataset
    from robustatlas.outcomes import load_result
    from robustatlas.references import load_reference
    from robustatlas.report.leaderboard import read_about
    from robustatlas.report.page import build_report, usual_reference

    results = [load_result(run) for run in runs]
    name = usual_reference(results) if reference is None else reference
    page = build_report(
        results,
        output,
        reference=None if name in (None, "none") else load_reference(name),
        trained_on={model: entry["trained_on"] for model, entry in read_about(about).items() if "trained_on" in entry},
        data=None if data is None else load_dataset(data),
    )
    typer.echo(f"Report: {page.resolve()}")
