"""Options of commands whose work is shared by processes or by a cluster of Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from robustatlas.errors import UserError

if TYPE_CHECKING:
    from robustatlas.evaluation import Cluster

Workers = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Processes that share the work. The numbers stay the same.")
]
Ray = Annotated[
    bool, typer.Option("--ray", help="Workers are those of Ray, on a cluster of this machine (with --workers).")
]
RayAddress = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Workers on a running cluster of Ray; `auto` finds it.")
]
RayGpus = Annotated[
    float | None, typer.Option(metavar="SHARE", min=0, help="GPUs a worker of Ray takes: 1, or 0.5 to share one.")
]


def cluster_from(ray: bool, address: str | None, gpus: float | None, workers: int | None) -> Cluster | bool | None:
    """What these options say, as ``evaluate(ray=...)`` takes it."""
    from robustatlas.evaluation import Cluster

    if gpus is None and address is None:
        return ray or None
    if gpus is not None and not ray and address is None:
        raise UserError("--ray-gpus is for workers of Ray; give --ray or --ray-address as well.")
    return Cluster(address=address, workers=workers, gpus=gpus or 0.0)
