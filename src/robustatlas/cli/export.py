"""``robustatlas export``: a run in the form that another program reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli._help import OUTPUT
from robustatlas.cli._terminal import safe
from robustatlas.common.errors import UserError
from robustatlas.common.wording import suggestion
from robustatlas.report.exports import EXPORTERS
from robustatlas.results.result import load_result


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    to: Annotated[
        str,
        OUTPUT.option("FORM", "; ".join(f"`{name}`: {exporter.about}" for name, exporter in EXPORTERS.items()) + "."),
    ] = "evidence",
    output: Annotated[
        Path | None,
        OUTPUT.option(
            "FILE",
            "The file to write (png: the folder). By default beside the run.",
            "--output",
            "-o",
        ),
    ] = None,
) -> None:
    r"""Write a run in the form that another program, or an auditor, reads.

    Every sample's outcome, hashes of model and data, settings and versions, as JSON with a documented schema:

    ```bash
    robustatlas export runs/mynet --to evidence \
        -o evidence.json
    ```
    """
    if to not in EXPORTERS:
        raise UserError(f"--to {to!r} is not a form" + suggestion(to, EXPORTERS, f"there are {', '.join(EXPORTERS)}"))
    exporter = EXPORTERS[to]
    path = output or exporter.path(run)
    exporter.write(load_result(run), path)
    Console().print(f"Written: {safe(path)}", highlight=False, soft_wrap=True)
