"""``robustatlas export``: a run in the form that another program reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli._help import OUTPUT
from robustatlas.cli._terminal import safe
from robustatlas.errors import UserError
from robustatlas.exports import EXPORTERS
from robustatlas.result import load_result
from robustatlas.wording import instead


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    to: Annotated[
        str,
        typer.Option(
            metavar="FORM",
            help="; ".join(f"`{name}`: {exporter.about}" for name, exporter in EXPORTERS.items()) + ".",
            rich_help_panel=OUTPUT,
        ),
    ] = "evidence",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write, by default beside the run.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Write a run in the form that another program, or an auditor, reads.

    Every sample's outcome, hashes of model and data, settings and versions, as JSON with a documented schema:

        robustatlas export runs/mynet --to evidence -o evidence.json
    """
    if to not in EXPORTERS:
        raise UserError(f"--to {to!r} is no form" + instead(to, EXPORTERS, f"there are {', '.join(EXPORTERS)}"))
    exporter = EXPORTERS[to]
    path = output or run.with_name(run.name + exporter.suffix)
    exporter.write(load_result(run), path)
    Console().print(f"Written: {safe(path)}", highlight=False, soft_wrap=True)
