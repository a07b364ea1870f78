"""``robustatlas field``: many models by the same attacks, each in a run of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from robustatlas.cli import _asked, _models, _work
from robustatlas.cli._help import COMPUTE, GENERAL, OUTPUT, FullHelp
from robustatlas.cli._options import parse_strengths, split_names
from robustatlas.cli._terminal import safe, table
from robustatlas.cli._work import end_on_interrupt, print_forecast, share_here
from robustatlas.common.files import parse_path
from robustatlas.common.typed_strengths import format_size
from robustatlas.common.wording import format_duration, label_masked, masked_reason, pluralise, shell_word
from robustatlas.outcomes.accuracies import masked_shares

if TYPE_CHECKING:
    from robustatlas.evaluation.field import FieldModel, FieldOutcome
    from robustatlas.results.result import Result


def field(
    models: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Text file with a model a line: its source and, where it takes any, `--name`, `--weights`, `--mean`, "
            "`--std` and `--set`.",
        ),
    ],
    data: _models.Data,
    store: Annotated[
        Path,
        OUTPUT.option(
            "DIR",
            "Folder, or address in a store of objects (`s3://bucket/field`), that has the run of each model by "
            "its name.",
        ),
    ],
    samples: _asked.Samples = None,
    attacks: _asked.Attacks = None,
    exclude: _asked.Exclude = None,
    search: _asked.Search = None,
    effort: _asked.Effort = "default",
    protocol: _asked.ProtocolName = "default",
    strengths: _asked.Strengths = None,
    features: _asked.Features = None,
    seed: _asked.Seed = 0,
    batch_size: _asked.BatchSize = None,
    device: _models.Device = None,
    price: Annotated[
        float | None,
        GENERAL.option(
            "NUMBER",
            "What an hour of this machine costs; with `--dry-run`, to say what all would cost.",
            min=0,
            hidden=True,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        COMPUTE.flag(
            "--dry-run",
            "Try each attack on each model for some seconds, say what they lack and how long all would take, and "
            "write nothing.",
        ),
    ] = False,
    device_throughput: _asked.DeviceThroughput = None,
    workers: _work.Automatic = "auto",
    ray: _work.Ray = False,
    ray_address: _work.RayAddress = None,
    ray_gpus: _work.RayGpus = None,
    part: _work.Part = None,
    help_all: FullHelp = False,
) -> None:
    r"""Evaluate all models that a file lists by the same attacks on the same data.

    ```bash
    robustatlas field models.txt --data cifar10 \
        --attacks multirobustbench \
        --store s3://bucket/field
    ```

    Each model has a run by its name in the store. A model that cannot be loaded or fails is told at the end, and the
    others are evaluated all the same. The same command again does what is missing. Many machines share the work by
    `--part`, so that each evaluates its samples of every model.

    What all would take on this machine, at 2.50 an hour:

    ```bash
    robustatlas field models.txt --data cifar10 \
        --attacks multirobustbench --store runs --dry-run \
        --price 2.5
    ```
    """
    from robustatlas.evaluation.field import evaluate_field, forecast_field, read_field
    from robustatlas.evaluation.forecast import join_forecasts
    from robustatlas.evaluation.request import Request
    from robustatlas.evaluation.throughput import DeviceThroughput

    entries = read_field(models)
    request = Request(
        attacks=None if attacks is None else _asked.requested_attacks(split_names(attacks), protocol, features),
        search=search,  # type: ignore[arg-type]
        effort=effort,  # type: ignore[arg-type]
        protocol=protocol,  # type: ignore[arg-type]
        strengths=parse_strengths(strengths or []),
        samples=samples,
        seed=seed,
        batch_size=_asked.parse_batch_size(batch_size),
        exclude=split_names(exclude),
        progress=True,
        part=share_here(part),
        workers=_work.parse_workers(workers),
        ray=_work.requested_cluster(ray, ray_address, ray_gpus, workers),
    )
    rows = partial(_models.load_data, name=data)
    throughput = DeviceThroughput.parse_optional(device_throughput)
    each = partial(forecast_field, device_throughput=device_throughput) if dry_run else evaluate_field
    kept = f"Stopped. What was finished is kept in {parse_path(store)}; the same command goes on from there."
    done: list[FieldOutcome] = []
    medians: dict[str, dict[str, str]] = {}
    why: dict[str, str] = {}
    with end_on_interrupt(lambda: kept):
        for one in each(entries, rows, store, request, device=device, begin=_print_name):
            _tell(one, len(entries) - len(done) - 1)
            if one.result is not None:
                medians[one.entry.name] = _row(one.result)
                why |= {one.entry.name: masked_reason(invalid)} if (invalid := masked_shares(one.result)) else {}
            done.append(replace(one, result=None))  # a thousand results do not fit into memory
    if dry_run:
        known = join_forecasts((one.entry.name, one.forecast) for one in done if one.forecast is not None)
        if known.expected:
            where = throughput.name if throughput else "this machine"
            print_forecast(known, "model", "samples x attacks", where, price)
    else:
        _print_runs(done, medians, why, store)
    if failed := [one for one in done if one.failure is not None]:
        _print_failures(failed, len(done))
        raise typer.Exit(1)


def _print_name(entry: FieldModel) -> None:
    Console(stderr=True, highlight=False).print(safe(entry.name), soft_wrap=True)


def _tell(done: FieldOutcome, left: int) -> None:
    """Say of a model that is through how it went, and how many are left."""
    how = "failed, told at the end" if done.failure is not None else f"done in {format_duration(done.seconds)}"
    Console(stderr=True, highlight=False).print(f"  {how}; {pluralise(left, 'model')} left", soft_wrap=True)


def _print_runs(
    done: Sequence[FieldOutcome], medians: Mapping[str, Mapping[str, str]], why: Mapping[str, str], store: Path
) -> None:
    columns = list(dict.fromkeys(name for row in medians.values() for name in row))
    if not columns:
        return
    shown = table("model", *map(safe, columns))
    for name, row in medians.items():
        shown.add_row(safe(name), *(row.get(column, "-") for column in columns))
    console = Console(highlight=False)
    console.print(shown)
    for name, reason in why.items():
        console.print(f"{safe(name)}: {safe(reason)}")
    runs = " ".join(shell_word(one.entry.run(store)) for one in done if one.failure is None)
    console.print(f"More: robustatlas leaderboard build {safe(runs)} -o board", soft_wrap=True)


def _row(result: Result) -> dict[str, str]:
    medians = {
        f"median {name}": label_masked(
            format_size(result.outcome(name).median_size, attack=name), masked_shares(result, [name])
        )
        for name in result.attacks
    }
    return {"samples": f"{result.samples:,}", "clean": f"{100 * result.clean.mean():.1f}", **medians}


def _print_failures(failed: Sequence[FieldOutcome], of: int) -> None:
    console = Console(stderr=True, highlight=False)
    console.print(f"{len(failed)} of {pluralise(of, 'model')} failed:")
    for one in failed:
        console.print(f"  {safe(one.entry.name)}: {safe(one.failure)}", soft_wrap=True)
