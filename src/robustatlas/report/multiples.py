"""Small multiples: accuracy over strength for each attack, in the page before any script runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, axis_label, format_strength
from robustatlas.common.wording import MASKED, elide_middle, join_words, pluralise
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.labels import Curve, Label, Tick, placed, without_collisions
from robustatlas.report.words import line_in_words

WIDTH, HEIGHT = 184.0, 110.0
"""Pixels of the smallest chart, by which its words are placed: on a larger one they have more room."""

NARROW = 125.0
"""Likewise where a page has one run: two such charts stand abreast on a telephone."""

MOST_NAMED = 3
"""Runs whose lines bear their names, beside the legend; of more there is no room."""

_NAME = 18
_MOST_COLUMNS = {True: (5, 4), False: (4, 3)}
"""Charts abreast of one run, and of several, whose lines have names."""


@dataclass(frozen=True)
class DrawnLine:
    """One run in a chart, in shares of 100: x from the left, y from the top.

    Attributes:
        series: its place among the runs of the page, from 1.
        points: of the line, as SVG writes them.
        typical: points of the line of what is typical; empty where nothing was drawn.
        band: outline of the intervals; empty where the chart has several runs, or shows a doubt.
        certified: points of the line below which nothing can be found; empty where nothing is certified.
        doubt: outline of what lies between both lines.
        name: short; empty where the chart has one run, or a legend.
        label: the lower left corner of the name.
        marked: the point of the line beside which it stands.
    """

    series: int
    points: str
    typical: str
    band: str
    certified: str
    doubt: str
    name: str
    label: tuple[float, float]
    marked: tuple[float, float]


@dataclass(frozen=True)
class Panel:
    """One attack. ``said``: the chart in words, with its values. ``own_threat``: whether some run searched another
    threat model than the reference's. ``note``: what is to be known of its lines: that one is masked, or that they are
    not of the same images."""

    attack: str
    label: str
    axis: str
    said: str
    lines: tuple[DrawnLine, ...]
    ticks: tuple[Tick, ...]
    own_threat: bool
    note: str = ""


def panels(runs: Sequence[RunFacts], distances: Mapping[str, float], apart: bool = False) -> list[Panel]:
    """A panel for each attack that is known at every strength of some run. Each run keeps its colour and dash in all
    panels. ``distances``: attack -> smallest distance between images of different classes, where it is known.
    ``apart``: the attacks are not what all runs of the page share, so that each line is of its own images."""
    attacks = dict.fromkeys(a.attack for run in runs for a in run.attacks if a.accuracy)
    return [_panel(attack, runs, distances, apart) for attack in attacks]


def columns(count: int, alone: bool) -> int:
    """Charts abreast on a wide screen, so that the last row is as full as can be.

    >>> [columns(count, alone=False) for count in (1, 2, 5, 8, 9)]
    [1, 2, 3, 4, 3]
    """
    most = _MOST_COLUMNS[alone]
    return count if count <= most[0] else min(most, key=lambda abreast: -count % abreast)


def _panel(attack: str, runs: Sequence[RunFacts], distances: Mapping[str, float], apart: bool) -> Panel:
    known = [
        (place, run, item)
        for place, run in enumerate(runs, start=1)
        for item in run.attacks
        if item.attack == attack and item.accuracy
    ]
    items = [item for *_, item in known]
    end = max(float(item.strengths[-1]) for item in items)
    label, unit = attack_label(attack).label, axis_label(items[0].unit, attack=attack)
    entries = [(run.clean, *(item.accuracy or ())) for _, run, item in known]
    lines = [
        (np.array([0.0, *item.strengths.tolist()]) * 100 / end, np.array([100 - entry.value for entry in row]))
        for item, row in zip(items, entries, strict=True)
    ]
    named = _labelled(lines, [run.name for _, run, _ in known] if 1 < len(runs) <= MOST_NAMED else [])
    drawn = [
        DrawnLine(
            series=place,
            points=_points(*line),
            typical=_typical(run, item, line[0]),
            band=_band(line[0], row) if len(runs) == 1 and not run.certified_under(attack) else "",
            **_other_side(run, attack, *line),
            name=name,
            label=(at.x, at.y),
            marked=at.at,
        )
        for (place, run, item), line, row, (name, at) in zip(known, lines, entries, named, strict=True)
    ]
    told = [line_in_words(run, item, len(runs) > 1) for _, run, item in known]
    return Panel(
        attack=attack,
        label=label,
        axis=unit,
        said=f"Robust accuracy under {label} over strength ({unit}). {' '.join(told)}",
        lines=tuple(drawn),
        ticks=tuple(without_collisions(_ticks(attack, end, distances), WIDTH if len(runs) > 1 else NARROW)),
        own_threat=any(item.own_threat for item in items),
        note="; ".join([*_masked(attack, [run for _, run, _ in known]), *_of(known, apart)]),
    )


def _masked(attack: str, runs: Sequence[RunFacts]) -> list[str]:
    behind = [elide_middle(run.name, _NAME) for run in runs if masked(run, [attack])]
    return [f"{join_words(behind)} {MASKED}"] if behind else []


def _of(known: Sequence[tuple[int, RunFacts, AttackFacts]], apart: bool) -> list[str]:
    """Of what the lines are that stand apart."""
    return [
        join_words([f"{elide_middle(run.name, _NAME)} on {pluralise(run.samples, 'image')}" for _, run, _ in known])
    ] * apart


def _names(models: Sequence[str]) -> list[str]:
    """Short names of models, without the source that all of them share.

    >>> _names(["builtin:digits-linf", "builtin:digits-l2"]), _names(["a:mine", "b:mine"])
    (['digits-linf', 'digits-l2'], ['a:mine', 'b:mine'])
    """
    sources = {model[: max(model.rfind(":"), model.rfind("/")) + 1] for model in models}
    start = len(sources.pop()) if len(sources) == 1 else 0
    return [elide_middle(model[start:], _NAME) for model in models]


def _labelled(lines: Sequence[Curve], models: Sequence[str]) -> list[tuple[str, Label]]:
    """The names of the lines with their places, in shares of 100; nameless where there are none, or the lines are so
    near that names would cover each other."""
    names = _names(models) if models else []
    labels = _labels(lines, names) if names else []
    if not labels:
        return [("", Label((0, 0), 0, 0, 0))] * len(lines)
    return list(zip(names, labels, strict=True))


def _labels(lines: Sequence[Curve], names: Sequence[str]) -> list[Label]:
    """Places of the names, in shares of 100; none where they would cover each other."""
    pixels = [(x * WIDTH / 100, y * HEIGHT / 100) for x, y in lines]
    found = placed(pixels, names, WIDTH, HEIGHT)
    if any(one.overlaps(other) for one, other in combinations(found, 2)):
        return []
    across, down = 100 / WIDTH, 100 / HEIGHT
    return [
        Label((across * label.at[0], down * label.at[1]), across * label.x, down * label.y, label.width)
        for label in found
    ]


def _points(xs: NDArray[np.float64], ys: NDArray[np.float64]) -> str:
    return " ".join(f"{x:.5g},{y:.4g}" for x, y in zip(xs.tolist(), ys.tolist(), strict=True))


def _typical(run: RunFacts, item: AttackFacts, xs: NDArray[np.float64]) -> str:
    cells = (run.clean, *item.typical) if item.typical else ()
    return _points(xs, np.array([100 - cell.value for cell in cells])) if cells else ""


def _other_side(run: RunFacts, attack: str, xs: NDArray[np.float64], ys: NDArray[np.float64]) -> dict[str, str]:
    """What is certified at the strengths of the line, and the doubt between."""
    held = run.certified_under(attack)
    if held is None:
        return {"certified": "", "doubt": ""}
    least = np.array([ys[0], *(100 - entry.value for entry in held.accuracy)])
    return {"certified": _points(xs, least), "doubt": f"{_points(xs, ys)} {_points(xs[::-1], least[::-1])}"}


def _band(xs: NDArray[np.float64], entries: Sequence[Interval]) -> str:
    upper = np.array([100 - entry.high for entry in entries])
    lower = np.array([100 - entry.low for entry in entries])
    return f"{_points(xs, upper)} {_points(xs[::-1], lower[::-1])}"


def _ticks(attack: str, end: float, distances: Mapping[str, float]) -> list[Tick]:
    ticks = [Tick(0.0, format_strength(0.0, attack=attack))]
    if attack in STANDARD_STRENGTHS and STANDARD_STRENGTHS[attack][0] < end:
        ticks.append(Tick(STANDARD_STRENGTHS[attack][0] / end, STANDARD_STRENGTHS[attack][1], line=True))
    ticks.append(Tick(1.0, format_strength(end, attack=attack)))
    if (distance := distances.get(attack)) and distance <= end:
        ticks.append(Tick(distance / end, "classes", line=True))
    return ticks
