"""``robustatlas reference``: make the denominators of CR and UAR on one's own data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from robustatlas.cli import _models, _training, _workers
from robustatlas.cli._help import ATTACKS, DATA, OUTPUT, TRAINING
from robustatlas.cli._options import parse_strengths
from robustatlas.cli._share import share_here
from robustatlas.cli._stopped import stopped_by_hand
from robustatlas.cli._terminal import safe
from robustatlas.common.errors import UserError
from robustatlas.common.wording import strength

if TYPE_CHECKING:
    from robustatlas.metrics.references import Reference


def reference(
    arch: _training.Architecture,
    data: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Data set: its test images evaluate the models, and its training images train them.",
            rich_help_panel=DATA,
        ),
    ],
    strengths: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUES",
            help="Strengths of an attack in the reference: a list, `linf=0.02,0.05`, or equal steps, `l2=2:5` (5 steps "
            "up to 2). Given once for each attack.",
            rich_help_panel=ATTACKS,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="DIR",
            help="Directory for all trainings and for reference.json. What it holds is not computed again.",
            rich_help_panel=OUTPUT,
        ),
    ],
    train_data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Data set whose training images train the models: needed where `--data` is a file or a folder of "
            "pictures, which has no splits. By default that of `--data`.",
            rich_help_panel=DATA,
        ),
    ] = None,
    rule: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="acc, as MultiRobustBench: a model is trained at each strength, and the mean over the seeds counts. "
            "ata, as UAR: the best of all models that are trained against the attack counts.",
            rich_help_panel=TRAINING,
        ),
    ] = "acc",
    trained: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Strengths to train at by the rule ata, where they are not those of the reference. Given once for "
            "each attack.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    seeds: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of times that each training is run, each time with another seed.",
            rich_help_panel=TRAINING,
        ),
    ] = 1,
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="How the models are trained. By default as each attack's own field does: pat against lpips, and "
            "against all others pgd (rule acc) or uniform (rule ata).",
            rich_help_panel=TRAINING,
        ),
    ] = "",
    presets: Annotated[
        str,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="Train against each attack as a paper prints it: multirobustbench, uar or uar-imagenet100. Other "
            "options count in place of what is printed.",
            rich_help_panel=TRAINING,
        ),
    ] = "",
    for_: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            metavar="NAME:KEY=VALUE",
            help="What is otherwise against one attack, such as `elastic:steps=30` or `lpips:epochs=60`: steps, rate, "
            "recipe, a setting of the trainer or of the recipe. `standard:` is the standard training. May be given "
            "several times.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of times that each training sees all images. By default 20.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of steps that make an adversarial example for training. By default 10; for ata 30 of elastic.",
            rich_help_panel=TRAINING,
        ),
    ] = None,
    set_: _training.RecipeSettings = None,
    with_: _training.TrainerSettings = None,
    seed: Annotated[
        int, typer.Option(metavar="N", help="Seed of the first run of each training.", rich_help_panel=TRAINING)
    ] = 0,
    training_samples: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of training images, drawn with the classes in their proportions. By default all.",
            rich_help_panel=DATA,
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Number of test images to evaluate on: the first ones. By default all.",
            rich_help_panel=DATA,
        ),
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How the evaluation searches the strengths: descent, bisection or every. By default descent, and "
            "every with `--protocol paper`.",
            rich_help_panel=ATTACKS,
        ),
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="`default`, or `paper`: evaluate by the attacks as published, for ata by UAR's of 200 steps.",
            rich_help_panel=ATTACKS,
        ),
    ] = "default",
    features: _training.Features = None,
    part: _workers.Part = None,
    device: _models.Device = None,
    workers: _workers.Workers = None,
    ray: _workers.Ray = False,
    ray_address: _workers.RayAddress = None,
    ray_gpus: _workers.RayGpus = None,
) -> None:
    """Train models against each attack, evaluate them, and write a reference.

    A reference holds the accuracies that CR and UAR divide by. Seven small networks, and the reference they make:

        robustatlas reference small-cnn --data fashion-mnist --strengths linf=0.15:3 --strengths l2=3:3 --out ref

        robustatlas show runs/mynet --reference ref/reference.json

    The parts of this work are its trainings: with `--part 3/8` a job does the fourth of eight parts, and the tasks of a
    Slurm array take theirs by themselves. `--workers 4` trains four models at once. `--ray-address auto` uses all
    machines of a cluster.
    """
    from robustatlas.cli.train import settings_given
    from robustatlas.data import load_dataset
    from robustatlas.models import parse_settings
    from robustatlas.training.references import ReferencePlan, make_reference, missing

    training = load_dataset(train_data or data, "train")
    if training_samples is not None:
        training = training.take(training_samples, stratified=True, seed=seed)
    given = settings_given(parse_settings(with_ or []), epochs=epochs, seed=seed)
    plan = ReferencePlan(
        architecture=arch,
        strengths=parse_strengths(strengths),
        rule=rule,  # type: ignore[arg-type]
        trained=parse_strengths(trained or []) or None,
        seeds=seeds,
        presets=presets,
        **_asked_of_all(presets, recipe, steps, parse_settings(set_ or []), given, for_ or []),
        samples=samples,
        search=search,  # type: ignore[arg-type]
        protocol=protocol,  # type: ignore[arg-type]
        features=features,
    )
    share = share_here(part)
    with stopped_by_hand(lambda: f"Stopped. What is done is in {out}; the same command goes on from there."):
        found = make_reference(
            plan,
            training,
            load_dataset(data),
            out,
            share,
            device,
            progress=True,
            workers=1 if workers is None else workers,
            ray=_workers.cluster_from(ray, ray_address, ray_gpus, workers),
        )
    _print(found, missing(plan, out) if found is None else [], out / "reference.json")


def _asked_of_all(
    presets: str, recipe: str, steps: int | None, options: dict[str, Any], given: dict[str, Any], for_: Sequence[str]
) -> dict[str, Any]:
    """What a plan is asked for: of all attacks, in place of what a preset prints where one is named, and of some."""
    from robustatlas.training import Settings

    some = _parse_for(for_)
    if not presets:
        asked = {"recipe": recipe, "steps": steps, "recipe_settings": options, "settings": Settings(**given)}
        return asked | {"per_attack": some or None}
    named = {"recipe": recipe or None, "steps": steps}
    every = {key: value for key, value in named.items() if value is not None} | options | given
    return {"settings": Settings(seed=given["seed"]), "per_attack": {"all": every, **some}}


def _parse_for(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """``elastic:steps=30`` by attack.

    Example:
        >>> _parse_for(["elastic:steps=30", "elastic:epochs=2"])
        {'elastic': {'steps': 30, 'epochs': 2}}
    """
    from robustatlas.models import parse_settings

    found: dict[str, list[str]] = {}
    for item in given:
        attack, colon, setting = item.partition(":")
        if not attack.strip() or not colon or "=" not in setting:
            raise UserError(f"--for {item!r} is not understood; expected NAME:KEY=VALUE, such as elastic:steps=30.")
        found.setdefault(attack.strip(), []).append(setting)
    return {attack: parse_settings(settings) for attack, settings in found.items()}


def _print(found: Reference | None, left: Sequence[str], file: Path) -> None:
    console = Console(highlight=False)
    if found is None:
        console.print(f"This part is done; {len(left)} trainings are missing: {', '.join(left)}.", soft_wrap=True)
        return
    for attack in found.accuracies.attacks:
        entries = zip(found.accuracies.strengths(attack), found.accuracies.values(attack), strict=True)
        console.print(
            f"{attack}: " + ", ".join(f"{strength(s, 3, of=attack)} -> {a:.1f}" for s, a in entries), highlight=False
        )
    for mark in (*found.marks, *found.warnings):
        console.print(f"[yellow]Warning:[/yellow] {safe(mark)}", highlight=False, soft_wrap=True)
    console.print(f"clean: {found.clean:.1f}\nReference: {safe(file)}", highlight=False, soft_wrap=True)
