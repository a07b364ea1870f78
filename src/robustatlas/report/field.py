"""The field drawn: every entry at the one strength they share, and the run's own curve through all of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from robustatlas.common.escaping import html_text
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import label_masked
from robustatlas.report.facts.field import Beside
from robustatlas.report.pages import web_address

WIDTH, HEIGHT = 460, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 42, 12, 8, 34
_FARTHEST = 3
"""The picture ends at so many times the strength of the field."""


@dataclass(frozen=True)
class Neighbour:
    """A line of the table beside the picture; `own` is the run."""

    name: str
    url: str
    accuracy: str
    clean: str
    notes: str
    own: bool = False


@dataclass(frozen=True)
class FieldView:
    """A run beside the published models of a field, as a page shows it; `series` is its place among the models."""

    run: str
    series: int
    beside: Beside
    drawing: Markup
    rows: tuple[Neighbour, ...]


def views(name: str, found: Sequence[Beside], series: int = 1) -> list[FieldView]:
    """A run beside each field that it can stand beside; see `robustatlas.report.facts.field.field_places`.
    ``series``: its place among the models of the page, whose style it is drawn in."""
    return [FieldView(name, series, beside, _drawing(beside, series), _rows(name, beside)) for beside in found]


def _rows(name: str, beside: Beside) -> tuple[Neighbour, ...]:
    note = label_masked("your run", beside.masked)
    number, entries = beside.accuracy, beside.neighbours
    said = f"{number.value:.1f} ({number.low:.1f} to {number.high:.1f})"
    own = Neighbour(name, "", said, f"{beside.clean.value:.1f}", note, own=True)
    above = sum(beside.masked != {} or entry.accuracy >= number.value for entry in entries)
    rows = [
        Neighbour(e.name, web_address(e.url), f"{e.accuracy:.2f}", f"{e.clean:.2f}", " ".join(e.notes)) for e in entries
    ]
    return (*rows[:above], own, *rows[above:])


def _drawing(beside: Beside, series: int) -> Markup:
    end = _FARTHEST * beside.field.epsilon
    at = _x(beside.field.epsilon, end)
    shapes = [Markup('<path class="frame" d="M{} {}V{}H{}"/>').format(_LEFT, _TOP, HEIGHT - _BOTTOM, WIDTH - _RIGHT)]
    for level in (0, 50, 100):
        shapes.append(_text(_LEFT - 4, _y(level) + 4, f"{level}%", "end"))
    for entry in beside.field.entries:
        elsewhere = entry.evaluated_at is not None
        here = _x(entry.evaluated_at if entry.evaluated_at is not None else beside.field.epsilon, end)
        kind = "entry other" if elsewhere or entry.unreliable else "entry"
        dot = Markup('<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="3"/>')
        shapes.append(dot.format(kind, here, _y(entry.accuracy)))
    if beside.curve is not None:
        sizes = np.linspace(0, end, 121)
        points = zip(sizes.tolist(), beside.curve.robust_accuracy(sizes).tolist(), strict=True)
        drawn = " ".join(f"{_x(size, end):.1f},{_y(accuracy):.1f}" for size, accuracy in points)
        shapes.append(Markup('<polyline class="series-{}" points="{}"/>').format(series, drawn))
        first, last = (format_strength(edge, attack=beside.field.attack) for edge in (0.0, end))
        shapes += [_text(_LEFT, HEIGHT - 20, first, "middle"), _text(WIDTH - _RIGHT, HEIGHT - 20, last, "end")]
    number = beside.accuracy
    whisker = Markup('<path class="whisker series-{}" d="M{:.1f} {:.1f}V{:.1f}"/>')
    shapes.append(whisker.format(series, at, _y(number.low), _y(number.high)))
    square = Markup('<rect class="own series-{}" x="{:.1f}" y="{:.1f}" width="9" height="9"/>')
    shapes.append(square.format(series, at - 4.5, _y(number.value) - 4.5))
    shapes += [_text(at, HEIGHT - 20, beside.point, "middle"), _text(_LEFT, HEIGHT - 4, _UNDER, "start")]
    return Markup('<svg class="field" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, html_text(beside.sentence), Markup("").join(shapes)
    )


_UNDER = "accuracy; dots: entries (open: other strength, or doubted); square: this run"


def _x(value: float, end: float) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * min(value / end, 1)


def _y(accuracy: float) -> float:
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - accuracy / 100)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, html_text(text))
