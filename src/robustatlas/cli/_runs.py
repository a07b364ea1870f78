"""The options of commands that read runs, the same in every command that has them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli._help import ATTACKS, MODEL, OUTPUT, REFERENCE

Reference = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Accuracies of models trained against each attack, which CR and UAR divide by: a name, a JSON file, or "
        "`none`. By default the shipped reference that fits the run, if there is one.",
        rich_help_panel=REFERENCE,
    ),
]
TrainedOn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=STRENGTH,...",
        help="Threat models that the model was trained against, such as `linf=8/255,l2=0.5`, or `none`. The stability "
        "constant (SC) and the competitiveness ratios on seen and unseen attacks need it.",
        rich_help_panel=MODEL,
    ),
]
Union = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=STRENGTH,...",
        help="Attacks and strengths of the union accuracy (the share of samples that withstand all of them), such as "
        "`linf=8/255,l2=0.5`. By default all attacks, each at the middle of its strengths.",
        rich_help_panel=ATTACKS,
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say below what each number means.", rich_help_panel=OUTPUT)]
Joined = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Run directories, all of the same model and data set.")
]
