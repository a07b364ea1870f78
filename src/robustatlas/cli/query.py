"""``robustatlas query``: SQL over one or many runs."""

import csv
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robustatlas.cli._help import GENERAL, OUTPUT
from robustatlas.cli._terminal import safe
from robustatlas.common.escaping import spreadsheet_cell, visible_text
from robustatlas.outcomes import query as run_query
from robustatlas.outcomes.query import format_cell


def query(
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL", help="A SELECT over the views runs, attacks, samples and outcomes, in the SQL of DuckDB."
        ),
    ],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run directories, one or many.")],
    as_csv: Annotated[bool, OUTPUT.flag("--csv", "Print comma-separated values instead of a table.")] = False,
    unrestricted: Annotated[
        bool,
        GENERAL.flag(
            "--unrestricted", "Let the SQL read and write files and take any memory; only for SQL that you trust."
        ),
    ] = False,
) -> None:
    r"""Run SQL over the outcomes of one or many runs.

    There are five views and a function. runs: run, model, data, created, samples, images, missing. attacks: run,
    attack, unit, strengths, monotone, origins, threat. samples: run, index, label, clean_prediction, clean_margin.
    outcomes: run, attack, index, minimal_strength, minimal_size, certified_size, found_class, forward, backward,
    mistakes, drawn, strengths, broken, margins, fooled, queries, typical, threat. accuracies: run, attack, strength,
    accuracy, typical, threat. broken(strength): run, attack, index and broken, which says whether the sample is
    broken at that strength. Equal images: the same data; equal threat: the same threat model.

    The samples that are hardest to fool:

    ```bash
    robustatlas query "SELECT index, minimal_size FROM \
        outcomes ORDER BY 2 DESC LIMIT 10" runs/a
    ```

    The mean cost of each attack, over many runs:

    ```bash
    robustatlas query "SELECT run, attack, avg(forward + \
        backward) AS passes FROM outcomes GROUP BY ALL" \
        runs/*
    ```

    The SQL sees these views and nothing else: no file is read or written, unless --unrestricted is given.
    """
    table = run_query(sql, runs, unrestricted=unrestricted)
    if as_csv:
        writer = csv.writer(sys.stdout)
        writer.writerows(map(spreadsheet_cell, row) for row in [table.columns, *table.rows])
        return
    view = Table(*map(safe, table.columns))
    for row in table.rows:
        view.add_row(*(Text(visible_text(format_cell(value))) for value in row))
    console = Console(highlight=False)
    console.print(view)
    console.print(f"{len(table.rows)} row{'' if len(table.rows) == 1 else 's'}")
