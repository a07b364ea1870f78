"""Workers on a cluster of Ray: actors, whose results come back to this process."""

import importlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from robustatlas.common.errors import UserError
from robustatlas.evaluation.workers.pool import WorkerDiedError, begin, do_job

_NICENESS = "RAY_worker_niceness"
"""The variable by which Ray is told how much its workers give way; added to the niceness of what starts them."""


@dataclass(frozen=True)
class Cluster:
    """A cluster of Ray, and what a worker takes of it.

    Args:
        address: of a running cluster (``"auto"``: the one this machine belongs to); None starts one on this machine
            for itself, or uses the one this process is connected to.
        workers: at most so many; None: as many as fit on the cluster, also on nodes that come later.
        cpus: a worker, which are also its threads.
        gpus: a worker; a part of one (0.5) lets workers share it. A worker without one computes on the processor.

    Raises:
        UserError: a number of workers, CPUs or GPUs that cannot be.

    Example:
        >>> Cluster(workers=4, gpus=0.5).gpus
        0.5
    """

    address: str | None = None
    workers: int | None = None
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        if self.cpus <= 0 or self.gpus < 0 or (self.workers is not None and self.workers < 1):
            raise UserError(
                f"{self} cannot work; expected workers of at least 1, cpus above 0 and gpus from 0, such as "
                "Cluster(workers=4, gpus=0.5)."
            )

    @property
    def worker_count(self) -> int:
        """Number of workers to be counted on: two if as many may come as fit."""
        return 2 if self.workers is None else self.workers

    def slots(self, ray: Any) -> int:
        """Return the number of workers that fit on the cluster now."""
        there = ray.cluster_resources()
        fitting = int(there.get("CPU", 0.0) // self.cpus)
        if self.gpus:
            fitting = min(fitting, int(there.get("GPU", 0.0) // self.gpus))
        return fitting if self.workers is None else min(fitting, self.workers)


def parse_cluster(given: bool | str | Cluster | None, workers: int | None) -> Cluster | None:
    """``ray=True`` is a cluster on this machine, a text the address of one; None and False are none."""
    if given is None or given is False:
        return None
    if isinstance(given, Cluster):
        return given
    if isinstance(given, str):
        return Cluster(given, workers)
    if given is True:
        return Cluster(workers=workers, gpus=1.0 if torch.cuda.is_available() else 0.0)
    raise UserError(f"ray={given!r}; expected True, the address of a cluster, or a Cluster.")


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Ray, connected to the cluster; one that was started for this ends with it."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UserError("ray is not installed: pip install 'robustatlas[ray]'.") from error
    if ray.is_initialized():
        yield ray
        return
    try:
        _connect(ray, cluster)
        yield ray
    finally:
        ray.shutdown()


def _connect(ray: Any, cluster: Cluster) -> None:
    """Workers of a cluster that this starts get the processor as often as this process, where the user's settings say
    nothing else; of itself Ray lets all others go first (a niceness of 15)."""
    options: dict[str, Any] = {} if cluster.address else {"include_dashboard": False}
    if not cluster.address and cluster.workers:
        options["num_cpus"] = max(os.cpu_count() or 1, round(cluster.workers * cluster.cpus))
    given = _NICENESS in os.environ
    os.environ.setdefault(_NICENESS, "0")
    try:
        ray.init(cluster.address or "local", log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        where = cluster.address or "this machine"
        raise UserError(f"The cluster of Ray at {where} cannot be reached: {error}") from error
    finally:
        if not given:
            del os.environ[_NICENESS]


class _Actor:
    """The process of a worker on a cluster: what is called there is what a worker of this machine calls."""

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)


class RayWorker:
    """A worker on a cluster.

    Args:
        ray: the package, connected.
        actor: the handle of its process.
        cluster: says what it takes of a node.
        content: the reference of the packed workload.
    """

    place = "the cluster"

    def __init__(self, ray: Any, actor: Any, cluster: Cluster, content: Any) -> None:
        self.ray, self.actor = ray, actor
        device, threads = "cuda" if cluster.gpus else "cpu", max(1, int(cluster.cpus))
        self.beginning: Future[str | None] = actor.call.remote(begin, content, device, threads).future()

    def submit_job(self, job: bytes) -> Future[bytes]:
        future: Future[bytes] = self.actor.call.remote(do_job, job).future()
        return future

    def finished_samples(self) -> int:
        return 0

    def result(self, future: Future[Any]) -> Any:
        try:
            return future.result()
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            raise WorkerDiedError(f"was lost ({type(error).__name__})") from None

    def stop(self) -> None:
        self.ray.kill(self.actor)


class RayWorkers:
    """As many workers as fit on the nodes that a cluster has at the moment.

    Args:
        ray: the package, connected.
        cluster: where they run.
        content: the reference of the packed workload.

    Raises:
        UserError: no node has what a worker takes.
    """

    def __init__(self, ray: Any, cluster: Cluster, content: Any) -> None:
        if not cluster.slots(ray):
            raise UserError(
                f"No worker fits on the cluster of Ray: each takes {cluster.cpus:g} CPUs and {cluster.gpus:g} GPUs; "
                "ask for less."
            )
        self.ray, self.cluster, self.content = ray, cluster, content
        self.make = ray.remote(_Actor).options(
            num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_restarts=0, max_task_retries=0
        )

    def start(self, there: Sequence[RayWorker]) -> list[RayWorker]:
        """Start a worker for each free place."""
        vacant = self.cluster.slots(self.ray) - len(there)
        return [RayWorker(self.ray, self.make.remote(), self.cluster, self.content) for _ in range(vacant)]
