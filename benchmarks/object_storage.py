"""Runs in a real S3 interface (moto's server, a process of its own), which fails as it is told.

Each scenario evaluates a built-in network by two attacks with ``--run s3://...`` and compares every number with a run
in a folder: undisturbed; one request in five answered 500 or 503; lists that take seconds; a store that is down for a
while; a writer killed by signal 9 while it sends, continued on the same machine and on another one; two machines at
once; wrong credentials. Objects, bytes and requests are counted by the server, and so are uploads in several parts that
were left behind.
``--only overhead`` compares the wall times of 1,000 samples.

Needs ``pip install 'moto[server]' s3fs``. Writes benchmarks/results/object_storage.json.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np

import robustatlas as ra
from robustatlas.outcomes.storage.objects import Objects

RESULTS = Path(__file__).parent / "results" / "object_storage.json"
PORT = int(os.environ.setdefault("OBJECT_STORAGE_PORT", str(20_000 + os.getpid() % 20_000)))
AT = f"http://127.0.0.1:{PORT}"
CONTROL = "/--faults"
STRENGTHS = {"linf": [0.05, 0.1, 0.2], "l2": [0.25, 0.5, 1.0]}


def serve() -> None:
    """moto's S3 behind faults: a JSON body posted to CONTROL sets them, its answer counts the requests since."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    inner = DomainDispatcherApplication(create_backend_app)
    faults: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    dice = random.Random(0)

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ["PATH_INFO"] == CONTROL:
            told = json.dumps(counts).encode()
            counts.clear()
            faults.clear()
            faults.update(json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
            start("200 OK", [("Content-Type", "application/json")])
            return [told]
        listing = environ["REQUEST_METHOD"] == "GET" and "list-type" in environ["QUERY_STRING"]
        kind = "LIST" if listing else environ["REQUEST_METHOD"]
        counts[kind] += 1
        time.sleep(faults.get(f"{kind.lower()}_s", 0.0))
        if faults.get("down_until", 0.0) > time.time() or dice.random() < faults.get("share", 0.0):
            counts["failed"] += 1
            code = dice.choice(["500 Internal Server Error", "503 Slow Down"])
            name = "InternalError" if code[0:3] == "500" else "SlowDown"
            return refused(environ, start, code, name)
        if "wrong/" in environ.get("HTTP_AUTHORIZATION", ""):
            return refused(environ, start, "403 Forbidden", "InvalidAccessKeyId")
        return inner(environ, start)

    def refused(environ: dict[str, Any], start: Callable[..., Any], code: str, name: str) -> Iterable[bytes]:
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start(code, [("Content-Type", "application/xml")])
        return [f"<?xml version='1.0'?><Error><Code>{name}</Code><Message>told to</Message></Error>".encode()]

    run_simple("127.0.0.1", PORT, answer, threaded=True)


def told(**faults: Any) -> dict[str, int]:
    """Set the faults; the requests since they were set last."""
    request = urllib.request.Request(AT + CONTROL, json.dumps(faults).encode(), {"Content-Type": "application/json"})
    return json.loads(urllib.request.urlopen(request).read())


def evaluation(run: str, samples: int, size: int | None = 10) -> ra.Result:
    model, digits = ra.load_model("builtin:digits-linf"), ra.load_dataset("digits")
    data = (digits.images.repeat(2, 1, 1, 1), digits.labels.repeat(2))  # twice, to be enough
    return ra.evaluate(
        model, data, ["linf", "l2"], strengths=STRENGTHS, samples=samples, run=run, shard_size=size,
        diagnose=False, audit=0, progress=False,
    )  # fmt: skip


def command(run: str, samples: int, cache: str, **environment: str) -> subprocess.Popen[str]:
    """The same evaluation as a process, on a machine of its own."""
    arguments = ["--evaluate", run, "--samples", str(samples)]
    return subprocess.Popen(
        [sys.executable, __file__, *arguments],
        env={**os.environ, "XDG_CACHE_HOME": cache, **environment}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def equal(run: str, wanted: ra.Result) -> bool:
    """Whether a machine without copies reads the numbers of an undisturbed run."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        found = ra.load_result(run)
    return all(
        np.array_equal(found.minimal_size(name), wanted.minimal_size(name))
        and np.array_equal(found.outcome(name).fooled, wanted.outcome(name).fooled)
        for name in STRENGTHS
    )


def counted(run: str) -> dict[str, Any]:
    import s3fs

    system = s3fs.S3FileSystem(skip_instance_cache=True, use_listings_cache=False)
    found = system.find(run, detail=True)
    sizes = [about["size"] for about in found.values()]
    left = system.call_s3("list_multipart_uploads", Bucket="bucket").get("Uploads", [])
    return {"objects": len(sizes), "bytes": sum(sizes), "largest_bytes": max(sizes), "uploads_left_behind": len(left)}


def scenario(name: str, samples: int, wanted: ra.Result) -> dict[str, Any]:
    """What became of an evaluation in a run of its own."""
    run = "s3://bucket/" + name.replace(" ", "-").replace(",", "")
    told()
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        found = SCENARIOS[name](run, samples, first, second)
    requests = told()
    if name == "wrong credentials":
        return found
    return {"equal": equal(run, wanted), "requests": requests, **counted(run), **found}


def steady(**faults: Any) -> Callable[..., dict[str, Any]]:
    def course(run: str, samples: int, first: str, second: str) -> dict[str, Any]:
        told(**faults)
        worker = command(run, samples, first)
        worker.communicate()
        return {"exit": worker.returncode}

    return course


def after_a_put(worker: subprocess.Popen[str], **faults: Any) -> None:
    """Wait until the run has begun."""
    while told(**faults).get("PUT", 0) < 1 and worker.poll() is None:
        time.sleep(0.2)


def down(run: str, samples: int, first: str, second: str) -> dict[str, Any]:
    worker = command(run, samples, first)
    after_a_put(worker)
    told(down_until=time.time() + 20)
    said = worker.communicate()[1].splitlines()
    return {"exit": worker.returncode, "said": [line for line in said if "cannot be sent" in line][:1]}


def killed(elsewhere: bool) -> Callable[..., dict[str, Any]]:
    def course(run: str, samples: int, first: str, second: str) -> dict[str, Any]:
        worker = command(run, samples, first)
        after_a_put(worker, put_s=1.0)
        time.sleep(3.5)  # some of the records are there, and a request is under way
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        told()
        again = command(run, samples, second if elsewhere else first)
        again.communicate()
        return {"killed": worker.returncode, "exit": again.returncode}

    return course


def two(run: str, samples: int, first: str, second: str) -> dict[str, Any]:
    both = [command(run, samples, cache) for cache in (first, second)]
    for worker in both:
        worker.communicate()
    return {"exit": [worker.returncode for worker in both]}


def wrong(run: str, samples: int, first: str, second: str) -> dict[str, Any]:
    worker = command(run, samples, first, AWS_ACCESS_KEY_ID="wrong")
    said = worker.communicate()[1].strip().splitlines()
    return {"exit": worker.returncode, "said": said[-1]}


SCENARIOS: dict[str, Callable[..., dict[str, Any]]] = {
    "undisturbed": steady(),
    "one request in five fails": steady(share=0.2),
    "slow lists": steady(list_s=4.0),
    "down for 20 s": down,
    "killed while sending": killed(False),
    "killed while sending; goes on elsewhere": killed(True),
    "two machines at once": two,
    "wrong credentials": wrong,
}


def overhead(samples: int, repeats: int) -> dict[str, Any]:
    """Seconds in a folder and in the store: pairs whose first one changes, and the shares that the store adds in the
    middle one of them. "clock" and "processor" are of all; the latter "beside" is of threads other than the one that
    evaluates, and "waiting" the time by the clock that this one waits for answers: what the store causes by itself,
    however much a shared machine sways from one evaluation to the next."""
    pairs: list[dict[str, dict[str, float]]] = []
    told()
    for number in range(repeats):
        pair = {}
        for where in ("folder", "store") if number % 2 else ("store", "folder"):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_CACHE_HOME"] = folder
                run = f"{folder}/run" if where == "folder" else f"s3://bucket/overhead-{number}"
                pair[where] = timed(run, samples)
        pairs.append(pair)
        print(pair, flush=True)
    added = {kind: median(pair["store"][kind] / pair["folder"][kind] - 1 for pair in pairs) for kind in WHOLE}
    added["waiting and beside"] = median(
        (pair["store"]["waiting"] + pair["store"]["beside"] - pair["folder"]["beside"]) / pair["folder"]["clock"]
        for pair in pairs
    )
    return {"samples": samples, "pairs": pairs, "added": added, "load": os.getloadavg()}


WHOLE = ("clock", "processor")


def timed(run: str, samples: int) -> dict[str, float]:
    """Seconds of one evaluation."""
    waiting = 0.0
    tried = Objects._tried

    def watched(objects: Objects, *request: Any, **more: Any) -> Any:
        nonlocal waiting
        begun = time.perf_counter()
        try:
            return tried(objects, *request, **more)
        finally:
            waiting += (time.perf_counter() - begun) * (threading.current_thread() is threading.main_thread())

    begun, used, here = time.perf_counter(), time.process_time(), time.thread_time()
    with patch.object(Objects, "_tried", watched):
        evaluation(run, samples, None)
    clock, processor = time.perf_counter() - begun, time.process_time() - used
    beside = processor - (time.thread_time() - here)
    return {"clock": clock, "processor": processor, "beside": beside, "waiting": waiting}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--evaluate", metavar="RUN")
    parser.add_argument("--samples", type=int)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", metavar="NAMES", help="scenarios, with commas between them, or overhead")
    asked = parser.parse_args()
    if asked.serve:
        return serve()
    if asked.evaluate:
        evaluation(asked.evaluate, asked.samples)
        return None
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_ENDPOINT_URL": AT,
        "AWS_DEFAULT_REGION": "us-east-1",
    }  # fmt: skip
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stderr=subprocess.DEVNULL)
    try:
        time.sleep(8)
        import s3fs

        s3fs.S3FileSystem(skip_instance_cache=True).mkdir("bucket")
        results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        if asked.only != "overhead":
            samples = asked.samples or 60
            with tempfile.TemporaryDirectory() as folder:
                wanted = evaluation(f"{folder}/run", samples)
            names = asked.only.split(",") if asked.only else list(SCENARIOS)
            results.setdefault("scenarios", {})
            for name in names:
                results["scenarios"][name] = scenario(name, samples, wanted)
                print(name, results["scenarios"][name], flush=True)
        if asked.only in (None, "overhead"):
            results["overhead"] = overhead(asked.samples or 1000, asked.repeats)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    finally:
        server.kill()
    return None


if __name__ == "__main__":
    main()
