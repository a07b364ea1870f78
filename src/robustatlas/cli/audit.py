"""``robustatlas audit``: what would a stronger search find?"""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli import _models
from robustatlas.cli._accuracies import print_accuracies
from robustatlas.cli._help import ATTACKS, DATA, FullHelp


def audit(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    data: Annotated[str | None, DATA.option("NAME", "Data set; by default that of the run.")] = None,
    samples: Annotated[int, DATA.option("N", "Samples to search again, drawn at random.", min=1)] = 50,
    seed: Annotated[int, ATTACKS.option("N", "Seed of their choice.")] = 0,
    device: _models.Device = None,
    help_all: FullHelp = False,
) -> None:
    """Search some samples of a run again, by every kind of attack that fits, and say what that would leave of all.

    Fifty samples, kept beside the run:

    ```bash
    robustatlas audit runs/mynet
    ```
    """
    from robustatlas.results.result import load_result
    from robustatlas.trust import audit as audited

    given = None
    own = weights is not None or settings or mean is not None or std is not None or device is not None
    if own or _models.has_pictures(data):
        identity = load_result(run).identity
        source = identity.model.source if identity is not None else ""
        given = _models.loaded(source, weights, settings, mean, std, device)
    images = None if data is None else _models.load_data(given, data)
    print_accuracies(audited(run, images, model=given, samples=samples, seed=seed), Console(highlight=False))
