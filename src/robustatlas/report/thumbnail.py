"""The robustness card of a row of the board: its strips alone, small enough for a cell of a table."""

from collections import defaultdict
from itertools import groupby

from markupsafe import Markup

from robustatlas.metrics.references.reference import Reference
from robustatlas.report.card import colour_of
from robustatlas.report.facts.card import row_strips
from robustatlas.report.facts.rows import Row
from robustatlas.report.facts.strips import CELLS, Strip

WIDTH = 96
"""Pixels: two for each of the cells of a strip."""

_STRIP, _GAP = 4, 1
_SHADES = 10
"""Accuracies are drawn in steps of so many percent, which keeps a board of many rows small."""


def row_card(row: Row, reference: Reference, compared: bool = True) -> Markup:
    """The card of a row as SVG, with words for those who do not see it. ``reference``: of the board; its ranked attacks
    have a strip each, at the same height in every row. ``compared``: whether it is one, or that of
    `robustatlas.report.facts.rows.Ground`. Returns a picture 96 pixels wide and 5 high for each attack, with its own
    white ground."""
    strips = row_strips(row, reference, compared)
    height = len(strips) * (_STRIP + _GAP) + _GAP
    said = "; ".join(strip.words for strip in strips if strip)
    head = Markup(
        '<svg class="row-card" viewBox="0 0 {0} {1}" width="{0}" height="{1}" role="img" aria-label="{2}">'
    ).format(WIDTH, height, said or "none of the ranked attacks")
    ground = Markup('<path fill="#ffffff" d="M0 0h{}v{}h-{}z"/>').format(WIDTH, height, WIDTH)
    return head + ground + _shaded(strips) + _marked(strips) + Markup("</svg>")


def _top(place: int) -> int:
    return _GAP + place * (_STRIP + _GAP)


def _shaded(strips: tuple[Strip | None, ...]) -> Markup:
    paths: dict[int, list[str]] = defaultdict(list)
    for place, strip in enumerate(strips):
        left = 0
        for step, alike in groupby(strip.shades if strip else (), key=_step):
            cells = len(list(alike))
            if step is not None:
                width = cells * WIDTH // CELLS
                paths[step].append(f"M{left} {_top(place)}h{width}v{_STRIP}h-{width}z")
            left += cells * WIDTH // CELLS
    return Markup("").join(
        Markup('<path fill="{}" d="{}"/>').format(colour_of(step * _SHADES), "".join(drawn))
        for step, drawn in sorted(paths.items())
    )


def _marked(strips: tuple[Strip | None, ...]) -> Markup:
    """Bars where half of the clean accuracy is left, on white; the reference's place; lines below what is proved."""
    white, ink = [], []
    for place, strip in enumerate(strips):
        if strip is None:
            continue
        if strip.certified is not None:
            ink.append(f"M0 {_top(place) + _STRIP}h{strip.certified * WIDTH:.0f}v1h-{strip.certified * WIDTH:.0f}z")
        if strip.tick is not None:
            x = min(max(strip.tick * WIDTH, 1.5), WIDTH - 1.5)
            white.append(f"M{x - 1.5:.1f} {_top(place)}h3v{_STRIP}h-3z")
            ink.append(f"M{x - 0.75:.1f} {_top(place)}h1.5v{_STRIP}h-1.5z")
    compared = next((strip.reference for strip in strips if strip and strip.reference is not None), None)
    line = (
        f'<path stroke="#14171a" stroke-dasharray="1 2" d="M{compared * WIDTH:.0f} 0v99"/>'
        if compared is not None
        else ""
    )
    bars = f'<path fill="#ffffff" d="{"".join(white)}"/><path fill="#14171a" d="{"".join(ink)}"/>'
    return Markup(line + bars)  # numbers only


def _step(shade: float | None) -> int | None:
    return None if shade is None else round(shade / _SHADES)
