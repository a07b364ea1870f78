"""A cluster of Ray with many simulated nodes that come, leave and are killed while two networks are evaluated.

The nodes are those of Ray's own ``cluster_utils.Cluster``, all on this machine. While each network is evaluated, drawn
nodes are removed (gracefully or not, a process of its own killed by signal 9) and others added. In the end the numbers
have to be those of one process; how often each sample was computed and the driver's memory after each part are
counted.

    python benchmarks/nodes.py [--nodes 16] [--workers 4] [--samples 240] [--changes 6]

Writes benchmarks/results/nodes.json. Needs ``pip install 'robustatlas[ray]'``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import robustatlas as ra
from robustatlas.evaluation import Cluster
from robustatlas.outcomes import Run
from robustatlas.progress import Progress

RESULTS = Path(__file__).parent / "results" / "nodes.json"
STRENGTHS = {"linf": [0.05, 0.1, 0.2, 0.3], "l2": [0.25, 0.5, 1.0]}
PART = 8


def resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def at_work() -> set[str]:
    """The nodes that have an actor."""
    from ray._private.state import actors

    return {actor["Address"]["NodeID"] for actor in actors().values() if actor["State"] == "ALIVE"}


class Changes(Progress):
    """Changes the cluster at some of the parts, and looks at the driver's memory at each."""

    def __init__(self, nodes: Any, parts: int, changes: int, seed: int) -> None:
        self.nodes, self.random, self.done = nodes, np.random.default_rng(seed), 0
        self.at = set(self.random.choice(np.arange(2, parts - 2), size=changes, replace=False).tolist())
        self.memory: list[float] = []
        self.happened: list[str] = []

    def finish(self, record: Any, columns: Any) -> None:
        self.done += 1
        self.memory.append(resident_mb())
        if self.done in self.at:
            self.change()

    def change(self) -> None:
        workers = list(self.nodes.worker_nodes)
        if len(workers) > 2 and self.random.random() < 0.6:
            busy = [node for node in workers if node.node_id in at_work()] or workers
            node = busy[int(self.random.integers(len(busy)))]
            graceful = bool(self.random.random() < 0.3)
            self.nodes.remove_node(node, allow_graceful=graceful)
            self.happened.append(f"part {self.done}: a node {'left' if graceful else 'was killed'}")
        else:
            self.nodes.add_node(num_cpus=1)
            self.happened.append(f"part {self.done}: a node came")


def evaluated(model: str, samples: int, run: str | None, **more: Any) -> ra.Result:
    torch.set_num_threads(1)
    return ra.evaluate(
        ra.load_model(model), ra.load_dataset("digits"), list(STRENGTHS), strengths=STRENGTHS, samples=samples, run=run,
        shard_size=PART, diagnose=False, audit=0, **{"progress": False, **more},
    )  # fmt: skip


def computed(run: str) -> dict[str, int]:
    """How many samples were computed, and the most times that one of them was."""
    times: list[int] = []
    opened = Run.open(run)
    for record in opened.records().values():
        rows = [opened._parts.one(name, record)["index"] for name in opened._parts.names(record)]
        times += np.bincount(np.concatenate(rows)).tolist()
    return {"least": min(times), "most": max(times), "more_than_once": sum(each > 1 for each in times)}


def under_changes(nodes: Any, model: str, samples: int, changes: int, workers: int | None, seed: int) -> dict[str, Any]:
    watching = Changes(nodes, len(STRENGTHS) * samples // PART, changes, seed)
    with tempfile.TemporaryDirectory() as run:
        begun = time.perf_counter()
        found = evaluated(model, samples, run, ray=Cluster(nodes.address, workers), progress=watching)
        seconds = time.perf_counter() - begun
        wanted = evaluated(model, samples, None)
        equal = all(np.array_equal(found.minimal_size(name), wanted.minimal_size(name)) for name in STRENGTHS)
        times = computed(run)
    half = len(watching.memory) // 2
    return {
        "model": model, "samples": samples, "parts": watching.done, "equal": equal, "computed": times,
        "seconds": seconds, "changes": watching.happened, "nodes_at_the_end": len(nodes.worker_nodes),
        "driver_mb": {"first": watching.memory[0], "half": watching.memory[half], "last": watching.memory[-1]},
    }  # fmt: skip


def main() -> None:
    import ray
    from ray.cluster_utils import Cluster as Nodes

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--samples", type=int, default=240)
    parser.add_argument("--changes", type=int, default=6)
    parser.add_argument("--workers", type=int, help="at most so many at work at once; default: one on each node")
    asked = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(asked.nodes):
            nodes.add_node(num_cpus=1)
        print(f"{asked.nodes} nodes", flush=True)
        rows = []
        for seed, model in enumerate(("builtin:digits-linf", "builtin:digits-standard")):
            rows.append(under_changes(nodes, model, asked.samples, asked.changes, asked.workers, seed))
            print(rows[-1], flush=True)
            RESULTS.write_text(
                json.dumps({"nodes": asked.nodes, "workers": asked.workers, "networks": rows}, indent=1) + "\n"
            )
    finally:
        ray.shutdown()
        nodes.shutdown()


if __name__ == "__main__":
    main()
