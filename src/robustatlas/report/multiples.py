"""Small multiples: accuracy over strength for each attack, in the page before any script runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, axis_label, format_strength
from robustatlas.common.wording import MASKED, elide_middle, join_words, pluralise
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.step_curves import REACH, StepCurve
from robustatlas.report.words import line_in_words

WIDTH = 184.0
"""Pixels of the smallest chart, by which its ticks are chosen: on a larger one they have more room."""

NARROW = 125.0
"""Pixels of the smallest chart of a page with one run: two stand abreast on a telephone."""

_NAME = 18
_MOST_COLUMNS = {True: (5, 4), False: (4, 3)}
"""Charts abreast of one run, and of several."""

_TICK_LETTER, _TICK_GAP = 6.2, 5.0
"""Width of a letter of a tick, and the gap between two ticks, in pixels."""


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Tick:
    """A value on an axis. ``place``: share of the axis, in [0, 1]; ``line``: whether it crosses the chart."""

    place: float
    text: str
    line: bool = False

    @property
    def edge(self) -> str:
        """The end of the axis at which it stands; empty for neither."""
        return "first" if self.place == 0 else "last" if self.place * REACH > 1 - 1e-9 else ""


@dataclass(frozen=True)
class DrawnLine:
    """One run in a chart: paths as SVG writes them, in shares of 100 from the upper left corner; empty where not known.

    Attributes:
        series: its place among the runs of the page, from 1.
        found: the step curve of the robust accuracy.
        last: a dot at the last strength.
        typical: mean accuracy over draws.
        band: outline of the intervals, of one run without certificates.
        certified: the step curve below which nothing can be found.
        doubt: outline between both curves.
        mark: (x, y) of the model's marker; None where the chart has one run.
    """

    series: int
    found: str
    last: str
    typical: str
    band: str
    certified: str
    doubt: str
    mark: tuple[float, float] | None


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
    drawn = [
        _line(place, run, item, end, (rank / (len(known) + 1)) if len(runs) > 1 else None)
        for rank, (place, run, item) in enumerate(known, start=1)
    ]
    told = [line_in_words(run, item, len(runs) > 1) for _, run, item in known]
    return Panel(
        attack=attack,
        label=label,
        axis=unit,
        said=f"Robust accuracy under {label} over strength ({unit}). {' '.join(told)}",
        lines=tuple(drawn),
        ticks=tuple(fitting_ticks(_ticks(attack, end, distances), WIDTH if len(runs) > 1 else NARROW)),
        own_threat=any(item.own_threat for item in items),
        note="; ".join([*_masked(attack, [run for _, run, _ in known]), *_image_counts(known, apart)]),
    )


def _masked(attack: str, runs: Sequence[RunFacts]) -> list[str]:
    behind = [elide_middle(run.name, _NAME) for run in runs if masked_shares(run, [attack])]
    return [f"{join_words(behind)} {MASKED}"] if behind else []


def _image_counts(known: Sequence[tuple[int, RunFacts, AttackFacts]], apart: bool) -> list[str]:
    """Return the number of images of each line, where the lines stand apart."""
    return [
        join_words([f"{elide_middle(run.name, _NAME)} on {pluralise(run.samples, 'image')}" for _, run, _ in known])
    ] * apart


def _line(series: int, run: RunFacts, item: AttackFacts, end: float, marked: float | None) -> DrawnLine:
    """Draw a run in the chart of an attack that ends at `end`; ``marked``: share of its strengths at its marker."""
    assert item.curve is not None
    last, held = float(item.strengths[-1]), run.certified_under(item.attack)
    steps = StepCurve.from_curve(item.curve, item.strengths, last)
    xs, found = _across(steps.sizes, end), steps.error
    certified = doubt = typical = band = ""
    if held is not None:
        proved = StepCurve.from_curve(held.curve, np.array(held.strengths), last)
        least = (_across(proved.sizes, end), proved.error)
        certified, doubt = _path(*least), _outline((xs, found), least)
    elif marked is None:
        band = _outline((xs, steps.low), (xs, steps.high))
    if item.typical:
        cells = [run.clean, *item.typical]
        typical = _path(_across([0.0, *item.strengths], end), np.array([100 - cell.value for cell in cells]))
    at = None if marked is None else marked * last
    return DrawnLine(
        series=series,
        found=_path(xs, found),
        last=f"M{xs[-1]:.5g} {found[-1]:.4g}h.01",
        typical=typical,
        band=band,
        certified=certified,
        doubt=doubt,
        mark=None if at is None else (float(_across([at], end)[0]), steps.error_at(at)),
    )


def _across(sizes: ArrayLike, end: float) -> Floats:
    """Return places of sizes on the axis, from 0 to 100."""
    return np.asarray(sizes, dtype=np.float64) * 100 / (REACH * end)


def _path(xs: Floats, ys: Floats) -> str:
    """Return the path of a step curve: each y holds up to the next x."""
    steps = (f"H{x:.5g}V{y:.4g}" for x, y in zip(xs[1:].tolist(), ys[1:].tolist(), strict=True))
    return f"M{xs[0]:.5g} {ys[0]:.4g}{''.join(steps)}"


def _outline(upper: tuple[Floats, Floats], lower: tuple[Floats, Floats]) -> str:
    """Return the path around what lies between two step curves that end at the same x."""
    (xs, ys), back = lower, ""
    for x, y in zip(xs[-2::-1].tolist(), ys[-2::-1].tolist(), strict=True):
        back += f"V{y:.4g}H{x:.5g}"
    return f"{_path(*upper)}V{ys[-1]:.4g}{back}Z"


def _ticks(attack: str, end: float, distances: Mapping[str, float]) -> list[Tick]:
    ticks = [Tick(0.0, format_strength(0.0, attack=attack))]
    if attack in STANDARD_STRENGTHS and STANDARD_STRENGTHS[attack][0] < end:
        ticks.append(Tick(STANDARD_STRENGTHS[attack][0] / (REACH * end), STANDARD_STRENGTHS[attack][1], line=True))
    ticks.append(Tick(1 / REACH, format_strength(end, attack=attack)))
    if (distance := distances.get(attack)) and distance <= end:
        ticks.append(Tick(distance / (REACH * end), "classes", line=True))
    return ticks


def fitting_ticks(ticks: Sequence[Tick], width: float) -> list[Tick]:
    """Return the ticks that have room beside the ones before them.

    Args:
        ticks: the more important ones first; each stands in the middle of its place, at the ends inside the axis.
        width: of the axis in pixels.
    """
    kept: list[tuple[float, float, Tick]] = []
    for tick in ticks:
        room = _TICK_LETTER * len(tick.text)
        left = min(max(tick.place * width - room / 2, 0.0), width - room)
        if all(left >= end + _TICK_GAP or left + room <= start - _TICK_GAP for start, end, _ in kept):
            kept.append((left, left + room, tick))
    return [tick for _, _, tick in kept]
