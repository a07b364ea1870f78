"""``robustatlas train``: train a network by a recipe."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli import _models, _training
from robustatlas.cli._help import DATA, OUTPUT, TRAINING, FullHelp
from robustatlas.cli._stopped import end_on_interrupt
from robustatlas.cli._terminal import safe
from robustatlas.common.typed_strengths import format_strength, text_as_typed

if TYPE_CHECKING:
    from robustatlas.data import Dataset
    from robustatlas.training import Trained
    from robustatlas.training.request import TrainingRequest

_WITHOUT_SPLITS = "{} has no test images of its own: what is evaluated on it was trained on."


def _list_recipes(asked: bool) -> None:
    if not asked:
        return
    from dataclasses import fields

    from robustatlas.training import RECIPES

    table = Table("recipe", "threat models", "what it minimises", "settings", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, kind in RECIPES.load_usable().items():
        about = " ".join((kind.__doc__ or "").split("\n\n")[0].split()).replace("``", "")
        own = [field.name for field in fields(kind) if field.name != "against"]
        table.add_row(name, kind.opponents, about, ", ".join(own))
    Console(highlight=False).print(table)
    raise typer.Exit


def _list_presets(asked: bool) -> None:
    if not asked:
        return
    from robustatlas.training.presets import PRESETS

    for source, presets in groupby(PRESETS.items(), lambda item: item[1].source):
        typer.echo(f"{source}:")
        for name, preset in presets:
            against = ", ".join(
                f"{attack} {format_strength(fight.strength, 3, attack=attack)}"
                for attack, fight in preset.fights.items()
            )
            how = f"{preset.kind} against {against}, {preset.settings.epochs} epochs of {preset.architecture}"
            typer.echo(f"  {name:24} {how}")
    raise typer.Exit


def train(
    arch: _training.Architecture,
    data: Annotated[
        str,
        DATA.option(
            "NAME", "Data set whose training images are used: digits, mnist, fashion-mnist, cifar10, or a `FILE.npz`."
        ),
    ],
    out: Annotated[
        Path,
        OUTPUT.option("DIR", "Directory for weights, card, log and checkpoint. A training that it holds is continued."),
    ],
    extra: Annotated[
        str | None,
        DATA.option(
            "NAME",
            "More images with labels, such as generated ones: a data set or a `FILE.npz`. Each batch draws a "
            "share of them.",
            hidden=True,
        ),
    ] = None,
    ratio: Annotated[
        float | None,
        DATA.option("SHARE", "Share of each batch that comes from `--extra`. By default 0.7.", hidden=True),
    ] = None,
    samples: Annotated[
        int | None,
        DATA.option(
            "N",
            "Number of training images, drawn with the classes in their proportions. By default all.",
            min=1,
            hidden=True,
        ),
    ] = None,
    features: _training.Features = None,
    recipe: Annotated[
        str | None,
        TRAINING.option(
            "NAME", "How the network is trained; `robustatlas train --recipes` lists the recipes. By default standard."
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        TRAINING.option("NAME=STRENGTH", "Threat models to train against, with their strengths: `linf=8/255,l2=0.5`."),
    ] = None,
    preset: Annotated[
        str | None,
        TRAINING.option(
            "NAME",
            "Train as a paper prints it, with its recipe, strengths, steps, optimiser and schedule; `robustatlas "
            "train --presets` lists the presets. Other options count in place of what is printed; the card says so.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, TRAINING.option("N", "Number of times that the training sees all images. By default 20.", min=1)
    ] = None,
    seed: Annotated[
        int,
        TRAINING.option(
            "N", "Seed of the first weights, of the order of the images, and of everything else that is random."
        ),
    ] = 0,
    steps: Annotated[
        int | None,
        TRAINING.option(
            "N",
            "Number of steps that make an adversarial example for training. By default 10, or what the recipe says.",
            min=1,
            hidden=True,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        TRAINING.option(
            "R", "Length of such a step, as a share of the strength. By default what the recipe says.", hidden=True
        ),
    ] = None,
    set_: _training.RecipeSettings = None,
    with_: _training.TrainerSettings = None,
    batch_size: Annotated[
        int | None, TRAINING.option("N", "Number of images in each update. By default 128.", min=1, hidden=True)
    ] = None,
    learning_rate: Annotated[
        float | None, TRAINING.option("R", "Largest learning rate of the schedule. By default 0.003.", hidden=True)
    ] = None,
    from_: Annotated[
        Path | None,
        TRAINING.option(
            "FILE",
            "Weights to begin with: a file, or the directory of another training. By default random ones.",
            "--from",
            hidden=True,
        ),
    ] = None,
    seeds: Annotated[
        int,
        TRAINING.option("N", "Number of trainings, with seeds one after the other, in DIR/seed-0 and so on.", min=1),
    ] = 1,
    recipes: Annotated[
        bool, TRAINING.flag("--recipes", "List the recipes, and stop.", is_eager=True, callback=_list_recipes)
    ] = False,
    presets: Annotated[
        bool, TRAINING.flag("--presets", "List the presets, and stop.", is_eager=True, callback=_list_presets)
    ] = False,
    keep: Annotated[
        int | None,
        OUTPUT.option(
            "N", "Keep the weights after every N epochs, in DIR/epochs; each is a model of its own.", min=1, hidden=True
        ),
    ] = None,
    device: _models.Device = None,
    help_all: FullHelp = False,
) -> None:
    r"""Train the network ARCH on the training images of a data set.

    Against two norms at once, each image by the attack that hurts it more:

    ```bash
    robustatlas train small-cnn --data fashion-mnist \
        --recipe max --against linf=0.1,l2=1.5 \
        --out nets/max
    ```

    As the paper of TRADES prints it, three times:

    ```bash
    robustatlas train wrn-34-10 --data cifar10 \
        --preset trades --seeds 3 --out nets/trades
    ```

    After Ctrl-C or a crash the same command continues the training, and ends with the same weights as without a stop.
    """
    from robustatlas.data import has_single_split, load_dataset
    from robustatlas.models.settings import parse_settings
    from robustatlas.training.against import parse_against
    from robustatlas.training.request import TrainingRequest

    dataset = load_dataset(data, "train")
    if samples is not None:
        dataset = dataset.take(samples, stratified=True, seed=seed)
    asked = TrainingRequest(
        architecture=arch,
        preset=preset,
        recipe=recipe,
        against=parse_against(",".join(against or ())) or None,
        steps=steps,
        rate=rate,
        features=features,
        options=parse_settings(set_ or []),
        given=settings_given(
            parse_settings(with_ or []), epochs=epochs, batch_size=batch_size, learning_rate=learning_rate, ratio=ratio
        ),
        weights=from_,
        keep=keep,
        device=device,
        notes=(_WITHOUT_SPLITS.format(data),) if has_single_split(data) else (),
    )
    more = None if extra is None else load_dataset(extra, "train")
    for number in range(seeds):
        place = out if seeds == 1 else out / f"seed-{seed + number}"
        _train_once(asked, dataset, more, place, seed + number)


def settings_given(given: dict[str, Any], **chosen: Any) -> dict[str, Any]:
    """The settings that were asked for, by ``--with`` or by an option that has a name of its own."""
    from robustatlas.training import Settings
    from robustatlas.training.request import check_settings

    check_settings(given, "--with ")
    usual = Settings()
    named = {  # "none" is None on the command line, and a name to settings that have names
        name: "none" if value is None and isinstance(getattr(usual, name), str) else value
        for name, value in given.items()
    }
    return {name: value for name, value in chosen.items() if value is not None} | named


def _train_once(asked: TrainingRequest, data: Dataset, extra: Dataset | None, out: Path, seed: int) -> None:
    from robustatlas.report.training import write_training_page

    with end_on_interrupt(lambda: f"Stopped. The checkpoint is in {out}; the same command goes on from there."):
        trained = asked.train(data, out, seed, extra, progress=True)
    _say(trained, out, write_training_page(out))


def _say(trained: Trained, out: Path, page: Path) -> None:
    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out accuracy, %")
    table.add_column("", justify="right")
    for name, value in trained.card.accuracies.items():
        at = trained.card.trained_on.get(name)
        table.add_row(name if at is None else f"{name} {text_as_typed(at)}", f"{value:.1f}")
    console.print(table)
    for note in trained.card.notes:
        console.print(safe(note), soft_wrap=True)
    for warning in trained.card.warnings:
        console.print(f"[yellow]Warning:[/yellow] {safe(warning)}", soft_wrap=True)
    console.print(f"Weights and card: {safe(out)}   Figure: {safe(page)}", soft_wrap=True)
