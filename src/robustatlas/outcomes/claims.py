"""Who is at work on what, so that no two live processes compute the same samples. A claim is a lock of the operating
system on an empty file of the run, one byte a sample: it ends with the process that holds it, and no clock is read.
Where a file system has no such locks samples may be computed twice, with the same numbers."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.files import one_sentence
from robustatlas.outcomes.records import spans_of

Integers = NDArray[np.int64]

_FLOCK = "hhqqi"
"""``struct flock``: type, whence, start, length, process."""

_HELD = (errno.EAGAIN, errno.EACCES)
_UNKNOWN = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

# Locks of an open file, not of a process: threads exclude each other, and no other file's closing ends them.
_SET, _WAIT, _GET = (getattr(fcntl, f"F_OFD_{what}", None) for what in ("SETLK", "SETLKW", "GETLK"))


class Claims:
    """What this user of a run has taken; None for a run in memory, which nobody else can see."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder if _SET is not None else None
        self._files: dict[str, int] = {}

    def __enter__(self) -> Claims:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def take(self, key: str, wanted: Integers, count: int) -> Integers:
        """Claim the first ``count`` of the samples ``wanted`` [N] that nobody has; which these are."""
        if self._folder is None:
            return wanted[:count]
        free, taken = wanted, np.zeros(0, np.int64)
        while len(free) and len(taken) < count:
            tried = free[: count - len(taken)]
            free = free[len(tried) :]
            for first, end in spans_of(tried):
                held = self._lock(key, first, end)
                if held is None:
                    taken = np.concatenate([taken, np.arange(first, end)])
                    continue
                rest = np.concatenate([tried[~np.isin(tried, taken)], free])
                free = rest[(rest < held[0]) | (rest >= held[1])]
                break
        return wanted[np.isin(wanted, taken)]

    def release(self, key: str, index: Integers) -> None:
        """Give samples back, done or not."""
        for first, end in spans_of(index) if self._folder is not None and len(index) else ():
            self._set(key, fcntl.F_UNLCK, first, end)

    @contextmanager
    def alone(self, key: str) -> Iterator[None]:
        """Wait until nobody else is inside under this key."""
        if self._folder is None:
            yield
            return
        self._set(key, fcntl.F_WRLCK, 0, 1, wait=True)
        try:
            yield
        finally:
            self._set(key, fcntl.F_UNLCK, 0, 1)

    def _lock(self, key: str, first: int, end: int) -> tuple[int, int] | None:
        """Lock a span; the (first, end) of one that another holds of it, None where it is locked now."""
        while not self._set(key, fcntl.F_WRLCK, first, end):
            asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, first, end - first, 0)
            kind, _, start, length, _ = struct.unpack(_FLOCK, fcntl.fcntl(self._file(key), _GET or 0, asked))
            if kind != fcntl.F_UNLCK:
                return start, start + length
        return None

    def _set(self, key: str, kind: int, first: int, end: int, wait: bool = False) -> bool:
        """Lock or unlock a span; False where another holds some of it."""
        command = _WAIT if wait else _SET
        if self._folder is None or command is None:
            return True
        try:
            fcntl.fcntl(self._file(key), command, struct.pack(_FLOCK, kind, os.SEEK_SET, first, end - first, 0))
        except OSError as error:
            if error.errno in _HELD:
                return False
            if error.errno not in _UNKNOWN:
                raise
            self._folder = None
        return True

    def _file(self, key: str) -> int:
        if key not in self._files:
            path = Path(self._folder or "") / f"{key}.lock"
            with one_sentence(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._files[key] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        return self._files[key]
