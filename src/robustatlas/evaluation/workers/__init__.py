"""Who does jobs, of evaluation and of training alike: this process, processes of this machine, a cluster of Ray.

Neither joblib's loky nor tasks of Ray say how far a job is before it has ended. With loky a worker that is killed takes
all others and their jobs along, and workers outlive whoever started them and is killed. A task of Ray is done again
without a word, and in processes that give way to all others. So the crew is our own; Ray says where workers can be.
"""

from collections.abc import Callable, Sequence
from contextlib import closing

import torch

from robustatlas.evaluation.workers.cluster import Actors, Cluster, cluster_of, connected
from robustatlas.evaluation.workers.crew import Crew, Do, Jobs
from robustatlas.evaluation.workers.nursery import Nursery
from robustatlas.evaluation.workers.process import Processes, begun_nursery
from robustatlas.evaluation.workers.serving import Make
from robustatlas.evaluation.workers.travel import CannotTravelError, packed

__all__ = [
    "CannotTravelError",
    "Cluster",
    "Do",
    "Jobs",
    "Make",
    "begun_nursery",
    "cluster_of",
    "work_elsewhere",
    "work_here",
]


def work_here(do: Do, jobs: Jobs, until: Callable[[], bool] = lambda: False) -> None:
    """Have jobs done by this process, one after the other, all of them or ``until`` says so; errors are raised as they
    are."""
    while not until() and _one(do, jobs):
        pass


def _one(do: Do, jobs: Jobs) -> bool:
    """Do the next job, if there is one; a function of its own, so that nothing of it is held afterwards."""
    job = jobs.next()
    if job is not None:
        jobs.finish(job, do(job, lambda through: jobs.report(job, through)))
    return job is not None


def work_elsewhere(
    make: Make,
    what: str,
    places: Sequence[str] | Cluster,
    threads: int | None,
    jobs: Jobs,
    nursery: Nursery | None = None,
) -> None:
    """Have all jobs done by other processes, which end with this, however it ends.

    Args:
        make: gets a worker ready for its jobs; goes there by value, its models to the worker's device.
        what: it is about, for a sentence on why it cannot go.
        places: the device of each worker on this machine, or a cluster.
        threads: of a worker on this machine, by default its share of torch's; on a cluster it has as many as CPUs.
        jobs: what they do.
        nursery: where workers on this machine come from, begun before.

    Raises:
        UserError: ``make`` cannot be sent; a cluster that cannot be reached, or on which no worker fits; workers that
            die over the same job again and again, and what a worker raises again and again.
    """
    content = packed(make, what)
    if isinstance(places, Cluster):
        with connected(places) as ray:
            Crew(Actors(ray, places), ray.put(content), jobs).work()
    else:
        each = max(1, torch.get_num_threads() // len(places)) if threads is None else threads
        with closing(Processes(places, each, nursery)) as processes:
            Crew(processes, content, jobs).work()
