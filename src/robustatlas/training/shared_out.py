"""Folders that are filled independently of each other: by this process, by others, or on a cluster of Ray."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from robustatlas.evaluation.workers import Cluster, Jobs, Report, run_jobs, share_jobs

Fill = Callable[[Path, Any, Any], None]
"""From (folder, what all folders share, what this one is about): fill the folder, going on with what it holds."""


def fill_folders(
    fill: Fill,
    shared: Any,
    folders: Mapping[Path, Any],
    places: Sequence[str] | Cluster = (),
    through: Callable[[Path], None] = lambda place: None,
    note: Callable[[str], None] = lambda sentence: None,
) -> None:
    """Have each folder filled, in whatever order. ``folders``: folder -> what it is about. ``shared``: what all folders
    need, such as data, sent to each worker. ``through`` is called with each folder that is filled, ``note`` with what
    workers were lost.

    ``fill`` fills one. It is a function of an importable module, or of a file (its code goes along). ``places``: a
    device for each worker on this machine (none: this process does all), or a cluster of Ray. There no disk needs to be
    shared: the folder goes there and comes back whole, so a lost worker costs what it did since.
    """
    if not folders:
        return
    jobs = _Folders(folders, isinstance(places, Cluster), through, note)
    if not places:
        run_jobs(partial(_filled, fill, shared), jobs)
        return
    threads = 1
    if not isinstance(places, Cluster):
        threads, places = max(1, (os.cpu_count() or 1) // len(places)), places[: len(folders)]
    share_jobs(_Filling(fill, shared), "What the trainings share", places, threads, jobs)


@dataclass(frozen=True)
class _Job:
    """A folder, what it is ``about``, and where no disk is shared what it holds."""

    place: Path
    about: Any
    content: dict[str, bytes] | None


class _Folders(Jobs):
    """Folders to be filled, in their order; where they travel they go as they are, and come back."""

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
class _Filling:
    """The workload of a worker that fills folders."""

    fill: Fill
    shared: Any

    def difference(self) -> None:
        """Return None: there is nothing to compare."""

    def do(self, job: _Job, report: Report) -> dict[str, bytes] | None:
        """Fill the folder of a job."""
        return _filled(self.fill, self.shared, job, report)


def _filled(fill: Fill, shared: Any, job: _Job, report: Report) -> dict[str, bytes] | None:
    """Fill a folder; where it came along, what it holds then."""
    if job.content is None:
        fill(job.place, shared, job.about)
        return None
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) / "place"
        _unpack(job.content, place)
        fill(place, shared, job.about)
        return _pack(place)


def _pack(place: Path) -> dict[str, bytes]:
    """What the files in a folder hold; of no folder nothing."""
    return {str(file.relative_to(place)): file.read_bytes() for file in place.rglob("*") if file.is_file()}


def _unpack(content: Mapping[str, bytes], place: Path) -> None:
    """What :func:`_pack` made; files that are there already are replaced."""
    place.mkdir(parents=True, exist_ok=True)
    for name, held in content.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(held)
