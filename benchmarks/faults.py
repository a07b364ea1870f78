"""Evaluations that are killed and whose store fails, by plans drawn from a seed: are the final numbers those of one?

A plan says where the run lies (a folder, or a store of objects: moto's S3, see object_storage.py), by how many
processes it is worked on, and what happens once so many parts are written: the driver or a worker is killed by signal
9, the store is down for some seconds, or answers a share of requests with 500 and 503. A killed driver is started
again, in a store now and then from another machine that has no copies. In the end every size and every verdict has to
be that of an undisturbed process; how many samples were computed more often than needed is counted.

Writes benchmarks/results/faults.json. ``--seeds 0,1,2`` chooses the plans, ``--only folder`` leaves out the store.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch

import robustatlas as ra
from robustatlas.outcomes import Run

RESULTS = Path(__file__).parent / "results" / "faults.json"
ATTACKS, STRENGTHS = ("linf", "l2"), {"linf": [0.05, 0.1, 0.2, 0.3], "l2": [0.25, 0.5, 1.0]}
SAMPLES, PART = 96, 8
PARTS = len(ATTACKS) * SAMPLES // PART
FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Event:
    """What happens once so many ``parts`` are written."""

    parts: int
    what: str


@dataclass(frozen=True)
class Plan:
    seed: int
    model: str
    where: str
    workers: int
    events: tuple[Event, ...]


def drawn(seed: int, wheres: tuple[str, ...]) -> Plan:
    random = np.random.default_rng(seed)
    where, workers = str(random.choice(wheres)), int(random.choice([1, 1, 2]))
    kinds = ["driver", *(["worker"] if workers > 1 else []), *(["down", "flaky"] if where == "store" else [])]
    at = np.sort(random.integers(0, PARTS - 1, size=int(random.integers(1, 4))))
    events = tuple(Event(int(parts), str(random.choice(kinds))) for parts in at)
    return Plan(seed, f"builtin:digits-{random.choice(['linf', 'standard'])}", where, workers, events)


def evaluation(model: str, run: str | None, workers: int = 1) -> ra.Result:
    torch.set_num_threads(1)
    return ra.evaluate(
        ra.load_model(model), ra.load_dataset("digits"), ATTACKS, strengths=STRENGTHS, samples=SAMPLES, run=run,
        shard_size=PART, workers=workers, diagnose=False, audit=0, progress=False,
    )  # fmt: skip


def _driven(plan: Plan, run: str, cache: str) -> None:
    os.environ["XDG_CACHE_HOME"] = cache
    evaluation(plan.model, run, plan.workers)


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
    """Processes that a driver has started to work."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == driver and b"robustatlas.workers" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except (OSError, IndexError):
            continue
    return found


def carried_out(plan: Plan, run: str, told: Any) -> dict[str, Any]:
    """Work on a run while a plan is carried out, until the work is done."""
    random = np.random.default_rng(plan.seed + 10_000)
    caches = [tempfile.mkdtemp()]
    starts, done = 0, []

    def start() -> ForkProcess:
        nonlocal starts
        starts += 1
        driver = FORK.Process(target=_driven, args=(plan, run, caches[-1]))
        driver.start()
        return driver

    driver = start()
    for event in plan.events:
        while written(run, caches[-1]) < event.parts and driver.is_alive():
            time.sleep(0.02)
        if not driver.is_alive():
            break
        hit = True
        if event.what == "driver":
            os.kill(driver.pid or 0, signal.SIGKILL)
            driver.join()
            if plan.where == "store" and random.random() < 0.5:
                caches.append(tempfile.mkdtemp())
            driver = start()
        elif event.what == "worker":
            at_work = workers_of(driver.pid or 0)
            hit = bool(at_work)
            if hit:
                os.kill(int(random.choice(at_work)), signal.SIGKILL)
        else:
            told(**({"down_until": time.time() + 5} if event.what == "down" else {"share": 0.25}))
        done.append({**asdict(event), "hit": hit})
    driver.join()
    while driver.exitcode != 0 and starts < 8:
        driver = start()
        driver.join()
    told()
    for cache in caches:
        shutil.rmtree(cache, ignore_errors=True)
    return {"starts": starts, "exit": driver.exitcode, "events": done}


def judged(plan: Plan, run: str, told: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    begun = time.perf_counter()
    course = carried_out(plan, run, told)
    found = numbers_of(run, plan.model)
    computed = int(found.pop("computed")[0])
    equal = all(np.array_equal(found[name], wanted[name]) for name in wanted)
    needed = len(ATTACKS) * SAMPLES
    told_of = {"seed": plan.seed, "model": plan.model, "where": plan.where, "workers": plan.workers, **course}
    return {**told_of, "equal": equal, "computed_twice": computed - needed, "seconds": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=lambda text: list(map(int, text.split(","))), default=list(range(30)))
    parser.add_argument("--only", choices=["folder", "store"])
    asked = parser.parse_args()
    wheres = (asked.only,) if asked.only else ("folder", "store")
    server = None
    sys.path.insert(0, str(Path(__file__).parent))
    from object_storage import AT, told

    os.environ |= {
        "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ENDPOINT_URL": AT,
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    try:
        if "store" in wheres:
            script = str(Path(__file__).with_name("object_storage.py"))
            server = subprocess.Popen([sys.executable, script, "--serve"], stderr=subprocess.DEVNULL)
            time.sleep(8)
            made = "import s3fs; s3fs.S3FileSystem().mkdir('bucket')"  # in a process: this one forks
            subprocess.run([sys.executable, "-c", made], check=True)
        tell = told if server else lambda **faults: {}
        wanted = {f"builtin:digits-{kind}": numbers_of(None, f"builtin:digits-{kind}") for kind in ("linf", "standard")}
        rows = {row["seed"]: row for row in (json.loads(RESULTS.read_text()) if RESULTS.exists() else [])}
        for seed in asked.seeds:
            plan = drawn(seed, wheres)
            with tempfile.TemporaryDirectory() as folder:
                run = f"{folder}/run" if plan.where == "folder" else f"s3://bucket/faults-{seed}-{os.getpid()}"
                rows[seed] = judged(plan, run, tell, wanted[plan.model])
            print(rows[seed], flush=True)
            RESULTS.write_text(json.dumps([rows[key] for key in sorted(rows)], indent=1) + "\n")
    finally:
        if server is not None:
            server.kill()


if __name__ == "__main__":
    main()
