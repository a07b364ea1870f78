"""``robustatlas train``: train a network by a recipe."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._terminal import safe
from robustatlas.errors import UserError

if TYPE_CHECKING:
    from robustatlas.training import Settings


def train(
    arch: Annotated[
        str,
        typer.Argument(
            help="digits-cnn, small-cnn, trades-cnn, resnet18, resnet20, resnet32, resnet50, resnet56, preact18, "
            "wrn-28-10, `timm:NAME`, or `path/file.py:function`."
        ),
    ],
    data: Annotated[str, typer.Option(metavar="NAME", help="digits, mnist, fashion-mnist, cifar10, or a file.npz.")],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="For weights, card, log and checkpoint; what is there goes on.")
    ],
    recipe: Annotated[str, typer.Option(metavar="NAME", help="`robustatlas train --recipes` lists them.")] = "standard",
    against: Annotated[
        str, typer.Option(metavar="NAME=STRENGTH,...", help="Threat models and strengths: `linf=8/255,l2=0.5`.")
    ] = "",
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Passes over the images.")] = 20,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the weights, the order and everything random.")] = 0,
    steps: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Of crafting (default: 10, or the recipe's).")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(metavar="R", help="Length of such a step, as a share of the strength.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Settings of the recipe: `beta=6`, `warmup=0.5`. Repeatable."),
    ] = None,
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=VALUE",
            help="Settings of the trainer: `optimizer=sgd`, `schedule=piecewise`, `weight_decay=5e-4`, "
            "`augmentation=crop+flip`, `ema=0.995`, `selection=best`, ... Repeatable.",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(metavar="N", min=1, help="Images per update.")] = 128,
    learning_rate: Annotated[float, typer.Option(metavar="R", help="The largest.")] = 3e-3,
    samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only so many images, evenly from all classes.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1; default: a GPU where there is one.")
    ] = None,
    recipes: Annotated[
        bool,
        typer.Option(
            "--recipes",
            help="List the recipes, and stop.",
            is_eager=True,
            callback=lambda value: _list_recipes() if value else None,
        ),
    ] = False,
) -> None:
    """Train ARCH on the training images of a data set.

    Against two norms at once, each image with the worse of both attacks:

        robustatlas train small-cnn --data fashion-mnist --recipe max --against linf=0.1,l2=1.5 --out nets/max

    Ctrl-C or a crash loses little: the same command goes on, to the very weights it would have reached.
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
    try:
        trained = ra.train(
            net, dataset, plan, settings=settings, out=out, architecture=arch, device=device, progress=True
        )
    except KeyboardInterrupt:
        kept = f"\nStopped. The checkpoint is in {safe(out)}; the same command goes on from there."
        Console(stderr=True, soft_wrap=True).print(kept, highlight=False)
        raise typer.Exit(130) from None
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
    import difflib
    from dataclasses import fields

    from robustatlas.training import Settings

    known = [field.name for field in fields(Settings)]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise UserError(
                f"--with {name!r} is no setting of the trainer"
                + (f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}.")
            )
    return Settings(**(chosen | given))


def _list_recipes() -> None:
    from dataclasses import fields

    from robustatlas.training import RECIPES

    table = Table("recipe", "threat models", "what it minimises", "settings", box=box.SIMPLE_HEAD, pad_edge=False)
    for name, kind in RECIPES.items():
        about = " ".join((kind.__doc__ or "").split("\n\n")[0].split()).replace("``", "")
        own = [field.name for field in fields(kind) if field.name != "against"]
        table.add_row(name, kind.opponents, about, ", ".join(own))
    Console().print(table)
    raise typer.Exit
