"""Folders that are filled independently of each other: by this process, by others, or on a Ray cluster."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from robustatlas.evaluation.workers import Cluster, Jobs, Report, run_jobs, share_jobs

Fill = Callable[[Path, Any, Any], None]
"""Function of (folder, shared data, job) that fills the folder, continuing from its content."""


def fill_folders(
    fill: Fill,
    shared: Any,
    folders: Mapping[Path, Any],
    places: Sequence[str] | Cluster = (),
    through: Callable[[Path], None] = lambda place: None,
    note: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Fill all folders, in any order.

    Args:
        fill: function that fills one folder, of an importable module or of a file (its code is sent along).
        shared: data that all folders need, sent once to each worker.
        folders: folder -> its job.
        places: a device for each worker on this machine, or a Ray cluster; empty: this process fills all folders.
            A cluster needs no shared disk: a folder is sent there and comes back, so a lost worker costs its work
            since.
        through: is called with each folder that is filled.
        note: is called with a sentence about each worker that is lost.
    """
    if not folders:
        return
    jobs = _Folders(folders, isinstance(places, Cluster), through, note)
    if not places:
        run_jobs(partial(_fill_folder, fill, shared), jobs)
        return
    threads = 1
    if not isinstance(places, Cluster):
        threads, places = max(1, (os.cpu_count() or 1) // len(places)), places[: len(folders)]
    share_jobs(_FillWorkload(fill, shared), "What the trainings share", places, threads, jobs)


@dataclass(frozen=True)
class _Job:
    """Folder to fill, its job ``about``, and its ``content`` if the worker shares no disk."""

    place: Path
    about: Any
    content: dict[str, bytes] | None


class _Folders(Jobs):
    """Queue of folders to fill; with ``travel``, their content is sent to workers and comes back."""

    def __init__(
        self, folders: Mapping[Path, Any], travel: bool, through: Callable[[Path], None], note: Callable[[str], None]
    ) -> None:
        self.left, self.travel, self.through, self.note = list(folders.items()), travel, through, note

    def next(self) -> _Job | None:
        if not self.left:
            return None
        place, about = self.left.pop(0)
        return _Job(place, about, _pack(place) if self.travel else None)

    def finish(self, job: _Job, content: dict[str, bytes] | None) -> None:
        if content is not None:
            _unpack(content, job.place)
        self.through(job.place)

    def note_retry(self, job: _Job, why: str) -> None:
        self.note(f"{why} Another worker does the {self.describe(job)} again.")

    def describe(self, job: _Job) -> str:
        return f"training {job.place.name}"


@dataclass(frozen=True)
class _FillWorkload:
    """Workload of a worker that fills folders."""

    fill: Fill
    shared: Any

    def difference(self) -> None:
        """Return None: there is nothing to compare."""

    def do(self, job: _Job, report: Report) -> dict[str, bytes] | None:
        """Fill the folder of a job."""
        return _fill_folder(self.fill, self.shared, job, report)


def _fill_folder(fill: Fill, shared: Any, job: _Job, report: Report) -> dict[str, bytes] | None:
    """Fill a folder; return its content if it was sent along."""
    if job.content is None:
        fill(job.place, shared, job.about)
        return None
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "place"
        _unpack(job.content, place)
        fill(place, shared, job.about)
        return _pack(place)


def _pack(place: Path) -> dict[str, bytes]:
    """Return the content of all files in a folder; empty if it does not exist."""
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def _unpack(content: Mapping[str, bytes], place: Path) -> None:
    """Write the files of :func:`_pack`; existing files are replaced."""
    place.mkdir(parents=True, exist_ok=True)
    for name, data in content.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(data)
