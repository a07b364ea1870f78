"""``robustatlas reference``: make the denominators of CR and UAR on one's own data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli import _workers
from robustatlas.cli._options import parse_strengths
from robustatlas.cli._share import share_here
from robustatlas.cli._terminal import safe


def reference(
    arch: Annotated[str, typer.Argument(help="As of `robustatlas train`.")],
    data: Annotated[str, typer.Option(metavar="NAME", help="Trained on its training images, evaluated on its test.")],
    strengths: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=VALUES",
            help="Attacks and strengths: `linf=0.02,0.05` or `l2=2:5` (5 steps up to 2). Repeatable.",
        ),
    ],
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="For all trainings and reference.json; what is there goes on.")
    ],
    rule: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="acc: trained at each strength, mean of the runs (MultiRobustBench); ata: the best of all models "
            "trained against the attack (UAR).",
        ),
    ] = "acc",
    trained: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES", help="Strengths to train at (rule ata), where they are others. Repeatable."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each training.")] = 1,
    recipe: Annotated[str, typer.Option(metavar="NAME", help="Default: pgd for acc, uniform for ata.")] = "",
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Of each training.")] = 20,
    steps: Annotated[int, typer.Option(metavar="N", min=1, help="Of crafting.")] = 10,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Settings of the recipe. Repeatable.")
    ] = None,
    with_: Annotated[
        list[str] | None, typer.Option("--with", metavar="NAME=VALUE", help="Settings of the trainer. Repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the first run.")] = 0,
    training_samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Train on so many images only, evenly from all classes.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Evaluate on the first N test images.")
    ] = None,
    search: Annotated[str, typer.Option(metavar="NAME", help="descent, bisection or every.")] = "descent",
    part: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only share I, from 0 to N-1, of the trainings; the others can run elsewhere. Default: what a Slurm "
            "array or RANK and WORLD_SIZE say, or else all.",
        ),
    ] = None,
    device: Annotated[str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1.")] = None,
    workers: _workers.Workers = None,
    ray: _workers.Ray = False,
    ray_address: _workers.RayAddress = None,
    ray_gpus: _workers.RayGpus = None,
) -> None:
    """Train models against each attack, evaluate them, and write a reference.

    Seven small networks, and the accuracies that MultiRobustBench's ratio divides by:

        robustatlas reference small-cnn --data fashion-mnist --strengths linf=0.15:3 --strengths l2=3:3 --out ref

        robustatlas show RUN --reference ref/reference.json

    On a cluster each job takes a share: `--part 3/8` is the fourth of eight, and the tasks of a Slurm array take
    theirs by themselves. `--workers 4` trains four models at once; `--ray-address auto` on all nodes of a cluster.
    """
    import robustatlas as ra
    from robustatlas.cli.train import settings_from
    from robustatlas.models import parse_settings
    from robustatlas.training.references import ReferencePlan, make_reference, missing

    training = ra.load_dataset(data, "train")
    if training_samples is not None:
        training = training.take(training_samples, stratified=True, seed=seed)
    plan = ReferencePlan(
        architecture=arch,
        strengths=parse_strengths(strengths),
        rule=rule,  # type: ignore[arg-type]
        trained=parse_strengths(trained or []) or None,
        seeds=seeds,
        recipe=recipe,
        steps=steps,
        recipe_settings=parse_settings(set_ or []),
        settings=settings_from(parse_settings(with_ or []), epochs=epochs, seed=seed),
        samples=samples,
        search=search,  # type: ignore[arg-type]
    )
    console, share = Console(), share_here(part)
    try:
        found = make_reference(
            plan,
            training,
            ra.load_dataset(data),
            out,
            share,
            device,
            progress=True,
            workers=workers or 1,
            ray=_workers.cluster_from(ray, ray_address, ray_gpus, workers),
        )
    except KeyboardInterrupt:
        kept = f"\nStopped. What is done is in {safe(out)}; the same command goes on from there."
        Console(stderr=True, soft_wrap=True).print(kept, highlight=False)
        raise typer.Exit(130) from None
    if found is None:
        left = missing(plan, out)
        console.print(f"This part is done; {len(left)} trainings are missing: {', '.join(left)}.", soft_wrap=True)
        return
    for attack in found.accuracies.attacks:
        cells = zip(found.accuracies.strengths(attack), found.accuracies.values(attack), strict=True)
        console.print(f"{attack}: " + ", ".join(f"{s:.3g} -> {a:.1f}" for s, a in cells), highlight=False)
    console.print(
        f"clean: {found.clean:.1f}\nReference: {safe(out / 'reference.json')}", highlight=False, soft_wrap=True
    )
