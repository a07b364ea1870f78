"""The options of commands that read runs, the same in every command that has them."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robustatlas.cli._help import ATTACKS, MODEL, OUTPUT, REFERENCE
from robustatlas.common.documents import read_json
from robustatlas.common.errors import UserError

if TYPE_CHECKING:
    from robustatlas.report.numbers.steadiness import Steadiness

Reference = Annotated[
    str | None,
    REFERENCE.option(
        "NAME",
        "Accuracies of models trained against each attack, which CR and UAR divide by: a name, a JSON file, or "
        "`none`. By default the shipped reference that fits the run, if there is one.",
    ),
]
Weights = Annotated[
    Path | None,
    REFERENCE.option(
        "FILE",
        'JSON file of how often an attacker chooses each point: `{"clean": 1, "linf": 2, "l2": {"0.5": 3}}`, an '
        "attack's number for each of its strengths. Competitiveness ratios are expectations over that; what is not "
        "named takes no part. By default all ranked points alike.",
        hidden=True,
    ),
]
TrainedOn = Annotated[
    list[str] | None,
    MODEL.option(
        "NAME=STRENGTH",
        "Threat models that the model was trained against, such as `linf=8/255,l2=0.5`, or `none`. The stability "
        "constant (SC) and the competitiveness ratios on seen and unseen attacks need it.",
    ),
]
Alpha = Annotated[
    float | None,
    REFERENCE.option(
        "A",
        "Stability constant: largest difference of difficulty of two points. By default 3, in percentage points.",
        hidden=True,
    ),
]
Difficulty = Annotated[
    str | None,
    REFERENCE.option(
        "NAME",
        "Stability constant: how difficult a point is. `reference`: 100 - acc*; `epsilon`: the strength, of the "
        "one attack of the training; or a JSON file like that of `--weights`. Others than `reference` need `--alpha`.",
        hidden=True,
    ),
]
Union = Annotated[
    list[str] | None,
    ATTACKS.option(
        "NAME=STRENGTH",
        "Attacks and strengths of the worst case over attacks (the share of samples that withstand all of them), such "
        "as `linf=8/255,l2=0.5`; each was searched. By default all attacks, each at the strength that papers give or "
        "the next larger one searched, else at the middle of its strengths.",
    ),
]
About = Annotated[
    Path | None,
    MODEL.option(
        "FILE", "JSON file on the models (name of the model: title, url, architecture, extra_data, trained_on, notes)."
    ),
]
Headline = Annotated[
    list[str] | None,
    ATTACKS.option(
        "NAME@STRENGTH",
        "The numbers that come first, such as `linf@8/255,l2@0.5`; each strength was searched. By default the usual "
        "strength of each norm that has one for the data, if it was searched, else the mean over each attack's "
        "strengths.",
    ),
]
Explain = Annotated[bool, OUTPUT.flag("--explain", "Say below what each number means.")]
Joined = Annotated[
    list[Path], typer.Argument(metavar="RUN", help="Run directories, all of the same model and data set.")
]


def steadiness(alpha: float | None, difficulty: str | None) -> Steadiness | None:
    """Return the stability constants that the options ask for; None: the usual ones."""
    from robustatlas.report.numbers.steadiness import ALPHA, Steadiness

    if alpha is None and difficulty in (None, "reference"):
        return None
    if alpha is None:
        raise UserError(f"--difficulty {difficulty} has a unit of its own; give the largest difference with --alpha.")
    if not 0 < alpha < inf:
        raise UserError(f"--alpha is {alpha:g}; a positive number is expected, such as {ALPHA:g}.")
    named = difficulty or "reference"
    return Steadiness(alpha, named if named in ("reference", "epsilon") else read_json(named))  # type: ignore[arg-type]
