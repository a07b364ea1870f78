"""Workers on a cluster of Ray: actors, each with a process that does the jobs, whose outcomes come back here."""

import importlib
import logging
import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from robustatlas.common.errors import UserError
from robustatlas.evaluation.workers import process

_LOOK_EVERY = 5.0
"""Seconds after which nodes that came are given workers."""

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
    def hands(self) -> int:
        """Workers to be counted on: two where as many as fit may come."""
        return 2 if self.workers is None else self.workers

    def slots(self, ray: Any) -> int:
        """How many workers fit on the cluster now."""
        there = ray.cluster_resources()
        fitting = int(there.get("CPU", 0.0) // self.cpus)
        if self.gpus:
            fitting = min(fitting, int(there.get("GPU", 0.0) // self.gpus))
        return fitting if self.workers is None else min(fitting, self.workers)


def cluster_of(given: bool | str | Cluster | None, workers: int | None) -> Cluster | None:
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
    """The line to a process beside an actor; ``answer``: to what was said last."""

    where = "the cluster was lost: its process"

    def __init__(self, ray: Any, actor: Any, cluster: Cluster) -> None:
        self.ray, self.actor = ray, actor
        self.answer = actor.begin.remote("cuda" if cluster.gpus else "cpu", max(1, int(cluster.cpus)))

    def say(self, message: Any) -> None:
        self.answer = self.actor.ask.remote(message)

    def hear(self) -> bytes:
        try:
            answer: bytes = self.ray.get(self.answer)
        except self.ray.exceptions.RayTaskError as error:
            return pickle.dumps(("lost", f"cannot be started ({error.cause})"))
        except self.ray.exceptions.RayError as error:
            return pickle.dumps(("gone", f"is gone ({type(error).__name__})"))
        return answer

    def kill(self) -> None:
        self.ray.kill(self.actor)

    stop = kill


class Actors:
    """Room for as many actors as fit on a cluster, on the nodes that are there now.

    Raises:
        UserError: what a worker takes, where no node has that much.
    """

    def __init__(self, ray: Any, cluster: Cluster) -> None:
        if not cluster.slots(ray):
            raise UserError(
                f"No worker fits on the cluster of Ray: each takes {cluster.cpus:g} CPUs and {cluster.gpus:g} GPUs; "
                "ask for less."
            )
        ray.cloudpickle.register_pickle_by_value(process)  # so that an actor imports nothing of this package
        self.ray, self.cluster = ray, cluster
        self.make = ray.remote(process.Relay).options(
            num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_restarts=0, max_task_retries=0
        )

    def start(self, there: Sequence[_Actor]) -> list[_Actor]:
        """On the nodes that are there now."""
        vacant = self.cluster.slots(self.ray) - len(there)
        return [_Actor(self.ray, self.make.remote(), self.cluster) for _ in range(vacant)]

    def speaking(self, lines: Sequence[_Actor]) -> list[_Actor]:
        """Wait a while; which actors have answered."""
        answers = [line.answer for line in lines]
        answered, _ = self.ray.wait(answers, num_returns=1, timeout=_LOOK_EVERY)
        return [line for line in lines if line.answer in answered]
