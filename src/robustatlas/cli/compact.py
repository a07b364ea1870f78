"""``robustatlas compact``: many runs as one file, for SQL over all of them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli._help import OUTPUT
from robustatlas.cli._terminal import safe
from robustatlas.common.wording import counted, in_shell, volume
from robustatlas.outcomes import compact as compact_runs


def compact(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories, one or many.")],
    output: Annotated[
        Path,
        OUTPUT.option(
            "FILE",
            "File to keep them in. What one that exists holds of the same runs is renewed where they have grown.",
            "--output",
            "-o",
        ),
    ],
) -> None:
    """Keep the tables of many runs in one file, which SQL reads in seconds.

        robustatlas compact runs/* -o all.duckdb

        robustatlas query "SELECT run, attack, median(minimal_size) FROM outcomes GROUP BY ALL" all.duckdb

    The runs stay the truth: the file can be deleted and made again. The lists margins and fooled are not in it.
    """
    file = compact_runs(runs, output)
    console = Console(highlight=False)
    said = f"{counted(len(runs), 'run')}, {volume(file.stat().st_size)}"
    console.print(
        f'{safe(file)}: {said}   More: robustatlas query "SELECT * FROM runs" {safe(in_shell(file))}', soft_wrap=True
    )
