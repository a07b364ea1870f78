"""Workers that do the jobs of evaluations, certifications and trainings: processes of this machine, or a cluster of
Ray."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from robustatlas.evaluation.workers.cluster import Cluster, RayWorkers, connected, parse_cluster
from robustatlas.evaluation.workers.pool import (
    Do,
    Jobs,
    Pool,
    Report,
    Workload,
    can_start_workers,
    start_fork_server,
    start_local_workers,
)
from robustatlas.evaluation.workers.travel import CannotShareError, packed

__all__ = [
    "CannotShareError",
    "Cluster",
    "Do",
    "Jobs",
    "Report",
    "Workload",
    "can_start_workers",
    "parse_cluster",
    "run_jobs",
    "share_jobs",
    "start_fork_server",
]


def run_jobs(do: Do, jobs: Jobs, until: Callable[[], bool] = lambda: False) -> None:
    """Do all jobs in this process, one after the other, or stop as soon as ``until`` returns True; errors are raised as
    they are."""
    while not until() and _run_next(do, jobs):
        pass


def _run_next(do: Do, jobs: Jobs) -> bool:
    """Do the next job, if there is one; in a function of its own, so that nothing of it is held afterwards."""
    job = jobs.next()
    if job is not None:
        jobs.finish(job, do(job, lambda through: jobs.report(job, through)))
    return job is not None


def share_jobs(workload: Workload, what: str, places: Sequence[str] | Cluster, threads: int | None, jobs: Jobs) -> None:
    """Have all jobs done by other processes, which end with this call, however it ends.

    Args:
        workload: how a job is done; its models go to the device of each worker.
        what: the words for the workload in a sentence that says why it cannot be sent.
        places: the device of each worker on this machine, or a cluster.
        threads: of a worker on this machine, by default its share of torch's. On a cluster it has as many as CPUs.
        jobs: the source of the jobs.

    Raises:
        CannotShareError: the workload cannot be sent, or a worker got another one, or cannot begin.
        UserError: a cluster that cannot be reached, or on which no worker fits; two workers that die over the same job,
            or fail at it.
    """
    content = packed(workload, what)
    if isinstance(places, Cluster):
        with connected(places) as ray:
            Pool(RayWorkers(ray, places, ray.put(content)).start, jobs).run()
        return
    if not can_start_workers():
        raise CannotShareError(
            "This process was started by multiprocessing as a daemon or as a fork, and cannot start workers; evaluate "
            "with workers=1, or start it by 'spawn'."
        )
    each = max(1, torch.get_num_threads() // len(places)) if threads is None else threads
    Pool(partial(start_local_workers, places, each, content), jobs).run()
