"""``robustatlas train``: train a network by a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli import _models, _training
from robustatlas.cli._help import DATA, OUTPUT, TRAINING
from robustatlas.cli._stopped import stopped_by_hand
from robustatlas.cli._terminal import safe
from robustatlas.errors import UserError
from robustatlas.wording import instead

if TYPE_CHECKING:
    from robustatlas.training import Settings


def train(
    arch: _training.Architecture,
    data: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Data set whose training images are used: digits, mnist, fashion-mnist, cifar10, or a `FILE.npz`.",
            rich_help_panel=DATA,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Directory for weights, card, log and checkpoint. A training that it holds is continued.",
            rich_help_panel=OUTPUT,
        ),
    ],
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How the network is trained; `robustatlas train --recipes` lists the recipes.",
            rich_help_panel=TRAINING,
        ),
    ] = "standard",
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME=STRENGTH,...",
            help="Threat models to train against, with their strengths: `linf=8/255,l2=0.5`.",
            rich_help_panel=TRAINING,
        ),
    ] = "",
    epochs: _training.Epochs = 20,
    seed: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Seed of the first weights, of the order of the images, and of everything else that is random.",
            rich_help_panel=TRAINING,
        ),
    ] = 0,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of steps that make an adversarial example for training. By default 10, or what the recipe "
            "says.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            metavar="R",
            help="Length of such a step, as a share of the strength. By default what the recipe says.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    set_: _training.RecipeSettings = None,
    with_: _training.TrainerSettings = None,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of images in each update.", rich_help_panel=TRAINING)
    ] = 128,
    learning_rate: Annotated[
        float,
        typer.Option(metavar="R", help="Largest learning rate of the schedule.", rich_help_panel=TRAINING),
    ] = 3e-3,
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of training images, drawn with the classes in their proportions. By default all.",
            rich_help_panel=DATA,
        ),
    ] = None,
    device: _models.Device = None,
    recipes: Annotated[
        bool,
        typer.Option(
            "--recipes",
            help="List the recipes, and stop.",
            is_eager=True,
            callback=lambda value: _list_recipes() if value else None,
            rich_help_panel=TRAINING,
        ),
    ] = False,
) -> None:
    """Train the network ARCH on the training images of a data set.

    Against two norms at once, each image by the attack that hurts it more:

        robustatlas train small-cnn --data fashion-mnist --recipe max --against linf=0.1,l2=1.5 --out nets/max

    After Ctrl-C or a crash the same command continues the training, and ends with the same weights as without a stop.
    """
    import robustatlas as ra
    from robustatlas.models import parse_settings
    from robustatlas.training import network_for, recipe_named
    from robustatlas.training.against import parse_against

    dataset = ra.load_dataset(data, "train")
    if samples is not None:
        dataset = dataset.take(samples, stratified=True, seed=seed)
    plan = recipe_named(recipe, parse_against(against) or None, steps, rate, **parse_settings(set_ or []))
    settings = settings_from(
        parse_settings(with_ or []), epochs=epochs, seed=seed, batch_size=batch_size, learning_rate=learning_rate
    )
    net = network_for(arch, dataset, seed)
    with stopped_by_hand(lambda: f"Stopped. The checkpoint is in {out}; the same command goes on from there."):
        trained = ra.train(
            net, dataset, plan, settings=settings, out=out, architecture=arch, device=device, progress=True
        )
    console = Console()
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("held-out accuracy, %")
    table.add_column("", justify="right")
    for name, value in trained.card.accuracies.items():
        strength = trained.card.trained_on.get(name)
        table.add_row(name if strength is None else f"{name} {strength:.4g}", f"{value:.1f}")
    console.print(table)
    for warning in trained.card.warnings:
        console.print(f"[yellow]Warning:[/yellow] {safe(warning)}", highlight=False, soft_wrap=True)
    console.print(f"Weights and card: {safe(out)}", highlight=False, soft_wrap=True)


def settings_from(given: dict[str, Any], **chosen: Any) -> Settings:
    """The trainer's settings of ``--with`` and the options that have names of their own."""
    from dataclasses import fields

    from robustatlas.training import Settings

    known = [field.name for field in fields(Settings)]
    for name in given:
        if name not in known:
            there = instead(name, known, f"known are {', '.join(known)}")
            raise UserError(f"--with {name!r} is no setting of the trainer{there}")
    return Settings(**(chosen | given))


def _list_recipes() -> None:
    from dataclasses import fields

    from robustatlas.training import RECIPES

    table = Table("recipe", "threat models", "what it minimises", "settings", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, kind in RECIPES.usable().items():
        about = " ".join((kind.__doc__ or "").split("\n\n")[0].split()).replace("``", "")
        own = [field.name for field in fields(kind) if field.name != "against"]
        table.add_row(name, kind.opponents, about, ", ".join(own))
    Console().print(table)
    raise typer.Exit
