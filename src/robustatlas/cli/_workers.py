"""Options of commands whose work is shared by processes or by a cluster of Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from rich.console import Console

from robustatlas.cli._help import DISTRIBUTED
from robustatlas.cli._terminal import safe
from robustatlas.common.errors import UserError

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
