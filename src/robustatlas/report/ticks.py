"""Ticks of a small axis that never cover each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_LETTER, _GAP = 6.2, 5.0


@dataclass(frozen=True)
class Tick:
    """A value on an axis.

    Attributes:
        place: share of the axis, in [0, 1].
        line: whether a line marks it across the chart.
    """

    place: float
    text: str
    line: bool = False


def without_collisions(ticks: Sequence[Tick], width: float) -> list[Tick]:
    """Those that have room beside the ones before them.

    Args:
        ticks: the more important ones first; each stands in the middle of its place, at the ends inside the axis.
        width: of the axis in pixels.

    Example:
        >>> [tick.text for tick in without_collisions([Tick(0, "0"), Tick(0.03, "8/255"), Tick(1, "1")], 200)]
        ['0', '1']
    """
    kept: list[tuple[float, float, Tick]] = []
    for tick in ticks:
        room = _LETTER * len(tick.text)
        left = min(max(tick.place * width - room / 2, 0.0), width - room)
        if all(left >= end + _GAP or left + room <= start - _GAP for start, end, _ in kept):
            kept.append((left, left + room, tick))
    return [tick for _, _, tick in kept]
