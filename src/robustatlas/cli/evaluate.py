"""``robustatlas evaluate``: run attacks and write a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from robustatlas.cli._options import parse_strengths
from robustatlas.cli._tables import accuracy_tables
from robustatlas.errors import UserError


def evaluate(
    model: Annotated[str, typer.Argument(help="`path/file.py:function`, `package.module:function` or `builtin:NAME`.")],
    data: Annotated[
        str, typer.Option(metavar="NAME", help="digits, mnist, fashion-mnist, cifar10, or a file.npz (images, labels).")
    ],
    attacks: Annotated[
        str, typer.Option(metavar="NAMES", help="Attacks or suites, with commas; `robustatlas attacks` lists them.")
    ] = "linf,l2",
    search: Annotated[
        str | None, typer.Option(metavar="NAME", help="descent (default), bisection (as MultiRobustBench) or every.")
    ] = None,
    procedure: Annotated[
        str, typer.Option(metavar="NAME", help="default, or paper: each attack as its source ran it.")
    ] = "default",
    strengths: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Own strengths: `linf=0.01,0.02` or `linf=0.1:20` (20 equal steps up to 0.1). Repeatable.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only so many samples: the first ones.")
    ] = None,
    stratified: Annotated[
        bool, typer.Option("--stratified", help="Take --samples evenly from all classes instead.")
    ] = False,
    run: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Directory of the run; an interrupted one goes on. Default: runs/MODEL-DATA."),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Weights: .safetensors, or .pt of plain tensors.")
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of all random numbers.")] = 0,
    batch_size: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Samples at work at once (default 256).")
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="NAME", help="cpu, cuda, cuda:1, mps; default: cuda where there is one.")
    ] = None,
    precision: Annotated[
        str, typer.Option(metavar="NAME", help="bfloat16 searches faster on GPUs; successes count in float32.")
    ] = "float32",
    keep_adversarial: Annotated[
        bool, typer.Option("--keep-adversarial", help="Keep the smallest adversarial example of each sample.")
    ] = False,
) -> None:
    """Find, for each sample and attack, the smallest strength at which MODEL errs.

    A model of your own, 1,000 CIFAR-10 images, the lp attacks:

        robustatlas evaluate mynet.py:make --weights net.safetensors --data cifar10 --attacks lp --samples 1000

    The function returns the nn.Module, or (module, mean, std) where inputs are to be normalised.

    The nine ranked attacks of MultiRobustBench, exactly as that benchmark ran them:

        robustatlas evaluate mynet.py:make --data cifar10 --attacks multirobustbench --procedure paper

    A first look without anything at hand:

        robustatlas evaluate builtin:digits-linf --data digits --strengths linf=0.3:20 --strengths l2=1.5:20

    Ctrl-C stops; the same command goes on where it stopped.
    """
    import torch

    import robustatlas as ra

    names = [name.strip() for name in attacks.split(",") if name.strip()]
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    classifier = ra.load_model(model, weights, device=chosen, precision=_precision(precision))
    for note in classifier.notes:
        Console(stderr=True).print(note, highlight=False, soft_wrap=True)
    dataset = ra.load_dataset(data)
    if samples is not None:
        dataset = dataset.take(samples, stratified=stratified, seed=seed)
    folder = run or Path("runs") / f"{_plain(classifier.name)}-{_plain(dataset.name)}"
    console = Console()
    try:
        result = ra.evaluate(
            classifier,
            dataset,
            names,
            search=search,  # type: ignore[arg-type]
            procedure=procedure,  # type: ignore[arg-type]
            strengths=parse_strengths(strengths or []),
            seed=seed,
            run=folder,
            batch_size=batch_size,
            keep_adversarial=keep_adversarial,
            progress=True,
        )
    except KeyboardInterrupt:
        Console(stderr=True).print(f"\nStopped. Finished shards are in {folder}; the same command goes on from there.")
        raise typer.Exit(130) from None
    console.print(accuracy_tables(result))
    console.print(f"Run: {folder}   More: robustatlas show {folder}", highlight=False, soft_wrap=True)


def _precision(given: str) -> Literal["float32", "bfloat16"]:
    if given == "float32":
        return "float32"
    if given == "bfloat16":
        return "bfloat16"
    raise UserError(f"--precision {given} is not known; expected float32 or bfloat16.")


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "model"
