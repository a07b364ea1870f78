"""Long work of a command: options of those who share it, its forecast, and what is said after a Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from rich.console import Console

from robustatlas.cli._help import DISTRIBUTED
from robustatlas.cli._terminal import safe, table
from robustatlas.common.errors import UserError
from robustatlas.common.wording import format_bytes, format_duration, join_words, list_names, pluralise
from robustatlas.outcomes import Run

if TYPE_CHECKING:
    from robustatlas.evaluation import Cluster
    from robustatlas.evaluation.workers.share import Share

Workers = Annotated[
    int | None,
    DISTRIBUTED.option(
        "N", "Number of processes that share the work on this machine. The results do not depend on it.", min=1
    ),
]
Automatic = Annotated[
    str,
    DISTRIBUTED.option(
        "N",
        "Number of processes that share the work on this machine. `auto` measures in the first seconds how many "
        "pay. The results do not depend on it.",
    ),
]
Devices = Annotated[
    list[str] | None,
    DISTRIBUTED.option("NAMES", "Devices that share the work, one process on each: `cuda:0,cuda:1`.", hidden=True),
]
Ray = Annotated[
    bool,
    DISTRIBUTED.flag(
        "--ray",
        "Share the work by Ray, on a cluster that is started on this machine; `--workers` is its size.",
        hidden=True,
    ),
]
RayAddress = Annotated[
    str | None,
    DISTRIBUTED.option(
        "ADDRESS", "Share the work by Ray, on the running cluster at this address; `auto` finds it.", hidden=True
    ),
]
RayGpus = Annotated[
    float | None,
    DISTRIBUTED.option(
        "SHARE", "GPUs for each worker of Ray: 1 for a whole one, 0.5 where two workers share one.", min=0, hidden=True
    ),
]
Part = Annotated[
    str | None,
    DISTRIBUTED.option(
        "I/N",
        "Do only part I of N parts of the work, counted from 0 to N-1; other machines do the other parts. By "
        "default the part that a Slurm array, or RANK and WORLD_SIZE, give to this process, and else all.",
        hidden=True,
    ),
]


def parse_workers(given: str) -> int | Literal["auto"]:
    """Return the value of ``--workers``, which may be "auto"."""
    if given == "auto":
        return "auto"
    if not given.isdecimal() or int(given) < 1:
        raise UserError(f"--workers {given} is not possible; expected a number from 1 on, or auto.")
    return int(given)


def requested_cluster(
    ray: bool, address: str | None, gpus: float | None, workers: int | str | None
) -> Cluster | bool | None:
    """Return the options of Ray as ``evaluate(ray=...)`` takes them."""
    from robustatlas.evaluation import Cluster

    if gpus is None and address is None:
        return ray or None
    if gpus is not None and not ray and address is None:
        raise UserError("--ray-gpus is for workers of Ray; give --ray or --ray-address as well.")
    count = parse_workers(workers) if isinstance(workers, str) else workers
    return Cluster(address=address, workers=None if count == "auto" else count, gpus=gpus or 0.0)


def share_here(part: str | None) -> Share:
    """Return the share of ``--part``, or else of the environment; the latter is printed."""
    from robustatlas.evaluation.workers.share import parse_share, share_of_environment

    found = share_of_environment() if part is None else None
    if found is None:
        return parse_share(part)
    share, why = found
    Console(stderr=True, soft_wrap=True, highlight=False).print(
        f"Part {share} of the work, by {safe(why)}; --part 0/1 takes all."
    )
    return share


@contextmanager
def end_on_interrupt(sentence: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C inside end the command with a ``sentence`` on what is kept, which is made when it is needed."""
    try:
        yield
    except KeyboardInterrupt:
        Console(stderr=True, soft_wrap=True).print(f"\n{safe(sentence())}", highlight=False)
        raise typer.Exit(130) from None


def interrupted_sentence(folder: Path) -> str:
    """Return how many of the samples of the last request the run in ``folder`` holds, attack by attack."""
    counts = _counts(folder)
    kept = [
        f"{done:,} of {asked:,} {'samples ' if not position else ''}of {attack}"
        for position, (attack, done, asked) in enumerate(entry for entry in counts if entry[1])
    ]
    if not kept:
        return f"Stopped. 0 samples were finished, so none are kept in {folder}; the same command starts again."
    return f"Stopped. {join_words(kept)} are kept in {folder}; the same command goes on from there."


def _counts(folder: Path) -> list[tuple[str, int, int]]:
    try:
        run = Run.open(folder)
        plans, records = run.plans(), run.records()
        if not plans:
            return []
        asked = plans[-1].index()
        known = [records[key] for key in plans[-1].attacks if key in records]
        return [(record.name, int(np.isin(asked, run.stored_samples(record)).sum()), len(asked)) for record in known]
    except UserError:  # nothing was begun
        return []


if TYPE_CHECKING:
    from robustatlas.evaluation import Forecast


def print_forecast(forecast: Forecast, rows: str, number: str, device: str, price: float | None = None) -> None:
    """Print a forecast.

    Args:
        forecast: what is expected.
        rows: what a row is of, such as "attack".
        number: what a row counts, such as "samples".
        device: where it would be computed.
        price: of an hour.
    """
    console = Console(highlight=False)
    if not forecast.expected:
        console.print("Nothing to do: all of it is there.")
        return
    has_passes = forecast.passes > 0  # certificates make none
    shown = table(rows, number, *["passes"] * has_passes, "time", "disk")
    for each in forecast.expected:
        at_most = "up to " if each.is_upper_bound else ""
        seconds = f"{at_most}{format_duration(each.seconds / forecast.workers)}"
        known = [*[f"{each.passes:,.0f}"] * has_passes, seconds, format_bytes(each.bytes)]
        shown.add_row(safe(each.name), f"{each.number:,}", *(["not known"] * len(known) if each.unknown else known))
    console.print(shown)
    for why in dict.fromkeys(each.unknown for each in forecast.expected if each.unknown):
        names = [each.name for each in forecast.expected if each.unknown == why]
        console.print(f"Not known of {safe(list_names(names, at_most=3))}: {safe(why)}", soft_wrap=True)
    console.print(_summary(forecast, device, price), soft_wrap=True)


def _summary(forecast: Forecast, device: str, price: float | None) -> str:
    about = "at most" if forecast.is_upper_bound else "about"
    known = ", of what is known," if any(each.unknown for each in forecast.expected) else ""
    shared = f" shared by {pluralise(forecast.workers, 'worker')}" if forecast.workers > 1 else ""
    cost = "" if price is None else f", {price * forecast.seconds / 3600:,.2f} at {price:g} an hour"
    passes = f"{forecast.passes:,.0f} passes, " if forecast.passes else ""
    at_once = "" if forecast.batch_size is None else f"; {pluralise(forecast.batch_size, 'sample')} at work at once"
    total = (
        f"In all{known} {about} {format_duration(forecast.seconds)} on {safe(device)}{shared}{cost}: {passes}"
        f"{format_bytes(forecast.bytes)} on disk{at_once}."
    )
    if forecast.memory is None:
        return total
    several = (
        f" in each process, {format_bytes(forecast.workers * forecast.memory)} in all" if forecast.workers > 1 else ""
    )
    return f"{total}\nMemory: about {format_bytes(forecast.memory)}{several}."
