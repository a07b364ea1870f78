"""``robustatlas gallery``: a picture of what attacks do."""

from pathlib import Path
from typing import Annotated

import typer

from robustatlas.cli import _asked, _models
from robustatlas.cli._help import ATTACKS, DATA, OUTPUT, FullHelp
from robustatlas.cli._options import parse_strengths, split_names
from robustatlas.common.escaping import visible_text


def gallery(
    model: _models.Model,
    data: _models.Data,
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    resize: _asked.Resize = None,
    crop: _asked.Crop = None,
    channels: _asked.Channels = None,
    sample: Annotated[
        int | None,
        DATA.option(
            "N",
            "Position of the image in the data set, counted from 0. By default the first image that the model "
            "classifies correctly.",
            min=0,
        ),
    ] = None,
    attacks: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAMES",
            "Attacks or suites of attacks, with commas between them; `file.py:ATTACK` is an attack of your own. By "
            "default linf,l2,l1,l0.",
        ),
    ] = None,
    features: _asked.Features = None,
    strengths: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAME=VALUES",
            "Strengths of an attack that are drawn: a list, `fog=128,8192`, or equal steps, `linf=0.1:4`. By "
            "default some of its own, evenly spread. Given once for each attack.",
        ),
    ] = None,
    columns: Annotated[int, OUTPUT.option("N", "Number of strengths of each attack.", min=1, max=20)] = 4,
    output: Annotated[Path, OUTPUT.option("FILE", "Picture to write: .png, .pdf or .svg.", "--output", "-o")] = Path(
        "gallery.png"
    ),
    device: _models.Device = None,
    help_all: FullHelp = False,
) -> None:
    r"""Draw what attacks do to an image: a row for each attack, a column for each strength.

    Above stands the adversarial image with its size and class, below it the change, on one scale in each row. Where
    nothing fooled the model, the strongest attempt stands, as "still" its class.

    ```bash
    robustatlas gallery builtin:digits-linf --data digits \
        --attacks linf,elastic,stadv -o gallery.png
    ```

    At the smallest and the largest strength of a calibration, as in UAR's figure 5b:

    ```bash
    robustatlas gallery MODEL --data imagenet100 \
        --attacks snow --strengths snow=0.0625,8
    ```
    """
    from robustatlas.common.files import picture_kind
    from robustatlas.metrics.figures.paper import save_figure
    from robustatlas.report.sheet import plot_gallery

    picture_kind(output)
    classifier = _models.loaded(model, weights, settings, mean, std, device)
    chosen = _asked.requested_attacks(split_names(attacks, ["linf", "l2", "l1", "l0"]), "default", features)
    images, grids = _models.load_data(classifier, data, resize, crop, channels), parse_strengths(strengths or [])
    save_figure(plot_gallery(classifier, images, chosen, sample, columns, strengths=grids), output)
    typer.echo(f"Gallery: {visible_text(str(output))}")
