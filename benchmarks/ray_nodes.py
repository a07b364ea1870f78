"""Two small networks evaluated on a cluster of Ray whose simulated nodes join, leave and are killed meanwhile.

Ray's own `cluster_utils.Cluster` starts the nodes on this machine, each with one CPU and an object store of 80 MB, one
after the other: ``--nodes`` in all, of which at most ``--at-once`` are there at a time, as each takes processes of
Ray's own and one of ours. After equal shares of the work a node joins; where there are enough, one that is drawn by
``--seed`` leaves first (its processes may end) or is killed by signal 9. Reported: whether every size and verdict
equals those of one process, how many samples are missing in the run or stand in it twice, how often a part was begun at
most, and the memory of the driver.

    python benchmarks/ray_nodes.py [--nodes 16] [--at-once 4] [--samples 320] [--seed 0]

Needs ``pip install 'robustatlas[ray]'``. Writes benchmarks/results/ray_nodes.json.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import robustatlas as ra
from robustatlas.evaluation.dispatcher import Dispatcher
from robustatlas.evaluation.progress import Progress
from robustatlas.outcomes import Run

RESULTS = Path(__file__).parent / "results" / "ray_nodes.json"
NETWORKS = ("builtin:digits-linf", "builtin:digits-standard")
STRENGTHS = {"linf": [0.05, 0.1, 0.2, 0.3], "l2": [0.25, 0.5, 1.0]}
PART, STORE = 8, 80 * 2**20
"""Samples of a part, and bytes of a node's object store."""


class Nodes:
    """A cluster of a head that computes nothing and of nodes with one CPU each."""

    def __init__(self, seed: int) -> None:
        from ray.cluster_utils import Cluster

        os.environ.setdefault("RAY_worker_niceness", "0")  # as of clusters that we start: 15 is next to nothing here
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.random = np.random.default_rng(seed)
        self.there: list[Any] = []
        self.changes: Counter[str] = Counter()

    def join(self) -> None:
        self.there.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE, wait=True))
        self.changes["joined"] += 1

    def end(self, how: str) -> None:
        """A node that is drawn leaves ("left") or is "killed"."""
        node = self.there.pop(int(self.random.integers(len(self.there))))
        self.cluster.remove_node(node, allow_graceful=how == "left")
        self.changes[how] += 1

    def close(self) -> None:
        self.cluster.shutdown()


class Changing(Progress):
    """Changes the cluster ``after`` so many finished parts, and writes down what is told."""

    def __init__(self, nodes: Nodes, most: int, at_once: int, after: int) -> None:
        self.nodes, self.most, self.at_once, self.after = nodes, most, at_once, after
        self.parts = 0
        self.memory: list[float] = []
        self.notes: list[str] = []

    def begin(self, *_: Any) -> None:
        return

    def note(self, message: str) -> None:
        self.notes.append(message)
        print(message, flush=True)

    def finish(self, *_: Any) -> None:
        self.parts += 1
        self.memory.append(resident_mb())
        if self.parts % self.after == 0:
            if len(self.nodes.there) >= self.at_once:
                self.nodes.end(str(self.nodes.random.choice(["killed", "left"])))
            if self.nodes.changes["joined"] < self.most:
                self.nodes.join()
            print(f"part {self.parts}, {len(self.nodes.there)} nodes, {self.memory[-1]:.0f} MB", flush=True)


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def evaluation(model: str, samples: int, **options: Any) -> ra.Result:
    return ra.evaluate(
        ra.load_model(model), ra.load_dataset("digits"), tuple(STRENGTHS), strengths=STRENGTHS, samples=samples,
        shard_size=PART, diagnose=False, audit=0, **options,
    )  # fmt: skip


def standing(run: Path) -> Counter[tuple[str, int]]:
    """How often each sample of each attack stands in the parts of a run."""
    found: Counter[tuple[str, int]] = Counter()
    for record in Run.open(run).records().values():
        for file in (run / "outcomes" / record.key).glob("*.parquet"):
            first, count, _ = file.name.split("-")
            found.update((record.name, int(first) + k) for k in range(int(count)))
    return found


def judged(model: str, samples: int, changing: Changing, run: Path) -> dict[str, Any]:
    wanted = evaluation(model, samples, progress=False)
    again: Counter[tuple[int, int]] = Counter()
    told_again = Dispatcher.again

    def counted(self: Dispatcher, job: Any, why: str) -> None:
        again[job.task, int(job.index[0])] += 1
        told_again(self, job, why)

    begun, used = time.perf_counter(), time.process_time()
    with patch.object(Dispatcher, "again", counted):
        found = evaluation(model, samples, run=run, ray=changing.nodes.cluster.address, progress=changing)
    seconds, processor = time.perf_counter() - begun, time.process_time() - used
    equal = all(
        np.array_equal(found.minimal_size(name), wanted.minimal_size(name))
        and np.array_equal(found.outcome(name).fooled, wanted.outcome(name).fooled)
        for name in STRENGTHS
    )
    stand = standing(run)
    return {
        "model": model, "equal": equal, "samples_and_attacks": samples * len(STRENGTHS), "parts": changing.parts,
        "missing": samples * len(STRENGTHS) - len(stand), "standing_twice": sum(n - 1 for n in stand.values()),
        "begun_again": sum(again.values()), "begun_at_most": 1 + max(again.values(), default=0),
        "seconds": seconds, "driver_processor_seconds": processor,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--samples", type=int, default=320)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    torch.set_num_threads(1)
    nodes = Nodes(asked.seed)
    parts = len(NETWORKS) * len(STRENGTHS) * asked.samples // PART
    rows, memory = [], []
    try:
        nodes.join()
        with tempfile.TemporaryDirectory() as folder:
            for number, name in enumerate(NETWORKS):
                changing = Changing(nodes, asked.nodes, asked.at_once, max(1, parts // asked.nodes))
                rows.append(judged(name, asked.samples, changing, Path(folder) / str(number)))
                memory += changing.memory
                print(rows[-1], flush=True)
    finally:
        nodes.close()
    whole = {"start": memory[0], "middle": memory[len(memory) // 2], "end": memory[-1], "most": max(memory)}
    told = {
        **vars(asked), **nodes.changes, "evaluations": rows, "driver_mb": {k: round(v) for k, v in whole.items()},
        "load": os.getloadavg(),
    }  # fmt: skip
    RESULTS.write_text(json.dumps(told, indent=1) + "\n")
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
