"""Sharing of one evaluation among many workers: the dispatcher that hands out jobs, run against a simulated clock.

The dispatcher is the one that every evaluation uses; only the workers are simulated (discrete events, nothing sleeps).
What a sample costs is what was measured: the seconds of the nine ranked attacks on a ResNet-32 (suite.json), spread
over samples as their passes are in a run of the board. A job takes the sum of its samples' seconds, and at
least as long as its longest sample takes alone; a worker that begins loads the model first.

Efficiency is the work divided by workers x the time until all is done; the tail is the time from the first worker that
finds nothing to do until then. Writes benchmarks/results/scheduling.json.
"""

import argparse
import heapq
import json
import shutil
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import robustatlas as ra
from robustatlas.attacks.catalogue import attack_named
from robustatlas.evaluation.attack_task import AttackTask
from robustatlas.evaluation.chunks import Chunk, ChunkResult, ChunkSettings, Columns
from robustatlas.evaluation.completion import SECONDS_OF_FIRST_CHUNK
from robustatlas.evaluation.cores import Cores
from robustatlas.evaluation.dispatcher import Costs, Dispatcher
from robustatlas.evaluation.progress import Progress
from robustatlas.evaluation.records import attack_record
from robustatlas.evaluation.samples import choose_samples

RESULTS = Path(__file__).parent / "results"
BOARD = Path(__file__).parents[1] / "docs" / "board" / "runs.tar.xz"
ATTACKS = ("linf", "l2", "l1", "stadv", "recolor", "elastic", "jpeg-linf", "jpeg-l1", "lpips")
MEASURED_THREADS = 2
SECONDS_TO_START = 5.7
"""Seconds that a worker takes to start and to load a network for digits, measured on one core of two."""
BYTES = 0.3 * 2**30
"""Memory of a process with a small network."""
ALONE = 3.0
"""Time of a sample alone over its time in a full batch (batch of 1 against 64, ResNet-32, one core: 2.9). It is larger
on devices that a single sample leaves idle."""


@dataclass(frozen=True)
class Prices:
    """Seconds of each sample under each attack ``seconds`` [A, N], and those that a worker takes to begin."""

    seconds: NDArray[np.float64]
    begin: float


def prices(samples: int, seed: int = 0) -> Prices:
    """As measured: mean seconds of each attack times how far the passes of single samples are from their mean."""
    suite = json.loads((RESULTS / "suite.json").read_text())[0]
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(BOARD, folder, filter="data")
        board = ra.load_result(next(Path(folder).glob("**/standard-seed0/run.json")).parent)
    random, rows = np.random.default_rng(seed), []
    for name in ATTACKS:
        outcome = board.outcome(name if name in board.attacks else "linf")
        passes = outcome.forward + outcome.backward
        mean = MEASURED_THREADS * suite["attacks"][name] / suite["samples"]
        rows.append(mean * random.choice(passes / passes.mean(), samples))
    return Prices(np.array(rows), SECONDS_TO_START)


def tasks(count: int) -> list[AttackTask]:
    """The first of the nine attacks by descent."""
    named = [attack_named(name) for name in ATTACKS[:count]]
    return [AttackTask(attack, "descent", attack_record(attack, "descent", 0, "float32")) for attack in named]


class _Nowhere:
    """A run that keeps nothing, so that memory does not grow with the simulation."""

    def stored_samples(self, *_: object, **__: object) -> NDArray[np.int64]:
        return np.zeros(0, np.int64)

    def columns(self, *_: object, **__: object) -> Columns:
        return {}

    def write(self, *_: object, **__: object) -> None:
        return

    def can_read_records(self, *_: object) -> bool:
        return True


def simulate(priced: Prices, workers: int) -> dict[str, Any]:
    """Simulate a number of workers that do all jobs; seconds are those of the simulated clock."""
    dispatcher = dispatcher_of(priced, workers)
    return _clocked(dispatcher, priced, [priced.begin] * workers)


def shared_out(priced: Prices, cores: Cores) -> dict[str, Any]:
    """As the command line does it: one process begins, and others follow when what it has learned says that the rest is
    worth them; the first of them is ready ``begin`` seconds after the start."""
    dispatcher = dispatcher_of(priced, 1, short=SECONDS_OF_FIRST_CHUNK)
    clock, many = 0.0, 1
    while many == 1 and (job := dispatcher.next()) is not None:
        seconds = _seconds(priced, job)
        dispatcher.finish(job, _chunk_result(job, seconds))
        clock += seconds
        many = cores.processes(dispatcher.work_seconds(), dispatcher.unfinished_samples, memory=BYTES)
    dispatcher.workers = many
    return _clocked(dispatcher, priced, [max(clock, priced.begin)] * many) | {"first_part_s": clock}


def dispatcher_of(priced: Prices, workers: int, short: float | None = None) -> Dispatcher:
    """Return the dispatcher of the samples that have prices."""
    samples = priced.seconds.shape[1]
    work = choose_samples(
        (torch.zeros(1, 3, 32, 32).expand(samples, -1, -1, -1), torch.zeros(samples, dtype=torch.int64)), None
    )
    todo = tasks(len(priced.seconds))
    costs = Costs([task.cost_weight(10) for task in todo], pair=1e-3)
    mine, manner = np.ones(samples, bool), ChunkSettings(0, 256)
    return Dispatcher(
        _Nowhere(),
        todo,
        work,
        mine,
        manner,
        costs,
        workers,
        Progress(),
        first_seconds=short,
    )


def _clocked(dispatcher: Dispatcher, priced: Prices, begin: list[float]) -> dict[str, Any]:
    order, workers = count(), len(begin)
    events: list[tuple[float, int, tuple[Chunk, float] | None]] = [(second, next(order), None) for second in begin]
    jobs, last, idle = 0, 0.0, None
    while events:
        last, _, done = heapq.heappop(events)
        if done is not None:
            dispatcher.finish(done[0], _chunk_result(*done))
        job = dispatcher.next()
        if job is None:
            idle = last if idle is None else idle
            continue
        seconds = _seconds(priced, job)
        jobs += 1
        heapq.heappush(events, (last + seconds, next(order), (job, seconds)))
    total = float(priced.seconds.sum())
    return {
        "workers": workers,
        "samples": len(priced.seconds[0]),
        "work_h": total / 3600,
        "makespan_s": last,
        "efficiency": total / (workers * last),
        "efficiency_without_start": total / (workers * (last - priced.begin)),
        "tail_s": last - (last if idle is None else idle),
        "jobs": jobs,
    }


def _seconds(priced: Prices, job: Chunk) -> float:
    each = priced.seconds[job.task, job.index]
    return max(float(each.sum()), ALONE * float(each.max()))


def _chunk_result(job: Chunk, seconds: float) -> ChunkResult:
    columns = {"index": job.index, "seconds": np.full(len(job.index), seconds / len(job.index))}
    return ChunkResult(columns, {}, None, {}, seconds, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--workers", type=lambda text: [int(n) for n in text.split(",")], default=[32, 128, 1024])
    asked = parser.parse_args()
    priced = prices(asked.samples)
    rows = [simulate(priced, workers) for workers in asked.workers]
    for row in rows:
        print(
            f"{row['workers']:5} workers: {row['makespan_s']:7.0f} s, efficiency {row['efficiency']:.3f} "
            f"({row['efficiency_without_start']:.3f} once begun), tail {row['tail_s']:.0f} s, {row['jobs']} jobs"
        )
    (RESULTS / "scheduling.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
