"""What a model answered, kept, so that a resumed evaluation does not ask for it again."""

import fcntl
import hashlib
import io
import os
import tempfile
import time
import uuid
import weakref
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.common.files import one_sentence, write_atomically

Floats = NDArray[np.float32]
Ask = Callable[[Floats], Floats]

_FIRST, _KEY = "first.npz", 16
_COMPARED = 4
"""Inputs of before that a model is asked about again; one alone may be answered alike by two models."""

_SAME = 1e-3
"""Relative to the largest of them: answers that differ by more are another model's (as logits of a run's probe)."""


class KeptAnswers:
    """Answers in the files of a folder, which each process adds to in a file of its own.

    The n-th time that a process asks about an input, it gets the n-th answer that earlier ones were given. Only where
    there is none the model is asked: so what is asked twice on purpose, to verify a success, is. Before the first kept
    answer is used, the model is asked about a few earlier inputs, because it may be another one by now.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: defaultdict[bytes, list[Floats]] = defaultdict(list)
        self._rows: defaultdict[Path, int] = defaultdict(int)
        self._checked = False
        self._turn: defaultdict[bytes, int] = defaultdict(int)
        self._file: io.FileIO | None = None

    def of(self, x: Floats, ask: Ask) -> Floats:
        """The answers [B, C] to ``x`` [B, ...]; ``ask`` is called about those that are not known."""
        self._check(ask)
        keys = [hashlib.blake2b(row.tobytes(), digest_size=_KEY).digest() for row in np.ascontiguousarray(x)]
        turns = [self._turn_of(key) for key in keys]
        found = self._found(keys, turns)
        if any(answer is None for answer in found):
            self._read()  # this process may go on with what another one began and left
            found = self._found(keys, turns)
        unknown = [row for row, answer in enumerate(found) if answer is None]
        if unknown:
            given = np.asarray(ask(x[unknown]), np.float32)
            self._keep(x[unknown], [keys[row] for row in unknown], given)
            for row, answer in zip(unknown, given, strict=True):
                found[row] = answer
        return np.stack([answer for answer in found if answer is not None])

    def _turn_of(self, key: bytes) -> int:
        """How often this process asked about an input before."""
        self._turn[key] += 1
        return self._turn[key] - 1

    def _found(self, keys: list[bytes], turns: list[int]) -> list[Floats | None]:
        known = [self._known.get(key, []) for key in keys]
        return [answers[turn] if turn < len(answers) else None for answers, turn in zip(known, turns, strict=True)]

    def _check(self, ask: Ask) -> None:
        """Before the first answer, have the model show that it still is the one that answered."""
        if self._checked:
            return
        self._checked = True
        self._read()
        if self._known and (self.folder / _FIRST).is_file():
            with np.load(self.folder / _FIRST, allow_pickle=False) as first:
                x, before = first["x"], first["answers"]
            now = np.asarray(ask(x), np.float32)
            if now.shape != before.shape or np.abs(now - before).max() > _SAME * max(np.abs(before).max(), 1e-6):
                self._checked = False
                raise UserError(
                    f"The model answers otherwise than it did when {self.folder} was begun: it is another one by "
                    "now, or its answers vary. Give a new run directory."
                )

    def _read(self) -> None:
        """Take in what other processes have kept since the last time."""
        own = None if self._file is None else Path(str(self._file.name))
        for path in sorted(self.folder.glob("*.answers"), key=lambda path: (path.stat().st_mtime, path.name)):
            if path == own:
                continue
            kind, before = _record(int(path.name.partition("-")[0])), self._rows[path]
            whole = path.stat().st_size // kind.itemsize  # a writer that was killed may have left a part of one
            rows = np.fromfile(path, kind, whole - before, offset=before * kind.itemsize)
            for key, answer in zip(rows["key"], rows["answer"], strict=True):
                self._known[key.tobytes()].append(answer)
            self._rows[path] = whole

    def _keep(self, x: Floats, keys: list[bytes], answers: Floats) -> None:
        with one_sentence(self.folder):
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file = (self.folder / f"{answers.shape[1]}-{uuid.uuid4().hex}.answers").open("ab", buffering=0)
                if not (self.folder / _FIRST).is_file():
                    _write_first(self.folder / _FIRST, x[:_COMPARED], answers[:_COMPARED])
            rows = np.empty(len(keys), _record(answers.shape[1]))
            rows["key"], rows["answer"] = [np.void(key) for key in keys], answers
            self._file.write(rows.tobytes())

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["folder"])  # type: ignore[misc]


def _write_first(path: Path, x: Floats, answers: Floats) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, x=x, answers=answers)

    write_atomically(path, write)


def _record(width: int) -> np.dtype[Any]:
    return np.dtype([("key", f"V{_KEY}"), ("answer", "<f4", (width,))])


class Tally:
    """A count in a file that one process at a time changes: workers share a budget and a rate. ``path``: of the file;
    None for one of this process and those it sends the tally to, on this machine, which goes with this object."""

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            handle, name = tempfile.mkstemp(prefix="robustatlas-asked-")
            os.close(handle)
            path = Path(name)
            weakref.finalize(self, path.unlink, missing_ok=True)
        self.path = path

    def charge(self, count: int, most: int | None = None, per_second: float | None = None) -> tuple[int, float]:
        """Note that ``count`` more inputs are about to be asked about, unless all would be more than ``most``. Returns
        how many were asked about before, and the seconds to wait so that no more than ``per_second`` are."""
        with one_sentence(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a+", encoding="ascii") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                file.seek(0)
                before, free_at, now = *_read(file.read()), time.time()
                if most is not None and before + count > most:
                    return before, 0.0
                begin = max(now, free_at) if per_second else now
                file.seek(0)
                file.truncate()
                file.write(f"{before + count} {begin + count / per_second if per_second else free_at!r}")
        return before, begin - now


def _read(text: str) -> tuple[int, float]:
    count, _, free_at = text.partition(" ")
    return int(count or 0), float(free_at or 0.0)
