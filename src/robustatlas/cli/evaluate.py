"""``robustatlas evaluate``: run attacks and write a run directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from robustatlas.cli import _attacks, _models, _workers
from robustatlas.cli._forecast import forecast_table
from robustatlas.cli._options import names_in, parse_strengths
from robustatlas.cli._share import share_here
from robustatlas.cli._stopped import what_is_kept
from robustatlas.cli._terminal import accuracy_tables, safe
from robustatlas.cli._threads import set_threads
from robustatlas.errors import UserError
from robustatlas.facts.rows import read_card


def evaluate(
    model: _models.Model,
    data: _models.Data,
    attacks: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help="Attacks or suites, with commas; `robustatlas attacks` lists them. `file.py:ATTACK`: one of your own.",
        ),
    ] = "linf,l2",
    exclude: Annotated[str | None, typer.Option(metavar="NAMES", help="Attacks to leave out of the suites.")] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="descent (default), bisection (as MultiRobustBench), every, frontier or minimum (sizes, no grid).",
        ),
    ] = None,
    effort: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="low (fewer passes), default, or high (several times as many, for a number in a paper).",
        ),
    ] = "default",
    procedure: Annotated[
        str, typer.Option(metavar="NAME", help="default, or paper: each attack as its source ran it.")
    ] = "default",
    strengths: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUES",
            help="Own strengths: `linf=2/255,8/255` or `linf=0.1:20` (20 equal steps up to 0.1). Repeatable.",
        ),
    ] = None,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="NET=FILE",
            help="What lpips compares images by: `alexnet=FILE`, `alexnet_cifar=FILE` or `vgg16=FILE` of weights; "
            "default: the model's own activations.",
        ),
    ] = None,
    resize: Annotated[
        int | None, typer.Option(metavar="PIXELS", min=1, help="Shorter side of pictures in folders.")
    ] = None,
    crop: Annotated[
        int | None, typer.Option(metavar="PIXELS", min=1, help="Their middle that is kept; default: what MODEL states.")
    ] = None,
    samples: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only so many samples: the first ones.")
    ] = None,
    stratified: Annotated[
        bool, typer.Option("--stratified", help="Take --samples evenly from all classes instead.")
    ] = False,
    run: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Directory of the run; one that is there goes on or grows. Default: runs/MODEL-DATA."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="What reports call the model.")] = None,
    about: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="JSON on the model, kept in the run for reports and leaderboards: title, url, architecture, "
            "extra_data, trained_on (attack: strength), notes.",
        ),
    ] = None,
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of all random numbers.")] = 0,
    batch_size: Annotated[
        str | None,
        typer.Option(metavar="N", help="Samples at work at once (default 256); auto: what the device is fast with."),
    ] = None,
    shard_size: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Samples per file, the most that a stop loses; default: 45 s of work."),
    ] = None,
    device: _models.Device = None,
    workers: _workers.Workers = None,
    devices: Annotated[
        str | None, typer.Option(metavar="NAMES", help="One worker on each of these: `cuda:0,cuda:1`.")
    ] = None,
    ray: _workers.Ray = False,
    ray_address: _workers.RayAddress = None,
    ray_gpus: _workers.RayGpus = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Only every N-th sample, from the I-th on (0 to N-1). Default: what a Slurm array or RANK and "
            "WORLD_SIZE say, or else all.",
        ),
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="On a processor; default: 1 or torch's own, whichever is faster here."),
    ] = None,
    precision: Annotated[
        str,
        typer.Option(metavar="NAME", help="bfloat16 searches faster on GPUs and new CPUs; successes count in float32."),
    ] = "float32",
    compiled: Annotated[
        bool, typer.Option("--compile", help="Search through torch.compile: a minute to begin, then faster.")
    ] = False,
    keep_adversarial: Annotated[
        bool, typer.Option("--keep-adversarial", help="Keep the smallest adversarial example of each sample.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Try each attack for seconds, say what all would take, and write nothing.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say what was chosen for you.")] = False,
) -> None:
    """Find, for each sample and attack, the smallest strength at which MODEL errs.

    A model of your own, 1,000 CIFAR-10 images, the lp attacks:

        robustatlas evaluate mynet.py:make --weights net.safetensors --data cifar10 --attacks lp --samples 1000

    The function returns the nn.Module, or (module, mean, std) where inputs are to be normalised.

    The nine ranked attacks of MultiRobustBench, exactly as that benchmark ran them:

        robustatlas evaluate mynet.py:make --data cifar10 --attacks multirobustbench --procedure paper

    A first look without anything at hand:

        robustatlas evaluate builtin:digits-linf --data digits --strengths linf=0.3:20 --strengths l2=1.5:20

    Ctrl-C stops; the same command goes on where it stopped. More --samples, attacks or strengths add to the run.
    """
    import robustatlas as ra
    from robustatlas.evaluation import forecast
    from robustatlas.evaluation.memory import hand_back_at_once

    card = read_card(about) if about else {}
    wanted = parse_strengths(strengths or [])
    classifier = _models.loaded(model, weights, settings, mean, std, device, _precision(precision), name, compiled)
    chosen = _attacks.chosen(names_in(attacks), procedure, features, classifier)  # type: ignore[arg-type]
    dataset = _models.data_for(classifier, data, resize, crop).take(samples, stratified=stratified, seed=seed)
    folder = run or Path("runs") / f"{_plain(classifier.name)}-{_plain(dataset.name)}"
    used = set_threads(threads, classifier, dataset.rows)
    share = share_here(part)
    if verbose:
        Console(stderr=True).print(f"{used} thread{'s' * (used > 1)} on {classifier.device}.", highlight=False)
    asked: dict[str, Any] = {
        "attacks": chosen,
        "search": search,
        "effort": effort,
        "procedure": procedure,
        "strengths": wanted,
        "seed": seed,
        "run": folder,
        "batch_size": _batch_size(batch_size),
        "exclude": names_in(exclude),
        "keep_adversarial": keep_adversarial,
        "part": str(share),
        "workers": workers,
        "devices": names_in(devices) or None,
    }
    if dry_run:
        Console().print(forecast_table(forecast(classifier, dataset, progress=True, **asked), f"{classifier.device}"))
        return
    hand_back_at_once()
    try:
        result = ra.evaluate(
            classifier,
            dataset,
            shard_size=shard_size,
            progress=True,
            ray=_workers.cluster_from(ray, ray_address, ray_gpus, workers),
            **asked,
        )
    except KeyboardInterrupt:
        Console(stderr=True, soft_wrap=True).print(f"\n{safe(what_is_kept(folder))}", highlight=False)
        raise typer.Exit(130) from None
    result.describe(card)
    console = Console()
    others = f"Part {share} is done; the other parts, or the same 'evaluate' without --part, do the rest."
    console.print(accuracy_tables(result, rest=others) if share.of > 1 else accuracy_tables(result))
    console.print(f"Run: {safe(folder)}   More: robustatlas show {safe(folder)}", highlight=False, soft_wrap=True)


def _batch_size(given: str | None) -> int | Literal["auto"] | None:
    if given is None:
        return None
    if given == "auto":
        return "auto"
    if not given.isdecimal() or not int(given):
        raise typer.BadParameter(f"{given} is neither a number of at least 1 nor auto.", param_hint="--batch-size")
    return int(given)


def _precision(given: str) -> Literal["float32", "bfloat16"]:
    if given == "float32":
        return "float32"
    if given == "bfloat16":
        return "bfloat16"
    raise UserError(f"--precision {given} is not known; expected float32 or bfloat16.")


def _plain(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.") or "model"
