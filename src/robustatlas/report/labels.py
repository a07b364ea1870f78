"""Where words stand in a small chart: names of falling lines beside a marker, clear of all lines, and ticks apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LETTER, LINE = 8.0, 12.0
"""Room of a letter, a wide one, and of a line of text, in pixels."""

_STEP, _MARK = 5.0, 6.0
_TICK_LETTER, _TICK_GAP = 6.2, 5.0
_ABOVE = 7.0
"""Room above the chart into which a name may reach."""

Curve = tuple[NDArray[np.float64], NDArray[np.float64]]
"""x and y of the corners of a line, in pixels from the upper left corner of the chart."""


@dataclass(frozen=True)
class Label:
    """A name, in pixels from the upper left corner of the chart. ``at``: the point of the line that a marker shows.
    ``x``, ``y``: the left end of the name, and its base."""

    at: tuple[float, float]
    x: float
    y: float
    width: float

    def overlaps(self, other: Label) -> bool:
        """Whether two names, or a name and a marker, cover each other."""
        return self._covers(other.x - _MARK, other.x + other.width, other.y - LINE, other.y) or any(
            one._covers(x - _MARK, x + _MARK, y - _MARK, y + _MARK)
            for one, (x, y) in ((self, other.at), (other, self.at))
        )

    def _covers(self, left: float, right: float, top: float, base: float) -> bool:
        return self.x - _MARK < right and left < self.x + self.width and self.y - LINE < base and top < self.y


def placed(lines: Sequence[Curve], names: Sequence[str], width: float, height: float) -> list[Label]:
    """A place for the name of each line."""
    found: list[Label] = []
    for line, name in zip(lines, names, strict=True):
        room = LETTER * len(name)
        in_the_corner = Label((0.0, float(np.interp(0.0, *line))), 0.0, height, room)
        candidates = [*_candidates(line, room, width, height)] or [in_the_corner]
        found.append(min(candidates, key=lambda one: (_hidden(one, found, lines), one.x)))
    return found


def _candidates(line: Curve, room: float, width: float, height: float) -> Iterator[Label]:
    """Right of a point of the line, above it, and left below it."""
    for x in np.arange(0.0, width, _STEP).tolist():
        y = float(np.interp(x, *line))
        for left, base in (
            (x + _MARK + 1, y + LINE / 2 - 1),
            (x + 2, y - _MARK),
            (x - room - _MARK, y + LINE + 2),
            (x - room / 2, y - _MARK - 1),
        ):
            if left >= 0 and left + room <= width and LINE - _ABOVE <= base <= height:
                yield Label((x, y), left, base, room)


def _hidden(label: Label, taken: Sequence[Label], lines: Sequence[Curve]) -> int:
    """How much of lines and other names a name covers."""
    xs = np.arange(label.x, label.x + label.width, 3.0)
    crossed = sum(int(((label.y - LINE < y) & (y < label.y)).sum()) for line in lines for y in [np.interp(xs, *line)])
    near = sum(0 < abs(float(np.interp(label.at[0], *line)) - label.at[1]) < _MARK for line in lines)
    return crossed + 9 * near + 30 * sum(label.overlaps(other) for other in taken)


@dataclass(frozen=True)
class Tick:
    """A value on an axis. ``place``: share of the axis, in [0, 1]; ``line``: whether it crosses the chart."""

    place: float
    text: str
    line: bool = False


def without_collisions(ticks: Sequence[Tick], width: float) -> list[Tick]:
    """Those that have room beside the ones before them. ``ticks``: the more important ones first; each stands in the
    middle of its place, at the ends inside the axis. ``width``: of the axis in pixels."""
    kept: list[tuple[float, float, Tick]] = []
    for tick in ticks:
        room = _TICK_LETTER * len(tick.text)
        left = min(max(tick.place * width - room / 2, 0.0), width - room)
        if all(left >= end + _TICK_GAP or left + room <= start - _TICK_GAP for start, end, _ in kept):
            kept.append((left, left + room, tick))
    return [tick for _, _, tick in kept]
