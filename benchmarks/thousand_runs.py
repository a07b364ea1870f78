"""A thousand runs at once: made synthetically, kept in one compact file, and asked by SQL.

Each run has 10,000 samples under nine attacks at 20 strengths. Some runs are written as an evaluation writes them, with
drawn sizes; the others are further names of the same files, so that a disk holds a thousand. Nothing that reads them
can tell. Measured are the seconds of compacting, those and the peak memory of queries, each in a process of its own,
and that what a query of the file says of some runs is what the runs say.

    python benchmarks/thousand_runs.py --folder FOLDER [--runs 1000] [--samples 10000] [--seconds 150] [--copy]

Goes on where it stopped, run by run; ``--seconds`` stops compacting after so long. With ``--copy`` the runs that are
further names of the same files enter the file as copies of the rows of those, which is what compacting them gives: then
only the first ones were really read. ``--commands 25,100`` measures instead `leaderboard build` and `compare` of the
first so many runs, which read the runs themselves. Writes benchmarks/results/thousand_runs.json, the queries once all
runs are in the file.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from robustatlas.outcomes import AttackRecord, CallRecord, DataRecord, Identity, ModelRecord, Run, compact, query

RESULTS = Path(__file__).parent / "results" / "thousand_runs.json"
ATTACKS = ("linf", "l2", "l1", "stadv", "recolor", "elastic", "jpeg-linf", "jpeg-l1", "lpips")
STRENGTHS = tuple((np.arange(1, 21) / 20).tolist())
QUERIES = {
    "medians": "SELECT run, attack, median(minimal_size) FROM outcomes GROUP BY ALL",
    "accuracies": "SELECT run, attack, 100 * avg((NOT broken)::INT) FROM broken(0.5) GROUP BY ALL",
    "accuracies, as kept": "SELECT run, attack, accuracy FROM accuracies WHERE strength = 0.5",
    "costs": "SELECT attack, avg(forward + backward) FROM outcomes GROUP BY attack",
    "hardest": "SELECT o.index, avg(minimal_size) FROM outcomes o WHERE attack = 'linf' GROUP BY 1 ORDER BY 2 LIMIT 10",
    "one run": "SELECT attack, quantile_cont(minimal_size, 0.9) FROM outcomes WHERE run LIKE '%run-0007' GROUP BY ALL",
}  # fmt: skip


def made(folder: Path, number: int, samples: int) -> Path:
    """One run, as an evaluation writes it."""
    random = np.random.default_rng(number)
    run = Run.begin(folder, Identity(model=ModelRecord(name=f"network {number}"), data=DataRecord(name="drawn")))
    index = np.arange(samples)
    records = [AttackRecord(name=name, strengths=STRENGTHS) for name in ATTACKS]
    run.add(records, CallRecord(attacks=tuple(record.key for record in records), spans=((0, samples),)))
    labels = np.random.default_rng(0).integers(0, 10, samples)  # of the same data as all others
    wrong = random.random(samples) < 0.1
    said = {
        "index": index, "label": labels, "clean_prediction": np.where(wrong, (labels + 1) % 10, labels),
        "clean_margin": random.uniform(-1, 1, samples),
    }  # fmt: skip
    for record in records:
        size = np.where(wrong, 0.0, random.gamma(2, 0.2, samples))
        size[random.random(samples) < 0.05] = np.inf
        forward = random.integers(50, 400, samples)
        columns = {
            "index": index, "minimal_size": size, "true_size": np.full(samples, -1.0),
            "found_class": np.where(np.isinf(size), -1, (labels + 1) % 10), "found_leg": np.full(samples, -1),
            "forward": forward, "backward": forward // 2, "rejected": np.zeros(samples, np.int64),
            "seconds": np.full(samples, 0.1), "margins": np.full((samples, 20), np.nan, np.float32),
            "fooled": np.where(size[:, None] <= np.array(STRENGTHS), 1, -1).astype(np.int8),
        }  # fmt: skip
        run.write(record, columns, said)
    return folder


def runs_in(folder: Path, count: int, samples: int, distinct: int) -> list[Path]:
    runs = [folder / "runs" / f"run-{number:04d}" for number in range(count)]
    for number, run in enumerate(runs):
        if (run / "complete").exists():
            continue
        if number < distinct:
            made(run, number, samples)
        else:
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(runs[number % distinct], run, copy_function=os.link)
        (run / "complete").touch()
    return runs


def copied(file: Path, runs: list[Path], distinct: int, seconds: float) -> bool:
    """Have the file hold the runs that it lacks, by copying rows; whether it has all, after so many seconds."""
    begun = time.perf_counter()
    with duckdb.connect(str(file)) as connection:
        held = {name for (name,) in connection.execute("SELECT run FROM sources").fetchall()}
        tables = connection.execute("SELECT table_name FROM duckdb_columns() WHERE column_name = 'run'").fetchall()
        tables = [table for (table,) in tables if table != "names"]
        for first in range(distinct, len(runs), distinct):
            block = [(str(runs[k % distinct]), str(runs[k])) for k in range(first, min(first + distinct, len(runs)))]
            if block[-1][1] in held:
                continue
            if time.perf_counter() - begun > seconds:
                return False
            connection.execute("CREATE OR REPLACE TEMP TABLE names (run VARCHAR, further VARCHAR)")
            connection.executemany("INSERT INTO names VALUES (?, ?)", block)
            connection.execute("BEGIN TRANSACTION")
            for table in tables:
                connection.execute(
                    f"INSERT INTO {table} SELECT t.* REPLACE (n.further AS run) FROM {table} t JOIN names n USING (run)"
                )
            connection.execute("COMMIT")
    return True


def asked(file: str, sql: str) -> None:
    """In a process of its own: seconds, by the clock and of processors, and peak memory of one query."""
    begun, used = time.perf_counter(), time.process_time()
    rows = query(sql, file).rows
    taken, worked = time.perf_counter() - begun, time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(json.dumps({"seconds": taken, "processor_seconds": worked, "peak_mb": peak, "rows": len(rows)}))


def answers(file: Path) -> dict[str, Any]:
    found = {}
    for name, sql in QUERIES.items():
        command = [sys.executable, __file__, "--file", str(file), "--ask", sql]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found[name] = json.loads(said.splitlines()[-1])
        print(name, found[name], flush=True)
    return found


def commanded(*arguments: str) -> dict[str, float]:
    """Seconds, by the clock and of processors, and peak memory of a command."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "robustatlas", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{arguments[0]} failed.")
    taken = time.perf_counter() - begun
    return {"seconds": taken, "processor_seconds": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 2**10}


def commands(runs: list[Path], output: Path) -> dict[str, dict[str, float]]:
    paths = [str(run) for run in runs]
    found = {"compare": commanded("compare", *paths, "--reference", "none")}
    found["leaderboard build"] = commanded("leaderboard", "build", *paths, "--reference", "none", "-o", str(output))
    found["leaderboard build"]["page_mb"] = (output / "index.html").stat().st_size / 2**20
    print(len(runs), found, flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--distinct", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--copy", action="store_true")
    parser.add_argument("--commands", metavar="COUNTS")
    parser.add_argument("--file")
    parser.add_argument("--ask", metavar="SQL")
    given = parser.parse_args()
    if given.ask:
        return asked(given.file, given.ask)
    file = given.folder / "all.duckdb"
    runs = runs_in(given.folder, given.runs, given.samples, given.distinct)
    known: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if given.commands:
        for count in map(int, given.commands.split(",")):
            known.setdefault("commands", {})[str(count)] = commands(runs[:count], given.folder / "board")
            RESULTS.write_text(json.dumps(known | {"commands_load": os.getloadavg()}, indent=1) + "\n")
        return None
    times = given.folder / "seconds.json"
    taken: list[float] = json.loads(times.read_text()) if times.exists() else []
    begun = time.perf_counter()
    while len(taken) < (given.distinct if given.copy else len(runs)) and time.perf_counter() - begun < given.seconds:
        start = time.perf_counter()
        compact(runs[len(taken) : len(taken) + 1], file)
        taken.append(time.perf_counter() - start)
        times.write_text(json.dumps(taken))
    size = file.stat().st_size / 2**20
    print(f"{len(taken)} of {len(runs)} runs, {np.mean(taken):.2f} s each, {size:.0f} MB", flush=True)
    left = given.seconds - (time.perf_counter() - begun)
    if len(taken) < len(runs) and not (given.copy and copied(file, runs, given.distinct, left)):
        return None
    size = file.stat().st_size / 2**20
    found = answers(file)
    some = runs[:2]
    same = query(
        f"SELECT * FROM ({QUERIES['medians']}) WHERE run IN ('{some[0]}', '{some[1]}') ORDER BY ALL", file
    ).rows
    equal = same == query(f"{QUERIES['medians']} ORDER BY ALL", some).rows
    told = {
        "runs": len(runs), "samples": given.samples, "attacks": len(ATTACKS), "strengths": len(STRENGTHS),
        "distinct": given.distinct, "compacted": len(taken), "compacting_s": sum(taken), "file_mb": size,
        "equal": equal, "queries": found, "load": os.getloadavg(),
    }  # fmt: skip
    RESULTS.write_text(json.dumps(known | told, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
