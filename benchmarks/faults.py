"""Evaluations that are killed and whose store fails, by plans drawn from a seed: are the final numbers those of one?

A plan says where the run lies (a folder, or a store of objects: moto's S3, see object_storage.py), whether it is worked
on by one process, by two, or on two nodes of a cluster of Ray, and what happens once so many parts are written: signal
9 kills the driver, a worker, a node with all that is on it (another one joins then), or the process through which the
store is reached (what it had passed on is kept; it comes back after three seconds); or the store is down for five
seconds, or answers a share of requests with 500 and 503. A killed driver is started again, in a store half of the times
from another machine that has no copies. In the end every size and every verdict has to be that of an undisturbed
process; how many samples were computed more often than needed is counted.

Writes benchmarks/results/faults.json. ``--seeds 0,1,2`` chooses the plans. Needs ``pip install 'moto[server]' s3fs
ray``.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import robustatlas as ra
from object_storage import AT, PORT, told
from ray_nodes import Nodes
from robustatlas.outcomes import Run

RESULTS = Path(__file__).parent / "results" / "faults.json"
ATTACKS, STRENGTHS = ("linf", "l2"), {"linf": [0.05, 0.1, 0.2, 0.3], "l2": [0.25, 0.5, 1.0]}
SAMPLES, PART = 48, 4
PARTS = len(ATTACKS) * SAMPLES // PART
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Event:
    """What happens once so many ``parts`` are written."""

    parts: int
    what: str


@dataclass(frozen=True)
class Plan:
    """``by``: what works on it; "alone", "processes" or "nodes"."""

    seed: int
    model: str
    where: str
    by: str
    events: tuple[Event, ...]


OF_WORKERS = {"alone": [], "processes": ["worker"], "nodes": ["node"]}


def drawn(seed: int) -> Plan:
    random = np.random.default_rng(seed)
    where, by = str(random.choice(["folder", "store"])), str(random.choice(list(OF_WORKERS)))
    kinds = ["driver", *2 * OF_WORKERS[by], *(["store", "store", "down", "flaky"] if where == "store" else [])]
    at = np.sort(random.integers(0, PARTS - 1, size=int(random.integers(1, 4))))
    events = tuple(Event(int(parts), str(random.choice(kinds))) for parts in at)
    return Plan(seed, f"builtin:digits-{random.choice(['linf', 'standard'])}", where, by, events)


def evaluation(model: str, run: str | None, **options: Any) -> ra.Result:
    torch.set_num_threads(1)
    return ra.evaluate(
        ra.load_model(model), ra.load_dataset("digits"), ATTACKS, strengths=STRENGTHS, samples=SAMPLES, run=run,
        shard_size=PART, diagnose=False, audit=0, progress=False, **options,
    )  # fmt: skip


def forward(port: int) -> None:
    """Pass on all that comes to a port to the store, and back what that answers."""

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while block := await reader.read(2**16):
                writer.write(block)
                await writer.drain()
        finally:
            writer.close()

    async def both_ways(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, on = await asyncio.open_connection("127.0.0.1", PORT)
        await asyncio.gather(passed_on(reader, on), passed_on(back, writer), return_exceptions=True)

    async def serve() -> None:
        async with await asyncio.start_server(both_ways, "127.0.0.1", port) as server:
            await server.serve_forever()

    asyncio.run(serve())


def hold_nodes(line: Connection) -> None:
    """A process that holds a cluster of two nodes: says its address, and kills and replaces a node whenever asked."""
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    nodes = Nodes(seed=0)
    nodes.join()
    nodes.join()
    line.send(nodes.cluster.address)
    try:
        while line.recv():
            nodes.end("killed")
            nodes.join()
            line.send(True)
    finally:
        nodes.close()


class World:
    """What the plans are carried out in: the store, the way to it, and the cluster, begun when it is needed first."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_name("object_storage.py"))
        self.store = subprocess.Popen([sys.executable, script, "--serve"], stderr=subprocess.DEVNULL)
        self.way = self._way()
        time.sleep(8)
        made = "import s3fs; s3fs.S3FileSystem().mkdir('bucket')"  # in a process: this one forks
        subprocess.run([sys.executable, "-c", made], check=True)

    def _way(self) -> ForkProcess:
        way = FORK.Process(target=forward, args=(PORT + 1,))
        way.start()
        return way

    def kill_the_way(self) -> None:
        self.way.kill()
        time.sleep(3)
        self.way = self._way()

    @cached_property
    def cluster(self) -> tuple[str, Connection]:
        """Its address, and the line to the process that holds it."""
        here, there = multiprocessing.Pipe()
        multiprocessing.get_context("spawn").Process(target=hold_nodes, args=(there,)).start()
        return here.recv(), here

    def kill_a_node(self) -> None:
        line = self.cluster[1]
        line.send(True)
        line.recv()

    def close(self) -> None:
        self.way.kill()
        self.store.kill()
        if "cluster" in vars(self):
            self.cluster[1].send(False)


def _driven(plan: Plan, run: str, cache: str, options: dict[str, Any]) -> None:
    os.environ["XDG_CACHE_HOME"] = cache
    evaluation(plan.model, run, **options)


def _read(run: str | None, model: str, file: str) -> None:
    """Write the numbers of a run, or of an undisturbed process, to a file."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        result = evaluation(model, None) if run is None else ra.load_result(run)
        numbers = {f"size-{name}": result.minimal_size(name) for name in ATTACKS}
        numbers |= {f"fooled-{name}": result.outcome(name).fooled for name in ATTACKS}
        if run is not None:
            opened = Run.open(run)
            files = list((opened.folder or Path()).glob("outcomes/*/*.parquet"))
            numbers["computed"] = np.array([sum(int(file.name.split("-")[1]) for file in files)])
        np.savez(file, **numbers)


def numbers_of(run: str | None, model: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/numbers.npz"
        child = FORK.Process(target=_read, args=(run, model, file))
        child.start()
        child.join()
        with np.load(file) as found:
            return dict(found)


def written(run: str, cache: str) -> int:
    """Parts that this machine has written."""
    root = Path(run) if "://" not in run else Path(cache) / "robustatlas" / "runs"
    return len(list(root.glob("**/outcomes/*/*.parquet") if "://" in run else root.glob("outcomes/*/*.parquet")))


def workers_of(driver: int) -> list[int]:
    """Processes that a driver has started to work: children of its fork server."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return [number for number, parent in parents.items() if parents.get(parent) == driver]


def carried_out(plan: Plan, run: str, world: World) -> dict[str, Any]:
    """Work on a run while a plan is carried out, until the work is done."""
    random = np.random.default_rng(plan.seed + 10_000)
    options: dict[str, Any] = {"workers": 2} if plan.by == "processes" else {}
    if plan.by == "nodes":
        options = {"ray": world.cluster[0]}
    caches = [tempfile.mkdtemp()]
    drivers: list[ForkProcess] = []
    done = []

    def start() -> None:
        drivers.append(FORK.Process(target=_driven, args=(plan, run, caches[-1], options)))
        drivers[-1].start()

    def kill_the_driver() -> None:
        drivers[-1].kill()
        drivers[-1].join()
        if plan.where == "store" and random.random() < 0.5:
            caches.append(tempfile.mkdtemp())
        start()

    def kill_a_worker() -> bool:
        at_work = workers_of(drivers[-1].pid or 0)
        if at_work:
            os.kill(int(random.choice(at_work)), signal.SIGKILL)
        return bool(at_work)

    happens: dict[str, Callable[[], Any]] = {
        "driver": kill_the_driver, "worker": kill_a_worker, "node": world.kill_a_node, "store": world.kill_the_way,
        "down": lambda: told(down_until=time.time() + 5), "flaky": lambda: told(share=0.25),
    }  # fmt: skip
    start()
    for event in plan.events:
        while written(run, caches[-1]) < event.parts and drivers[-1].is_alive():
            time.sleep(0.02)
        if not drivers[-1].is_alive():
            break
        done.append({**asdict(event), "hit": happens[event.what]() is not False})
    drivers[-1].join()
    while drivers[-1].exitcode != 0 and len(drivers) < 8:
        start()
        drivers[-1].join()
    told()
    for cache in caches:
        shutil.rmtree(cache, ignore_errors=True)
    return {"starts": len(drivers), "exit": drivers[-1].exitcode, "events": done}


def judged(plan: Plan, run: str, world: World, wanted: dict[str, Any]) -> dict[str, Any]:
    begun = time.perf_counter()
    course = carried_out(plan, run, world)
    found = numbers_of(run, plan.model)
    computed = int(found.pop("computed")[0])
    equal = all(np.array_equal(found[name], wanted[name]) for name in wanted)
    needed = len(ATTACKS) * SAMPLES
    told_of = {"seed": plan.seed, "model": plan.model, "where": plan.where, "by": plan.by, **course}
    return {**told_of, "equal": equal, "computed_twice": computed - needed, "seconds": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=lambda text: list(map(int, text.split(","))), default=list(range(32)))
    asked = parser.parse_args()
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": AT.replace(str(PORT), str(PORT + 1)),
    }  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ended."))  # whoever ends this ends the world as well
    world = World()
    try:
        wanted = {f"builtin:digits-{kind}": numbers_of(None, f"builtin:digits-{kind}") for kind in ("linf", "standard")}
        rows = {row["seed"]: row for row in (json.loads(RESULTS.read_text()) if RESULTS.exists() else [])}
        for seed in asked.seeds:
            plan = drawn(seed)
            with tempfile.TemporaryDirectory() as folder:
                run = f"{folder}/run" if plan.where == "folder" else f"s3://bucket/faults-{seed}-{os.getpid()}"
                rows[seed] = judged(plan, run, world, wanted[plan.model])
            print(rows[seed], flush=True)
            RESULTS.write_text(json.dumps([rows[key] for key in sorted(rows)], indent=1) + "\n")
    finally:
        world.close()


if __name__ == "__main__":
    main()
