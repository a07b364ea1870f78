"""How often a model was asked and when it may be asked next, by all processes that ask it together."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
import weakref
from pathlib import Path

from robustatlas.common.files import one_sentence


class Tally:
    """A count in a file that one process at a time changes: workers share a budget and a rate.

    Args:
        path: of the file; None for one of this process and those it sends the tally to, on this machine, which goes
            with this object.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            handle, name = tempfile.mkstemp(prefix="robustatlas-asked-")
            os.close(handle)
            path = Path(name)
            weakref.finalize(self, path.unlink, missing_ok=True)
        self.path = path

    def charge(self, count: int, most: int | None = None, per_second: float | None = None) -> tuple[int, float]:
        """Note that ``count`` more inputs are about to be asked about, unless all would be more than ``most``.

        Returns:
            how many were asked about before, and the seconds to wait so that no more than ``per_second`` are.
        """
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
