"""``robustatlas evaluate``: run attacks and write a run directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from rich.console import Console

from robustatlas.cli import _asked, _models, _runs, _work
from robustatlas.cli._accuracies import print_accuracies
from robustatlas.cli._help import ATTACKS, COMPUTE, MODEL, OUTPUT, FullHelp
from robustatlas.cli._options import parse_attack_strengths, parse_strengths, split_names
from robustatlas.cli._terminal import print_run, print_what_to_do
from robustatlas.cli._work import end_on_interrupt, interrupted_sentence, print_forecast, share_here
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.common.wording import pluralise, safe_file_name
from robustatlas.report.facts.rows import read_card
from robustatlas.report.numbers.points import searched_points

if TYPE_CHECKING:
    from robustatlas.data import Dataset
    from robustatlas.evaluation.cores import Cores
    from robustatlas.evaluation.request import Request
    from robustatlas.models.classifier import Classifier, Precision
    from robustatlas.results.result import Result


def evaluate(
    model: _models.Model,
    data: _models.Data,
    name: Annotated[str | None, MODEL.option("TEXT", "What tables and reports call the model.", hidden=True)] = None,
    about: Annotated[
        Path | None,
        MODEL.option(
            "FILE",
            "JSON file about the model, kept in the run for reports and leaderboards: title, url, architecture, "
            "extra_data, trained_on (attack: strength), notes.",
            hidden=True,
        ),
    ] = None,
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    classes: _models.Classes = None,
    prompt: _models.Prompt = None,
    draws: Annotated[
        int | None,
        MODEL.option(
            "N",
            "The model draws random numbers: take the mean of N draws for gradients, and for an error what most of "
            "fresh draws make.",
            min=1,
            hidden=True,
        ),
    ] = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    resize: _asked.Resize = None,
    crop: _asked.Crop = None,
    channels: _asked.Channels = None,
    samples: _asked.Samples = None,
    stratified: _asked.Stratified = None,
    attacks: _asked.Attacks = None,
    exclude: _asked.Exclude = None,
    search: _asked.Search = None,
    effort: _asked.Effort = "default",
    protocol: _asked.ProtocolName = "default",
    strengths: _asked.Strengths = None,
    features: _asked.Features = None,
    pixels: _asked.Pixels = "any",
    border: _asked.Border = None,
    seed: _asked.Seed = 0,
    no_diagnose: Annotated[
        bool,
        ATTACKS.flag(
            "--no-diagnose",
            "Leave out the diagnosis, which looks at some samples to tell if the numbers can be trusted.",
            hidden=True,
        ),
    ] = False,
    audit: Annotated[
        int | None,
        ATTACKS.option(
            "N",
            "Search N samples, drawn at random, again by every kind of attack that fits, and say what that would "
            "leave on all. By default 50 where they cost at most a tenth of the passes; 0: none.",
            min=0,
            hidden=True,
        ),
    ] = None,
    headline: _runs.Headline = None,
    run: Annotated[
        Path | None,
        OUTPUT.option(
            "DIR",
            "Directory of the run, or its address in a store of objects (`s3://bucket/run`). One that exists is "
            "continued: what it holds is not computed again. By default a folder in "
            "`runs`, named by the model, the data and the weights' hash.",
        ),
    ] = None,
    shard_size: _asked.ShardSize = None,
    keep_adversarial: Annotated[
        bool,
        OUTPUT.flag(
            "--keep-adversarial", "Keep the smallest adversarial example of each sample in the run.", hidden=True
        ),
    ] = False,
    verbose: Annotated[
        bool, OUTPUT.flag("--verbose", "Say which device and how many threads were chosen.", "-v", hidden=True)
    ] = False,
    batch_size: _asked.BatchSize = None,
    device: _models.Device = None,
    threads: _asked.Threads = None,
    precision: Annotated[
        str,
        COMPUTE.option(
            "NAME",
            "Number format of the search: float32, tf32 (faster on NVIDIA GPUs) or bfloat16 (GPUs and new "
            "processors; finds larger examples). What is found is always checked in float32.",
            hidden=True,
        ),
    ] = "float32",
    compiled: Annotated[
        bool,
        COMPUTE.flag(
            "--compile",
            "Search through torch.compile, which takes about a minute to begin and is faster afterwards.",
            hidden=True,
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        COMPUTE.flag(
            "--dry-run", "Try each attack for some seconds, say how long the evaluation would take, and write nothing."
        ),
    ] = False,
    device_throughput: _asked.DeviceThroughput = None,
    workers: _work.Automatic = "auto",
    devices: _work.Devices = None,
    ray: _work.Ray = False,
    ray_address: _work.RayAddress = None,
    ray_gpus: _work.RayGpus = None,
    part: _work.Part = None,
    help_all: FullHelp = False,
) -> None:
    r"""Find, for each sample and attack, the smallest strength at which MODEL errs.

    A first look, with a network and images that come with the package:

    ```bash
    robustatlas evaluate builtin:digits-linf --data digits \
        --strengths linf=0.3:20 --strengths l2=1.5:20
    ```

    A model of your own, against the attacks in four norms, on 1,000 images of CIFAR-10:

    ```bash
    robustatlas evaluate mynet.py:make \
        --weights net.safetensors --data cifar10 \
        --attacks lp --samples 1000
    ```

    The function `make` returns the `nn.Module`, or `(module, mean, std)` where its inputs are to be normalised.

    The nine ranked attacks of MultiRobustBench, as that benchmark ran them:

    ```bash
    robustatlas evaluate mynet.py:make --data cifar10 \
        --attacks multirobustbench --protocol paper
    ```

    Ctrl-C stops the evaluation, and the same command continues it. The same command with more samples, attacks or
    strengths adds them to the run.
    """
    from robustatlas.evaluation.request import Request

    card, first = read_card(about) if about else {}, parse_attack_strengths(headline, "--headline")
    card |= {"name": name} if name else {}
    wanted, how = parse_strengths(strengths or []), cast("Precision", precision)
    asked = _models.zero_shot(model, classes, prompt)
    classifier = _models.loaded(model, weights, settings, mean, std, device, how, name, compiled, asked, draws, classes)
    chosen = _asked.requested_attacks(_asked.attack_names(attacks, classifier), protocol, features)
    dataset = _models.load_data(classifier, data, resize, crop, channels)
    dataset, folder = samples_and_folder(classifier, dataset, samples, stratified, seed, run)
    request = Request(
        attacks=chosen,
        search=search,  # type: ignore[arg-type]
        effort=effort,  # type: ignore[arg-type]
        protocol=protocol,  # type: ignore[arg-type]
        strengths=wanted,
        pixels=pixels,  # type: ignore[arg-type]
        border=border,  # type: ignore[arg-type]
        seed=seed,
        run=folder,
        batch_size=_asked.parse_batch_size(batch_size),
        exclude=split_names(exclude),
        shard_size=shard_size,
        keep_adversarial=keep_adversarial,
        diagnose=not no_diagnose,
        audit=audit,
        progress=True,
        part=share_here(part),
        workers=_work.parse_workers(workers),
        devices=split_names(devices) or None,
        ray=_work.requested_cluster(ray, ray_address, ray_gpus, workers),
        cores=_cores(threads, classifier, dataset, verbose),
    )
    _check_headline(first or {}, classifier, dataset, request)
    if dry_run:
        from robustatlas.evaluation.forecast import forecasted
        from robustatlas.evaluation.throughput import DeviceThroughput

        throughput = DeviceThroughput.parse_optional(device_throughput)
        expected = forecasted(classifier, dataset, request, 5.0, throughput)
        print_forecast(expected, "attack", "samples", throughput.name if throughput else str(classifier.device))
    else:
        _evaluated(classifier, dataset, request, card, first)


def _evaluated(
    model: Classifier,
    data: Dataset,
    request: Request,
    card: Mapping[str, Any],
    first: Mapping[str, float] | None,
) -> None:
    from robustatlas.evaluation.auditing import evaluated_and_audited
    from robustatlas.evaluation.workers.memory import hand_back_at_once

    folder = cast(Path, request.run)
    hand_back_at_once()
    with end_on_interrupt(partial(interrupted_sentence, folder)):
        result = evaluated_and_audited(model, data, request)
    _conclude(result, card, folder, request, first)


def _check_headline(first: Mapping[str, float], model: Classifier, data: Dataset, request: Request) -> None:
    """Refuse a headline that the run will not have, before any work."""
    from robustatlas.evaluation.attack_choice import choose_attacks
    from robustatlas.evaluation.samples import choose_samples
    from robustatlas.outcomes import Run

    if not first:
        return
    known: list[tuple[str, Sequence[float]]] = []
    with suppress(UserError):  # there is no run yet
        records = Run.open(cast(Path, request.run)).records().values()
        known += [(record.name, record.strengths) for record in records]
    attacks = choose_attacks(request, model, choose_samples(data).first.images)
    known += [(attack.name, attack.strengths) for attack in attacks]
    grids = {name: sorted({*chain.from_iterable(grid for one, grid in known if one == name)}) for name, _ in known}
    searched_points(first, grids, "--headline", "@")


def samples_and_folder(
    model: Classifier, data: Dataset, count: int | None, stratified: bool | None, seed: int, run: Path | None
) -> tuple[Dataset, Path]:
    """Return the samples of a data set that are asked for, and the folder of their run."""
    from robustatlas.evaluation.samples import take_samples

    folder = parse_path(run) if run else run_folder(model, data)
    return take_samples(data, count, stratified, seed, folder), folder


def run_folder(model: Classifier, data: Dataset) -> Path:
    """Return the default folder of a run. Each set of weights has its own, named by a hash of them."""
    name = f"{safe_file_name(model.name)}-{safe_file_name(data.name)}"
    weights = model.identity().weights_sha256
    return Path("runs") / (name if weights is None else f"{name}-{weights[:8]}")


def _cores(threads: int | None, model: Classifier, data: Dataset, verbose: bool) -> Cores:
    from robustatlas.evaluation.cores import choose_cores

    cores = choose_cores(model, data.rows, threads)
    if verbose:
        Console(stderr=True, highlight=False).print(f"{pluralise(cores.threads, 'thread')} on {model.device}.")
    return cores


def _conclude(
    result: Result, card: Mapping[str, Any], folder: Path, request: Request, first: Mapping[str, float] | None
) -> None:
    from robustatlas.evaluation.workers.share import parse_share

    share = parse_share(request.part)
    if card and card != {"name": result.name}:
        result.describe(card)
        result = result.reread()
    console = Console(highlight=False)
    others = f"Part {share} is done; the other parts, or the same 'evaluate' without --part, do the rest."
    print_accuracies(result, console, rest=others if share.of > 1 else None, first=first)
    print_run(folder, console)
    if result.diagnosis is not None and result.diagnosis.has_doubts:
        print_what_to_do(folder, console)
