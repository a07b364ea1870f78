"""Independent pieces of work that each fill a folder: done by this process, by others, or on a cluster of Ray."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch

from robustatlas.errors import UserError
from robustatlas.evaluation.cluster import Cluster, connected
from robustatlas.evaluation.travel import packed, unpacked

Fill = Callable[[Path, Any, Any], None]
"""From (folder, what all errands share, what this one is about): fill the folder, going on with what it holds."""

_RETRIES = 3
"""Of an errand whose worker on a cluster was lost."""
_COMMAND = "from robustatlas.training.errands import serve; serve()"


def run_errands(
    fill: Fill, shared: Any, errands: Mapping[Path, Any], workers: int = 1, cluster: Cluster | None = None
) -> Iterator[Path]:
    """Have each folder filled; yields those that are through, in whatever order.

    Args:
        fill: does one errand. A function of an importable module, or of a file (its code goes along).
        shared: what all errands need, such as data; sent to each worker.
        errands: folder -> what the errand is about.
        workers: processes of this machine; with 1 (and no cluster) this process does them one after the other.
        cluster: a cluster of Ray, on which ``workers`` says nothing. No disk needs to be shared: the folder goes there
            and comes back whole, so that a lost worker costs what it did since. Lost workers are replaced, and nodes
            that join get work.

    Raises:
        UserError: what ``fill`` raises, and workers that die.
    """
    if cluster is not None:
        yield from _on_ray(fill, shared, errands, cluster)
    elif workers > 1:
        yield from _in_processes(fill, shared, errands, workers)
    else:
        for place, errand in errands.items():
            fill(place, shared, errand)
            yield place


def _in_processes(fill: Fill, shared: Any, errands: Mapping[Path, Any], workers: int) -> Iterator[Path]:
    """A process for each errand, so many at once; leaving this ends them."""
    content = packed((fill, shared), "What the trainings share")
    threads = max(1, (os.cpu_count() or 1) // workers)
    at_work: set[subprocess.Popen[bytes]] = set()
    ended = threading.Event()

    def one(place: Path, errand: Any) -> Path:
        if ended.is_set():
            return place
        pipe = subprocess.PIPE
        with subprocess.Popen([sys.executable, "-c", _COMMAND], stdin=pipe, stdout=pipe, stderr=pipe) as process:
            at_work.add(process)
            kit = pickle.dumps((tuple(sys.path), threads, content, str(place.resolve()), errand))
            answer, complaint = process.communicate(kit)
            at_work.discard(process)
        if process.returncode == 0:
            return place
        if answer:
            raise pickle.loads(answer)
        last = (complaint.decode(errors="replace").strip().splitlines() or ["without a word"])[-1]
        raise UserError(f"A process that worked at {place} ended with {process.returncode}: {last}")

    with ThreadPoolExecutor(workers) as pool:
        try:
            for done in as_completed([pool.submit(one, place, errand) for place, errand in errands.items()]):
                yield done.result()
        finally:
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(at_work):
                process.kill()


def serve() -> None:
    """Do the errand that comes through standard input; an error goes back through standard output."""
    paths, threads, content, place, errand = pickle.load(sys.stdin.buffer)
    sys.path[:] = [*paths, *(path for path in sys.path if path not in paths)]
    torch.set_num_threads(threads)
    try:
        fill, shared = unpacked(content, "cpu")
        fill(Path(place), shared, errand)
    except UserError as error:
        sys.stdout.buffer.write(pickle.dumps(error))
        sys.exit(2)


def _on_ray(fill: Fill, shared: Any, errands: Mapping[Path, Any], cluster: Cluster) -> Iterator[Path]:
    content = packed((fill, shared), "What the trainings share")
    with connected(cluster) as ray:
        cluster.check_fits(ray)
        there = ray.put(content)
        work = ray.remote(_filled).options(
            num_cpus=cluster.cpus, num_gpus=cluster.gpus, max_retries=_RETRIES, retry_exceptions=False
        )
        waiting = {work.remote(there, _pack(place), errand, max(1, int(cluster.cpus))): place
                   for place, errand in errands.items()}  # fmt: skip
        while waiting:
            ended, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ended:
                place = waiting.pop(reference)
                try:
                    _unpack(ray.get(reference), place)
                except ray.exceptions.RayTaskError as error:
                    raise UserError(str(error.cause)) if isinstance(error.cause, UserError) else error from error
                except ray.exceptions.RayError as error:
                    raise UserError(
                        f"Workers on the cluster were lost over {place.name} again and again "
                        f"({type(error).__name__}); what is done is kept, and the same call goes on."
                    ) from error
                yield place


def _filled(content: bytes, folder: bytes, errand: Any, threads: int) -> bytes:
    """On the cluster: the folder as it is after the errand."""
    torch.set_num_threads(threads)
    fill, shared = unpacked(content, "cpu")
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "place"
        _unpack(folder, place)
        fill(place, shared, errand)
        return _pack(place)


def _pack(place: Path) -> bytes:
    """A folder and all that is in it; of none an empty one."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        if place.is_dir():
            archive.add(place, ".")
    return stream.getvalue()


def _unpack(content: bytes, place: Path) -> None:
    """What :func:`_pack` made; files that are there already are replaced."""
    place.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(place, filter="data")
