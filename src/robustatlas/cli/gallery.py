"""``robustatlas gallery``: a picture of what attacks do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli import _attacks, _models
from robustatlas.cli._options import names_in
from robustatlas.cli._terminal import printable


def gallery(
    model: _models.Model,
    data: _models.Data,
    attacks: Annotated[
        str, typer.Option(metavar="NAMES", help="Attacks or suites, with commas; `file.py:ATTACK` is one of your own.")
    ] = "linf,l2,l1,l0",
    features: Annotated[
        str | None, typer.Option(metavar="NET=FILE", help="What lpips compares images by, as in `evaluate`.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Position in the data; default: the first one classified correctly."),
    ] = None,
    columns: Annotated[int, typer.Option(metavar="N", min=1, max=10, help="Strengths per attack.")] = 4,
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    device: _models.Device = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, PDF or SVG.")] = Path("gallery.png"),
) -> None:
    """Draw clean image, adversarial image and amplified difference: a row per attack, a column per strength.

    robustatlas gallery builtin:digits-linf --data digits --attacks linf,elastic,stadv -o gallery.png
    """
    from robustatlas.datasets import load_dataset
    from robustatlas.report.sheet import picture_kind, plot_gallery, save_gallery

    picture_kind(output)
    classifier = _models.loaded(model, weights, settings, mean, std, device)
    chosen = _attacks.chosen(names_in(attacks), "default", features)
    save_gallery(plot_gallery(classifier, load_dataset(data), chosen, sample, columns), output)
    typer.echo(f"Gallery: {printable(str(output))}")
