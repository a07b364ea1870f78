"""What sharing the work costs: workers, Ray, planning and resuming a large run, memory of a large data set.

Writes benchmarks/results/scale.json. ``--only workers,ray,plan,memory`` measures some of it; ``--short`` does it in a
minute or two, on fewer samples. The load of the machine before each measurement is written beside it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import robustatlas as ra
from robustatlas.evaluation import Cluster
from robustatlas.evaluation.workers.cluster import connected
from robustatlas.outcomes import AttackRecord, CallRecord, DataRecord, Identity, ModelRecord, Run
from robustatlas.outcomes.columns import OUTCOME_COLUMNS
from robustatlas.outcomes.records import spans_of
from robustatlas.outcomes.tables import write_parquet

RESULTS = Path(__file__).parent / "results" / "scale.json"
MEASURED = ("linf", "l2", "l1", "l0", "stadv", "elastic")
ATTACKS = ("linf", "l2", "l1", "stadv", "recolor", "elastic", "jpeg-linf", "jpeg-l1", "lpips")


def seconds_of(samples: int, **options: Any) -> float:
    model, data = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    begun = time.perf_counter()
    ra.evaluate(model, data, MEASURED, samples=samples, shard_size=max(16, samples // 12), **options)
    return time.perf_counter() - begun


def workers(short: bool) -> dict[str, Any]:
    """Two workers against one, one thread each; starting them (imports, mostly) is measured by itself."""
    torch.set_num_threads(1)
    samples = 240 if short else 600
    start = seconds_of(16, devices=["cpu"]) - seconds_of(16)
    one, two = seconds_of(samples, devices=["cpu"]), seconds_of(samples, devices=["cpu", "cpu"])
    return {
        "samples": samples,
        "start_s": start,
        "one_worker_s": one,
        "two_workers_s": two,
        "speedup": one / two,
        "speedup_without_start": (one - start) / max(two - start, 1e-9),
    }


def ray(short: bool) -> dict[str, Any]:
    """Two actors of Ray against two processes, in turn, each with the start of its workers; the start of a cluster for
    them stands by itself, and so does that of the workers: what 16 samples take. The shortest of each counts."""
    torch.set_num_threads(1)
    samples = 240 if short else 600
    cluster_start, found = [], {name: {"start_s": [], "all_s": []} for name in ("ray", "processes")}
    for _ in range(1 if short else 3):
        begun = time.perf_counter()
        with connected(Cluster(workers=2)):
            cluster_start.append(time.perf_counter() - begun)
            _timed(found["ray"], samples, ray=True, workers=2)
        _timed(found["processes"], samples, devices=["cpu", "cpu"])
    least = {name: {what: min(times) for what, times in each.items()} for name, each in found.items()}
    work = {name: each["all_s"] - each["start_s"] for name, each in least.items()}
    return {
        "samples": samples,
        "cluster_start_s": cluster_start,
        **found,
        "overhead_percent": 100 * (least["ray"]["all_s"] / least["processes"]["all_s"] - 1),
        "overhead_without_starts_percent": 100 * (work["ray"] / work["processes"] - 1),
    }


def _timed(times: dict[str, list[float]], samples: int, **options: Any) -> None:
    times["start_s"].append(seconds_of(16, **options))
    times["all_s"].append(seconds_of(samples, **options))


def plan(short: bool) -> dict[str, Any]:
    """A million samples under nine attacks: planned from nothing, and taken up again when nearly done."""
    count, part = 1_000_000, 10_000
    index = np.arange(count)
    identity = Identity(model=ModelRecord(name="net"), data=DataRecord(name="data"))
    records = [AttackRecord(name=name, strengths=tuple(np.arange(1, 21) / 20)) for name in ATTACKS]
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        run = Run.begin(folder, identity)
        run.add(records, CallRecord(attacks=tuple(record.key for record in records), spans=spans_of(index)))
        for record in records:
            assert not np.isin(index, run.done(record)).any()
        planned = time.perf_counter() - begun
        _fill(run, records, count - part, part)
        begun = time.perf_counter()
        again = Run.begin(folder, identity)
        left = 0
        for record in records:  # as the dispatcher of an evaluation does
            held = np.isin(index, again.done(record))
            again.columns(record, index[held], ("minimal_size", "seconds"))
            left += int((~held).sum())
        resumed = time.perf_counter() - begun
    assert left == part * len(ATTACKS)
    return {"samples": count, "attacks": len(ATTACKS), "files": 9 * (count // part - 1), "plan_s": planned,
            "resume_s": resumed}  # fmt: skip


def _fill(run: Run, records: list[AttackRecord], count: int, part: int) -> None:
    """Parts as an evaluation writes them."""
    for record in records:
        for first in range(0, count, part):
            columns = {
                name: np.zeros((part, 20)[:dimensions], kind) for name, (kind, dimensions) in OUTCOME_COLUMNS.items()
            } | {"index": np.arange(first, first + part)}
            assert run.path is not None
            write_parquet(run.path / "outcomes" / record.key / f"{first:09d}-{part}-00000000.parquet", columns)


def memory(short: bool) -> dict[str, Any]:
    """Peak memory of an evaluation of drawn images of 3x224x224, of which nothing is kept: a sixth of them is attacked,
    by one step; the others are misclassified, which is found out part by part as well. All parts are alike, so that a
    large data set shows nothing that a small one does not.

    Peaks of the whole process, as those of the command line and its workers are, which hand every large piece back as
    soon as it is freed, and as a script is that leaves that to the C library.
    """
    found: dict[str, Any] = {}
    for how in ("command line", "script"):
        peaks = {}
        for samples, runs in ((1_000, 3), (10_000 if short else 100_000, 1)):
            peaks[str(samples)] = [_peak(samples, how) for _ in range(runs)]
        few, many = peaks.values()
        found[how] = {"runs": peaks, "growth_percent": 100 * (many[0]["peak_mb"] / _middle(few) - 1)}
    return found


def _peak(samples: int, how: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_DRAWN), str(samples), how], capture_output=True, text=True, check=True
    )
    peak: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return peak


def _middle(runs: list[dict[str, Any]]) -> float:
    return float(np.median([run["peak_mb"] for run in runs]))


_DRAWN = """
    import json, resource, sys, time
    import numpy as np, torch
    from torch import nn
    import robustatlas as ra
    from robustatlas.attacks.definition import Attack, AttackRun
    from robustatlas.data import Fingerprint, Rows
    from robustatlas.evaluation.workers.memory import hand_back_at_once
    from robustatlas.optimizers.pgd import PGD
    from robustatlas.threats.lp import Linf

    class Drawn(Rows):
        def __init__(self, count):
            self.shape = (count, 3, 224, 224)

        def stored(self, positions):
            shades = (112 + 32 * (positions % 2)).to(torch.uint8)
            return shades[:, None, None, None].expand(-1, *self.shape[1:]).contiguous()

    class Bright(nn.Module):
        def forward(self, x):
            mean = x.mean((1, 2, 3))
            return torch.stack([0.5 - mean, mean - 0.5], 1)

    count = int(sys.argv[1])
    if sys.argv[2] == "command line":
        hand_back_at_once()
    torch.set_num_threads(1)
    positions = np.arange(count)
    labels = (positions % 2 > 0) ^ (positions % 6 > 0)
    data = ra.Dataset.of_rows(Drawn(count), labels.astype(int), "drawn", None, Fingerprint("0" * 64, "0" * 64))
    run = AttackRun(PGD(steps=1), "cross-entropy", start="neutral")
    attack = Attack("linf", Linf(), (run,), (0.1,), search_order=("bisection", "every"))
    begun = time.perf_counter()
    result = ra.evaluate(Bright(), data, attack, batch_size=32)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    passes = float(result.outcome("linf").forward.mean())
    print(json.dumps({"peak_mb": peak, "seconds": time.perf_counter() - begun, "forward_passes": passes}))
"""

PARTS: dict[str, Callable[[bool], dict[str, Any]]] = {"workers": workers, "ray": ray, "plan": plan, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in given.only.split(","):
        load = os.getloadavg()[0]
        results[name] = PARTS[name](given.short) | {"load_before": load, "cores": os.cpu_count(), "short": given.short}
        print(name, json.dumps(results[name], indent=2))
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
