"""Gain of the cores of a machine: one job on one core and on all of them, beside a neighbour, and simulated.

    python benchmarks/cores.py [--jobs digits,mnist,cifar10] [--output FILE.json]

Takes the weights in ROBUSTATLAS_MODELS, and MNIST and CIFAR-10 in ROBUSTATLAS_DATA; digits need neither. Each job is a
process of its own, once with one thread and one worker, and once as the command line evaluates by itself. What
both find is compared. The rest is described at its function.
"""

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import robustatlas as ra
from drop_in import network
from robustatlas.evaluation.cores import Cores
from robustatlas.evaluation.workers.pool import WorkerProcess
from robustatlas.outcomes import Outcome
from scheduling import Prices, shared_out

NORMS = ("linf", "l2", "l1")
ROUNDING = 1e-5
"""Share by which sizes differ in float32 where batches have other lengths."""


@dataclass(frozen=True)
class Job:
    """``samples`` images of ``data`` from ``first`` on, with a network, attacked in three norms."""

    net: str
    data: str
    first: int
    samples: int
    effort: str


JOBS = {
    "digits": Job("builtin:digits-linf", "digits", 0, 600, "high"),
    "mnist": Job("mnist_mmr_universal", "mnist", 2000, 1500, "default"),
    "cifar10": Job("cifar10_resnet32_delta", "cifar10", 2000, 64, "default"),
}


def evaluated(job: Job, **manner: Any) -> ra.Result:
    """Return the evaluation of a job."""
    data = ra.load_dataset(job.data)
    rows = slice(job.first, job.first + job.samples)
    model = ra.Classifier(network(job.net))
    given = {"effort": job.effort, "diagnose": False, "audit": 0, "progress": False}
    return ra.evaluate(model, (data.images[rows], data.labels[rows]), NORMS, **given, **manner)


def timed(work: Callable[[], ra.Result]) -> dict[str, Any]:
    """Seconds of the clock, by a process of its own, and the sizes that it found."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_clocked, work).result()


def _clocked(work: Callable[[], ra.Result]) -> dict[str, Any]:
    begun = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - begun
    return {
        "seconds": seconds,
        "sizes": [result.outcome(name).minimal_size for name in result.attacks],
        "each": [_spread(result.outcome(name)) for name in result.attacks],
    }


def _spread(outcome: Outcome) -> NDArray[np.float64]:
    """Seconds of each sample, by its passes."""
    passes = outcome.forward + outcome.backward
    return outcome.seconds * passes / passes.sum()


@dataclass(frozen=True)
class _Work:
    """Work that can be sent to a process."""

    job: Job
    threads: int
    manner: dict[str, Any]

    def __call__(self) -> ra.Result:
        torch.set_num_threads(self.threads)
        return evaluated(self.job, **self.manner)


def compare_cores(name: str) -> tuple[dict[str, Any], Prices]:
    """Return the times of a job on one core and on all, and the cost of each sample."""
    job, count = JOBS[name], os.cpu_count() or 1
    alone = timed(_Work(job, 1, {"workers": 1}))
    shared = timed(_Work(job, count, {}))
    apart = [_relative_difference(a, b) for a, b in zip(alone["sizes"], shared["sizes"], strict=True)]
    told = {
        **asdict(job),
        "cores": count,
        "one_core_s": round(alone["seconds"], 1),
        "all_cores_s": round(shared["seconds"], 1),
        "ratio": round(shared["seconds"] / alone["seconds"], 3),
        "apart_by_more_than_rounding": int(sum((each > ROUNDING).sum() for each in apart)),
    }
    return told, Prices(np.array(alone["each"]), begin=0.0)


def _relative_difference(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the relative differences [N] of sizes; 0 where both are infinite or missing."""
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        return np.where(same, 0.0, np.nan_to_num(np.abs(one - other) / np.maximum(one, other), nan=1.0))


def compare_under_load(name: str = "digits") -> dict[str, Any]:
    """Return the times of a job by one thread and by torch's number, while another process uses all threads."""
    job, count = JOBS[name], os.cpu_count() or 1
    job = Job(**asdict(job) | {"samples": 300, "effort": "default"})
    neighbour = multiprocessing.get_context("spawn").Process(target=_compute, args=(count,), daemon=True)
    neighbour.start()
    time.sleep(8.0)
    try:
        alone, own = timed(_Work(job, 1, {"workers": 1})), timed(_Work(job, count, {}))
    finally:
        neighbour.kill()
    return {
        **asdict(job),
        "one_thread_s": round(alone["seconds"], 1),
        "by_itself_s": round(own["seconds"], 1),
        "ratio": round(own["seconds"] / alone["seconds"], 3),
    }


def _compute(threads: int) -> None:
    torch.set_num_threads(threads)
    x = torch.rand(1000, 1000)
    while True:
        x = torch.softmax(x @ x, 1)


def start() -> dict[str, float]:
    """Seconds until the fork server can fork, while the first part of the work is done, and those that every process
    takes from then on."""
    taken = []
    for _ in range(2):
        begun = time.perf_counter()
        process = WorkerProcess(target=os.getpid)
        process.start()
        process.join()
        taken.append(time.perf_counter() - begun)
    return {"fork_server_s": round(taken[0], 2), "process_s": round(taken[1], 4)}


def simulated(name: str, priced: Prices, ready: float, cores: int = 8) -> dict[str, Any]:
    """A job by so many cores of which each takes as long for a sample as one did here."""
    shared = shared_out(replace(priced, begin=ready), Cores(cores, threads=1, speedup=1.0))
    alone = float(priced.seconds.sum())
    told = {key: round(shared[key], 1) for key in ("first_part_s", "makespan_s", "jobs")}
    return (
        {"job": name, "cores": cores, "one_core_s": round(alone, 1)}
        | told
        | {"ratio": round(shared["makespan_s"] / alone, 3)}
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", default="digits,mnist,cifar10")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "cores.json")
    asked = parser.parse_args()
    found: dict[str, Any] = {"torch": torch.__version__, "cores": os.cpu_count(), "start": start(), "jobs": []}
    print(json.dumps(found["start"]), flush=True)
    found["neighbour"] = compare_under_load()
    print(json.dumps(found["neighbour"]), flush=True)
    found["simulated"] = []
    for name in asked.jobs.split(","):
        told, priced = compare_cores(name)
        found["jobs"].append(told)
        print(json.dumps(told), flush=True)
        found["simulated"].append(simulated(name, priced, found["start"]["fork_server_s"]))
        print(json.dumps(found["simulated"][-1]), flush=True)
    asked.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
