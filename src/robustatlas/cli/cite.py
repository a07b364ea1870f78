"""``robustatlas cite``: what to write of a run, and what to cite for it."""

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli import _runs
from robustatlas.cli._help import OUTPUT
from robustatlas.common.escaping import visible_text
from robustatlas.common.files import write_text
from robustatlas.report.facts import choose_reference
from robustatlas.results.result import load_result


def cite(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories, one or several.")],
    reference: _runs.Reference = None,
    output: Annotated[
        Path | None,
        OUTPUT.option("FILE.bib", "Write the BibTeX entries there, and print the text alone.", "--output", "-o"),
    ] = None,
) -> None:
    """Print a paragraph on methods for a paper, and the BibTeX of what runs used.

    Attacks, data, metrics and certificates come from the records of the runs, and the tests between them where there
    are several. The papers of the models themselves are yours to add.

    ```bash
    robustatlas cite runs/mynet-cifar10 -o methods.bib
    ```
    """
    from robustatlas.report.citing import cite as citation

    results = [load_result(run) for run in runs]
    found = citation(results, choose_reference(reference, results))
    typer.echo(visible_text(found.text))
    if output is None:
        typer.echo("\n".join(["", *map(visible_text, found.bibtex.splitlines())]))
    else:
        write_text(output, found.bibtex)
        typer.echo(f"BibTeX: {visible_text(str(output))}")
