"""Workers on a cluster of Ray: actors, each with a process that holds the model and does jobs.

What they find comes back to this process.
"""

from __future__ import annotations

import importlib
import logging
import os
import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from robustatlas.errors import UserError
from robustatlas.evaluation import line
from robustatlas.evaluation.crew import Hand, Hands, Lost, News
from robustatlas.evaluation.desk import Desk
from robustatlas.evaluation.work import Job
from robustatlas.evaluation.worker import Kit

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

    def slots(self, ray: Any) -> int:
        """How many workers fit on the cluster now."""
        there = ray.cluster_resources()
        fitting = int(there.get("CPU", 0.0) // self.cpus)
        if self.gpus:
            fitting = min(fitting, int(there.get("GPU", 0.0) // self.gpus))
        return fitting if self.workers is None else min(fitting, self.workers)

    def check_fits(self, ray: Any) -> None:
        """Refuse a cluster on which not even one worker fits.

        Raises:
            UserError: what a worker takes, where no node has that much.
        """
        if not self.slots(ray):
            raise UserError(
                f"No worker fits on the cluster of Ray: each takes {self.cpus:g} CPUs and {self.gpus:g} GPUs; ask for "
                "less."
            )


def cluster_of(given: bool | str | Cluster | None, workers: int | None) -> Cluster | None:
    """``ray=True`` is a cluster on this machine, a text the address of one; None and False are none."""
    if given is None or given is False:
        return None
    if isinstance(given, Cluster):
        return given
    if given is True or isinstance(given, str):
        return Cluster(address=None if given is True else given, workers=workers, gpus=_gpus_here(given))
    raise UserError(f"ray={given!r}; expected True, the address of a cluster, or a Cluster.")


def _gpus_here(given: bool | str) -> float:
    """A worker on a cluster of this machine gets a GPU where there is one."""
    import torch

    return 1.0 if given is True and torch.cuda.is_available() else 0.0


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UserError("ray is not installed: pip install 'robustatlas[ray]'.") from error


@contextmanager
def connected(cluster: Cluster) -> Iterator[Any]:
    """Ray, connected to the cluster; one that was started for this ends with it."""
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {"address": cluster.address or "local"}
    if not cluster.address:
        options["include_dashboard"] = False
    if not cluster.address and cluster.workers:
        options["num_cpus"] = max(os.cpu_count() or 1, round(cluster.workers * cluster.cpus))
    try:
        with _as_urgent_as_this():
            ray.init(log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise UserError(
            f"The cluster of Ray at {cluster.address or 'this machine'} cannot be reached: {error}"
        ) from error
    except BaseException:  # a Ctrl-C
        ray.shutdown()
        raise
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _as_urgent_as_this() -> Iterator[None]:
    """Workers of a cluster that is started inside get the processor as often as this process, where the user's settings
    say nothing else; of itself Ray lets all others go first (a niceness of 15)."""
    if _NICENESS in os.environ:
        yield
        return
    os.environ[_NICENESS] = "0"
    try:
        yield
    finally:
        del os.environ[_NICENESS]


@dataclass
class _Hand(Hand):
    """``pending``: what its actor was asked last."""

    actor: Any
    pending: Any


class Actors(Hands[_Hand]):
    """A crew of actors; leaving it ends them, and a cluster that was started for it.

    Args:
        cluster: where.
        content: model and tasks, see :func:`~robustatlas.evaluation.worker.kit_content`.
        desk: hears how far the jobs are.
    """

    def __init__(self, cluster: Cluster, content: bytes, desk: Desk) -> None:
        super().__init__(desk)
        self.cluster, self.content = cluster, content
        self.threads = max(1, int(cluster.cpus))
        self.surroundings = ExitStack()

    def __enter__(self) -> Actors:
        self.ray = ray = self.surroundings.enter_context(connected(self.cluster))
        try:
            self.cluster.check_fits(ray)
            kit = Kit((), "cuda" if self.cluster.gpus else "cpu", self.threads, False, self.content)
            self.shared = ray.put(pickle.dumps(kit, pickle.HIGHEST_PROTOCOL))
            self.make = ray.remote(line.Relay).options(
                num_cpus=self.cluster.cpus, num_gpus=self.cluster.gpus, max_restarts=0, max_task_retries=0
            )
            with _by_value(ray):
                self._fill()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hand in self.hands:
            self.ray.kill(hand.actor)
        self.hands.clear()
        self.surroundings.close()

    def _order(self, hand: _Hand, job: Job) -> None:
        hand.pending = hand.actor.ask.remote(pickle.dumps(job, pickle.HIGHEST_PROTOCOL))

    def news(self) -> Iterator[News]:
        self._fill()
        pending = {hand.pending: hand for hand in self.hands if hand.pending is not None}
        ended, _ = self.ray.wait(list(pending), num_returns=1, timeout=_LOOK_EVERY)
        for reference in ended:
            yield from self._heard(pending[reference])

    def _heard(self, hand: _Hand) -> Iterator[News]:
        job, exceptions = hand.job, self.ray.exceptions
        try:
            word, *rest = pickle.loads(self.ray.get(hand.pending))
        except exceptions.RayTaskError as error:
            self._dismiss(hand)
            if job is None:
                raise error.as_instanceof_cause() from error
            yield job, error.as_instanceof_cause()
        except exceptions.RayError as error:
            self._dismiss(hand)
            if job is not None:
                yield job, Lost(f"A worker on the cluster was lost ({type(error).__name__}).")
        else:
            hand.pending = None
            if word == "lost":
                yield from self._lost(hand, f"A worker on the cluster was lost: its process {rest[0]}.")
            else:
                yield from self._said(hand, word, *rest)

    def _dismiss(self, hand: _Hand) -> None:
        self.hands.remove(hand)
        self.ray.kill(hand.actor)

    def _fill(self) -> None:
        """Have as many workers as fit, on the nodes that are there now."""
        for _ in range(self.cluster.slots(self.ray) - len(self.hands)):
            actor = self.make.remote()
            self.hands.append(_Hand(actor, actor.begin.remote(self.shared, self.threads)))
        self.desk.hands = max(1, len(self.hands))


@contextmanager
def _by_value(ray: Any) -> Iterator[None]:
    """The code of an actor goes to it, so that it imports nothing of this package, and with it torch."""
    ray.cloudpickle.register_pickle_by_value(line)
    try:
        yield
    finally:
        ray.cloudpickle.unregister_pickle_by_value(line)
