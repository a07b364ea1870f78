"""Results of many runs, of which only those at work are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import overload

from robustatlas.results.result import Result, load_result


class Results(Sequence[Result]):
    """The results of runs on disk, each of which is read when it is asked for. ``paths``: the run directories.
    ``kept``: so many of those that were asked for last stay in memory, and are not read again."""

    def __init__(self, paths: Sequence[str | Path], kept: int = 0) -> None:
        self.paths, self.kept = tuple(paths), kept
        self._read = lru_cache(kept)(load_result)

    def __len__(self) -> int:
        return len(self.paths)

    @overload
    def __getitem__(self, place: int) -> Result: ...

    @overload
    def __getitem__(self, place: slice) -> Results: ...

    def __getitem__(self, place: int | slice) -> Result | Results:
        return Results(self.paths[place], self.kept) if isinstance(place, slice) else self._read(self.paths[place])
