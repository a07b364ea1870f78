"""``robustatlas certify``: sizes up to which no attack can succeed, written into a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.console import Console

from robustatlas.cli import _asked, _models, _workers
from robustatlas.cli._accuracies import print_accuracies
from robustatlas.cli._forecast import print_forecast
from robustatlas.cli._help import ATTACKS, COMPUTE, OUTPUT, FullHelp
from robustatlas.cli._options import parse_strengths, split_names
from robustatlas.cli._stopped import end_on_interrupt
from robustatlas.cli._terminal import print_run
from robustatlas.cli._workers import share_here
from robustatlas.common.errors import UserError
from robustatlas.common.scalars import parse_fraction

if TYPE_CHECKING:
    from robustatlas.certificates import Certificate


def certify(
    model: _models.Model,
    data: _models.Data,
    weights: _models.Weights = None,
    settings: _models.Settings = None,
    mean: _models.Mean = None,
    std: _models.Std = None,
    resize: _asked.Resize = None,
    crop: _asked.Crop = None,
    channels: _asked.Channels = None,
    samples: _asked.Samples = None,
    stratified: _asked.Stratified = None,
    attacks: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAMES",
            "Attacks whose threat models are certified, with commas between them: linf, l2, l1, brightness, "
            "contrast, saturation, hue. By default linf,l2.",
        ),
    ] = None,
    strengths: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAME=VALUES",
            "Strengths at which alone an attack is certified, one bound each: a list, `linf=2/255,8/255`, or equal "
            "steps, `linf=0.1:20`. May be given once for each attack. By default the largest size is searched.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        ATTACKS.option(
            "NAME",
            "How: interval, crown, beta-crown, linear, line or smoothing. By default what fits the network "
            "and the attack, at the effort that is asked for.",
        ),
    ] = None,
    method_setting: Annotated[
        list[str] | None,
        ATTACKS.option(
            "NAME=VALUE",
            "Setting of the method, such as `seconds=60` of beta-crown. May be given several times.",
            hidden=True,
        ),
    ] = None,
    effort: Annotated[
        str,
        ATTACKS.option(
            "NAME",
            "How long it may take: low (interval), default (crown) or high (beta-crown, up to 30 seconds a sample).",
            show_default=False,
        ),
    ] = "default",
    seed: _asked.Seed = 0,
    run: Annotated[
        Path | None,
        OUTPUT.option(
            "DIR",
            "Directory of the run, the same one that `evaluate` wrote, so that both sides stand together. By "
            "default a folder in `runs`, named by the model, the data and the weights' hash.",
        ),
    ] = None,
    shard_size: _asked.ShardSize = None,
    batch_size: Annotated[
        int | None, COMPUTE.option("N", "Number of samples that are computed at once, at most 64.", min=1)
    ] = None,
    device: _models.Device = None,
    threads: _asked.Threads = None,
    dry_run: Annotated[
        bool, COMPUTE.flag("--dry-run", "Certify a few samples, say how long all would take, and write nothing.")
    ] = False,
    workers: _workers.Workers = None,
    devices: _workers.Devices = None,
    ray: _workers.Ray = False,
    ray_address: _workers.RayAddress = None,
    ray_gpus: _workers.RayGpus = None,
    part: _workers.Part = None,
    help_all: FullHelp = False,
) -> None:
    r"""Find, for each sample, a size up to which no attack on MODEL can succeed.

    Attacks bound the robust accuracy from above, certificates from below. Both sides in one run:

    ```bash
    robustatlas evaluate builtin:digits-linf --data digits \
        --samples 100 --run runs/both
    robustatlas certify builtin:digits-linf --data digits \
        --samples 100 --run runs/both
    robustatlas show runs/both
    ```

    Brightness and contrast, where both sides meet:

    ```bash
    robustatlas certify builtin:digits-linf --data digits \
        --attacks brightness,contrast --run runs/both
    ```

    Ctrl-C stops it, and the same command continues it.
    """
    from robustatlas.certificates.certifying import certify_request, forecast
    from robustatlas.cli.evaluate import samples_and_folder
    from robustatlas.evaluation.cores import choose_cores
    from robustatlas.evaluation.request import Request
    from robustatlas.evaluation.workers.memory import hand_back_at_once

    classifier = _models.loaded(model, weights, settings, mean, std, device)
    dataset = _models.load_data(classifier, data, resize, crop, channels)
    dataset, folder = samples_and_folder(classifier, dataset, samples, stratified, seed, run)
    request = Request(
        attacks=_asked.requested_attacks(split_names(attacks, ["linf", "l2"]), "default", None),
        strengths=parse_strengths(strengths or []),
        seed=seed,
        run=folder,
        batch_size=batch_size,
        effort=effort,  # type: ignore[arg-type]
        shard_size=shard_size,
        progress=True,
        part=share_here(part),
        workers=workers,
        devices=split_names(devices) or None,
        ray=_workers.requested_cluster(ray, ray_address, ray_gpus, workers),
        cores=choose_cores(classifier, dataset.rows, threads),
    )
    chosen = _method(method, method_setting or ())
    console = Console(highlight=False)
    if dry_run:
        expected = forecast(classifier, dataset, request, chosen)
        print_forecast(expected, "certificate", "samples", str(classifier.device))
        return
    hand_back_at_once()
    with end_on_interrupt(
        lambda: f"Stopped. What is finished is kept in {folder}; the same command goes on from there."
    ):
        result = certify_request(classifier, dataset, request, chosen)
    print_accuracies(result, console)
    print_run(folder, console)


def _method(name: str | None, settings: Sequence[str]) -> Certificate | None:
    from robustatlas.certificates import certificate_named

    if name is None:
        if settings:
            raise UserError(f"--method-setting {settings[0]} is of no method; name it with --method.")
        return None
    given: dict[str, object] = {}
    for item in settings:
        key, _, value = (part.strip() for part in item.partition("="))
        if not key or not value:
            raise UserError(f"--method-setting {item!r} is not understood; expected NAME=VALUE, such as seconds=60.")
        number = parse_fraction(value)
        given[key.replace("-", "_")] = value if number != number else int(number) if number.is_integer() else number
    return certificate_named(name, **given)
