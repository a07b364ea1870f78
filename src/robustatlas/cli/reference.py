"""``robustatlas reference``: make the denominators of CR and UAR on one's own data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.console import Console

from robustatlas.cli import _models, _training, _workers
from robustatlas.cli._help import ATTACKS, DATA, OUTPUT, TRAINING, FullHelp
from robustatlas.cli._options import parse_strengths
from robustatlas.cli._stopped import end_on_interrupt
from robustatlas.cli._terminal import safe
from robustatlas.cli._workers import share_here
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength

if TYPE_CHECKING:
    from robustatlas.metrics.references import Reference


def reference(
    arch: _training.Architecture,
    data: Annotated[
        str, DATA.option("NAME", "Data set: its test images evaluate the models, and its training images train them.")
    ],
    strengths: Annotated[
        list[str],
        ATTACKS.option(
            "NAME=VALUES",
            "Strengths of an attack in the reference: a list, `linf=0.02,0.05`, or equal steps, `l2=2:5` (5 steps "
            "up to 2). Given once for each attack.",
        ),
    ],
    out: Annotated[
        Path,
        OUTPUT.option(
            "DIR", "Directory for all trainings and for reference.json. What it holds is not computed again."
        ),
    ],
    train_data: Annotated[
        str | None,
        DATA.option(
            "NAME",
            "Data set whose training images train the models: needed where `--data` is a file or a folder of "
            "pictures, which has no splits. By default that of `--data`.",
            hidden=True,
        ),
    ] = None,
    train_samples: Annotated[
        int | None,
        DATA.option(
            "N",
            "Number of training images, drawn with the classes in their proportions. By default all.",
            min=1,
            hidden=True,
        ),
    ] = None,
    samples: Annotated[
        int | None, DATA.option("N", "Number of test images to evaluate on: the first ones. By default all.", min=1)
    ] = None,
    search: Annotated[
        str | None,
        ATTACKS.option(
            "NAME",
            "How the evaluation searches the strengths: descent, bisection or every. By default descent, and "
            "every with `--protocol paper`.",
            hidden=True,
        ),
    ] = None,
    protocol: Annotated[
        str,
        ATTACKS.option(
            "NAME",
            "`default`, or `paper`: evaluate by the attacks as published, for ata by UAR's of 200 steps.",
            hidden=True,
        ),
    ] = "default",
    features: _training.Features = None,
    rule: Annotated[
        str,
        TRAINING.option(
            "NAME",
            "acc, as MultiRobustBench: a model is trained at each strength, and the mean over the seeds counts. "
            "ata, as UAR: the best of all models that are trained against the attack counts.",
            hidden=True,
        ),
    ] = "acc",
    trained: Annotated[
        list[str] | None,
        TRAINING.option(
            "NAME=VALUES",
            "Strengths to train at by the rule ata, where they are not those of the reference. Given once for "
            "each attack.",
            hidden=True,
        ),
    ] = None,
    seeds: Annotated[
        int, TRAINING.option("N", "Number of times that each training is run, each time with another seed.", min=1)
    ] = 1,
    recipe: Annotated[
        str,
        TRAINING.option(
            "NAME",
            "How the models are trained. By default as each attack's own field does: pat against lpips, and "
            "against all others pgd (rule acc) or uniform (rule ata).",
        ),
    ] = "",
    presets: Annotated[
        str,
        TRAINING.option(
            "NAME",
            "Train against each attack as a paper prints it: multirobustbench, uar or uar-imagenet100. Other "
            "options count in place of what is printed.",
            "--preset",
            hidden=True,
        ),
    ] = "",
    for_: Annotated[
        list[str] | None,
        TRAINING.option(
            "NAME:KEY=VALUE",
            "What is otherwise against one attack, such as `elastic:steps=30` or `lpips:epochs=60`: steps, rate, "
            "recipe, a setting of the trainer or of the recipe. `standard:` is the standard training. May be given "
            "several times.",
            "--for",
            hidden=True,
        ),
    ] = None,
    epochs: Annotated[
        int | None, TRAINING.option("N", "Number of times that each training sees all images. By default 20.", min=1)
    ] = None,
    steps: Annotated[
        int | None,
        TRAINING.option(
            "N",
            "Number of steps that make an adversarial example for training. By default 10; for ata 30 of elastic.",
            min=1,
        ),
    ] = None,
    set_: _training.RecipeSettings = None,
    with_: _training.TrainerSettings = None,
    seed: Annotated[int, TRAINING.option("N", "Seed of the first run of each training.")] = 0,
    device: _models.Device = None,
    part: _workers.Part = None,
    workers: _workers.Workers = None,
    ray: _workers.Ray = False,
    ray_address: _workers.RayAddress = None,
    ray_gpus: _workers.RayGpus = None,
    help_all: FullHelp = False,
) -> None:
    r"""Train models against each attack, evaluate them, and write a reference.

    A reference holds the accuracies that CR and UAR divide by. Seven small networks, and the reference they make:

    ```bash
    robustatlas reference small-cnn --data fashion-mnist \
        --strengths linf=0.15:3 --strengths l2=3:3 \
        --out ref
    robustatlas show runs/mynet \
        --reference ref/reference.json
    ```

    The parts of this work are its trainings: with `--part 3/8` a job does the fourth of eight parts, and the tasks of a
    Slurm array take theirs by themselves. `--workers 4` trains four models at once. `--ray-address auto` uses all
    machines of a cluster.
    """
    from robustatlas.cli.train import settings_given
    from robustatlas.data import load_dataset
    from robustatlas.models.settings import parse_settings
    from robustatlas.training.references import ReferencePlan, make_reference, missing_trainings

    training = load_dataset(train_data or data, "train")
    if train_samples is not None:
        training = training.take(train_samples, stratified=True, seed=seed)
    given = settings_given(parse_settings(with_ or []), epochs=epochs, seed=seed)
    plan = ReferencePlan(
        architecture=arch,
        strengths=parse_strengths(strengths),
        rule=rule,  # type: ignore[arg-type]
        trained=parse_strengths(trained or []) or None,
        seeds=seeds,
        presets=presets,
        **_plan_arguments(presets, recipe, steps, parse_settings(set_ or []), given, for_ or []),
        samples=samples,
        search=search,  # type: ignore[arg-type]
        protocol=protocol,  # type: ignore[arg-type]
        features=features,
    )
    share, test = share_here(part), load_dataset(data)
    with end_on_interrupt(lambda: f"Stopped. What is done is in {out}; the same command goes on from there."):
        found = make_reference(
            plan,
            training,
            test,
            out,
            share,
            device,
            progress=True,
            workers=1 if workers is None else workers,
            ray=_workers.requested_cluster(ray, ray_address, ray_gpus, workers),
        )
    _print(found, missing_trainings(plan, out, len(test)) if found is None else [], out / "reference.json")


def _plan_arguments(
    presets: str, recipe: str, steps: int | None, options: dict[str, Any], given: dict[str, Any], for_: Sequence[str]
) -> dict[str, Any]:
    """Return the arguments of a plan: for all attacks, replacing those of a preset if one is named, and for some."""
    from robustatlas.training import Settings

    some = _parse_attack_settings(for_)
    if not presets:
        asked = {"recipe": recipe, "steps": steps, "recipe_settings": options, "settings": Settings(**given)}
        return asked | {"per_attack": some or None}
    named = {"recipe": recipe or None, "steps": steps}
    every = {key: value for key, value in named.items() if value is not None} | options | given
    return {"settings": Settings(seed=given["seed"]), "per_attack": {"all": every, **some}}


def _parse_attack_settings(given: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the settings of each attack from options such as ``elastic:steps=30``.

    Example:
        >>> _parse_attack_settings(["elastic:steps=30", "elastic:epochs=2"])
        {'elastic': {'steps': 30, 'epochs': 2}}
    """
    from robustatlas.models.settings import parse_settings

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
        entries = zip(found.accuracies.distances(attack), found.accuracies.values(attack), strict=True)
        console.print(
            f"{attack}: " + ", ".join(f"{format_strength(s, 3, attack=attack)} -> {a:.1f}" for s, a in entries)
        )
    for mark in (*found.marks, *found.warnings):
        console.print(f"[yellow]Warning:[/yellow] {safe(mark)}", soft_wrap=True)
    console.print(f"clean: {found.clean:.1f}\nReference: {safe(file)}", soft_wrap=True)
