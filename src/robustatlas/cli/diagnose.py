"""``robustatlas diagnose``: can a robustness number be trusted?"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robustatlas.cli import _models
from robustatlas.cli._help import ATTACKS, DATA, OUTPUT, FullHelp
from robustatlas.cli._options import split_names
from robustatlas.cli._terminal import safe
from robustatlas.common.files import parse_path
from robustatlas.outcomes import storage

if TYPE_CHECKING:
    from robustatlas.checks.diagnosis import Diagnosis


def diagnose(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="MODEL_OR_RUN",
            help="Source of a model, as of `evaluate`, or the directory of a run, whose model and data are looked up.",
        ),
    ],
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    data: Annotated[str | None, DATA.option("NAME", "Data set, as of `evaluate`; of a run by default its own.")] = None,
    samples: Annotated[
        int | None, DATA.option("N", "Samples to look at, drawn at random. By default 100.", min=1)
    ] = None,
    attacks: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAMES",
            "Attacks whose numbers are to be judged, with commas between them. By default linf; of a run its own.",
        ),
    ] = None,
    seed: Annotated[int, ATTACKS.option("N", "Seed of the choice of samples.")] = 0,
    full: Annotated[
        bool,
        ATTACKS.flag(
            "--full", "Run attacks of several kinds on 50 samples besides, and read the indicators that look at them."
        ),
    ] = False,
    everything: Annotated[
        bool, OUTPUT.flag("--all", "Read the indicators that decide nothing as well, as they were published.")
    ] = False,
    each: Annotated[bool, OUTPUT.flag("--each", "List every sample that is doubted.")] = False,
    as_json: Annotated[bool, OUTPUT.flag("--json", "Print what was found as JSON, and no tables.")] = False,
    device: _models.Device = None,
    help_all: FullHelp = False,
) -> None:
    """Find out whether robustness numbers of a model can be trusted.

    A network that comes with the package:

    ```bash
    robustatlas diagnose builtin:digits-linf --data digits
    ```

    The model of a run; the verdict is kept in the run:

    ```bash
    robustatlas diagnose runs/mynet
    ```

    With attacks of other kinds, and planted examples that they must find:

    ```bash
    robustatlas diagnose runs/mynet --full
    ```
    """
    from robustatlas.results.result import load_result
    from robustatlas.trust import diagnose as diagnosed

    run = parse_path(subject)
    is_run = storage.is_run(run)
    given = None
    own = weights is not None or mean is not None or std is not None or settings
    if not is_run or own or _models.has_pictures(data):
        source = load_result(run).identity if is_run else None
        name = source.model.source if source is not None else subject
        given = _models.loaded(name, weights, settings, mean, std, device)
    images = None if data is None else _models.load_data(given, data)
    found = diagnosed(
        run if is_run or given is None else given,
        images,
        attacks=split_names(attacks, ["linf"]),
        samples=samples,
        seed=seed,
        model=given if is_run else None,
        everything=everything,
        full=full,
    )
    if as_json:
        sys.stdout.write(json.dumps(found.to_dict(), indent=1, allow_nan=False) + "\n")
    else:
        print_diagnosis(found, Console(highlight=False), each)


def print_diagnosis(diagnosis: Diagnosis, console: Console, each: bool = False) -> None:
    """Print the verdict, what each indicator found, and what to do."""
    console.print(f"[bold]{safe(diagnosis.sentence)}[/bold]")
    console.print(diagnosis)
    for remedy in diagnosis.remedies:
        console.print(f"[yellow]{safe(f'{remedy.flag}: {remedy.sentence}')}[/yellow]")
        if remedy.code:
            console.print(f"    {safe(remedy.code)}", soft_wrap=True)  # a line that is copied
    if each and len(diagnosis.samples.doubtful):
        console.print(diagnosis.samples.select(diagnosis.samples.doubtful))
