"""Small multiples: accuracy over strength for each attack, drawn as the page is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from robustatlas.facts.run import AttackFacts, RunFacts
from robustatlas.facts.standard import STANDARD
from robustatlas.wording import axis, strength, wording

WIDTH, HEIGHT = 220, 106
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 6, 8, 18


@dataclass(frozen=True)
class Panel:
    """One attack: its label, what its strengths measure, the drawing, the scale marks in it in words, and whether some
    run searched another set than the reference's."""

    label: str
    axis: str
    drawing: Markup
    marks: str
    own_set: bool


def panels(runs: Sequence[RunFacts], distances: Mapping[str, float]) -> list[Panel]:
    """A panel for each attack that is known at every strength of some run.

    Args:
        runs: each keeps its colour in all panels.
        distances: attack -> smallest distance between images of different classes, where it is known.
    """
    attacks = dict.fromkeys(a.attack for run in runs for a in run.attacks if a.accuracy)
    return [_panel(attack, runs, distances) for attack in attacks]


def _panel(attack: str, runs: Sequence[RunFacts], distances: Mapping[str, float]) -> Panel:
    found = [next((a for a in run.attacks if a.attack == attack and a.accuracy), None) for run in runs]
    end = max(float(item.strengths[-1]) for item in found if item)
    unit = next(item.unit for item in found if item)
    marks = _marks(attack, end, distances)
    shapes = [Markup('<path class="frame" d="M{} {}V{}H{}"/>').format(_LEFT, _TOP, HEIGHT - _BOTTOM, WIDTH - _RIGHT)]
    for level in (0, 50, 100):
        shapes.append(_text(_LEFT - 4, _y(level) + 4, f"{level}%", "end"))
    shapes += [_text(_LEFT, HEIGHT - 4, "0", "middle"), _text(WIDTH - _RIGHT, HEIGHT - 4, strength(end), "end")]
    for value, written in marks:
        x = _x(value, end)
        shapes.append(Markup('<path class="mark" d="M{:.1f} {}V{}"/>').format(x, _TOP, HEIGHT - _BOTTOM))
        shapes.append(_text(x, HEIGHT - 4, written, "middle"))
    for position, (run, item) in enumerate(zip(runs, found, strict=True), start=1):
        if item:
            shapes += _line(run, item, end, position, len(runs) == 1)
    label = wording(attack).label
    drawing = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        WIDTH, HEIGHT, f"Accuracy over strength under {label}", Markup("").join(shapes)
    )
    return Panel(
        label,
        axis(unit),
        drawing,
        ", ".join(written for _, written in marks),
        any(item.own_set for item in found if item),
    )


def _line(run: RunFacts, item: AttackFacts, end: float, position: int, band: bool) -> list[Markup]:
    cells = [run.clean, *(item.accuracy or ())]
    xs = [_x(value, end) for value in (0.0, *item.strengths.tolist())]
    points = " ".join(f"{x:.1f},{_y(cell.value):.1f}" for x, cell in zip(xs, cells, strict=True))
    line = Markup('<polyline class="series-{}" points="{}"/>').format(position, points)
    if not band:
        return [line]
    edge = [f"{x:.1f},{_y(cell.high):.1f}" for x, cell in zip(xs, cells, strict=True)]
    edge += [f"{x:.1f},{_y(cell.low):.1f}" for x, cell in zip(reversed(xs), reversed(cells), strict=True)]
    return [Markup('<polygon class="band" points="{}"/>').format(" ".join(edge)), line]


def _marks(attack: str, end: float, distances: Mapping[str, float]) -> list[tuple[float, str]]:
    marks = []
    if attack in STANDARD and 0.08 * end < STANDARD[attack][0] < 0.85 * end:
        marks.append(STANDARD[attack])
    if (distance := distances.get(attack)) and distance <= end:
        marks.append((distance, "classes"))
    return marks


def _x(value: float, end: float) -> float:
    return _LEFT + (WIDTH - _LEFT - _RIGHT) * value / end


def _y(accuracy: float) -> float:
    return _TOP + (HEIGHT - _TOP - _BOTTOM) * (1 - accuracy / 100)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>').format(x, y, anchor, text)
