"""The robustness card as a picture of one format, 3.3 inches wide: for READMEs, papers, pages and notebooks."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.escaping import html_text, visible_text
from robustatlas.common.files import parse_path, picture_kind, write_text
from robustatlas.common.typed_strengths import (
    falling_scale_start,
    format_size,
    format_strength,
    range_words,
    word_beyond,
)
from robustatlas.common.wording import MARK, MASKED, add_mark, elide_middle, pluralise
from robustatlas.metrics.figures.paper import COLUMN, save_figure
from robustatlas.metrics.references.reference import Reference
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts, facts_of
from robustatlas.report.numbers.against import choose_reference
from robustatlas.report.numbers.number import Number
from robustatlas.report.numbers.texts import number_text, range_text, status_text, value_text
from robustatlas.report.step_curves import StepCurve
from robustatlas.results.result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH = 72 * COLUMN
"""Width of a card; lengths here are in points."""

_SMALL, _TITLE, _LARGE = 7.5, 9.5, 12.0
"""Sizes of letters; on pages, which scale the card up, the small ones have 11 pixels."""

_EDGE, _LINE, _ROW, _CURVE = 7.0, 10.5, 16.5, 12.5
_MOST_ROWS = 12
"""Attacks that a card shows, so that it fits beside a text; it counts the others."""

_LEFT, _RIGHT = 72.0, 158.0
"""Ends of the curves."""

_PAPER, _INK, _SOFT, _FAINT, _FILL, _PROVED = "#ffffff", "#14171a", "#565c63", "#c9cdd1", "#a9cfcf", "#0a4d56"
_DARK = {
    _PAPER: "#16191d",
    _INK: "#eceef0",
    _SOFT: "#a9b0b8",
    _FAINT: "#454c54",
    _FILL: "#2a6268",
    _PROVED: "#9adfe4",
}
"""Colour on white -> colour where the screen is dark."""

_READING = "Curve: up to the last strength. Bar: median, interval."

_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


@dataclass(frozen=True)
class RobustnessCard:
    """The card of one or several runs: a picture in notebooks, words where it is printed, a file by `save`."""

    runs: tuple[RunFacts, ...]

    def figure(self) -> Figure:
        """Return the cards below each other, as a figure of matplotlib."""
        heights = [_card_height(run) for run in self.runs]
        figure = Figure(figsize=(COLUMN, sum(heights) / 72), facecolor=_PAPER)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axis("off")
        axes.set(xlim=(0, WIDTH), ylim=(sum(heights), 0))
        for place, run in enumerate(self.runs):
            _draw_card(axes, run, sum(heights[:place]))
        return figure

    def svg(self) -> str:
        """Return the picture as SVG: light, or dark where the screen is."""
        file = io.StringIO()
        with mpl.rc_context({"svg.fonttype": "none"}), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # text stays text: its reader has the letters
            self.figure().savefig(file, format="svg", metadata=_NO_METADATA)
        body = re.sub(r"<defs>\s*<style.*?</defs>", "", file.getvalue().partition("<svg")[2], count=1, flags=re.DOTALL)
        body = re.sub(r' id="[^"]*"', "", body)  # a page with several cards would have each twice
        head = Markup('<svg class="card-picture" role="img" aria-label="{}"').format(html_text(str(self)))
        return f"{head}{body.replace('>', f'>{_style_sheet()}', 1).rstrip()}"

    def save(self, path: str | Path) -> Path:
        """Write the picture, whole or not at all.

        Args:
            path: a name that ends in .svg, .png or .pdf.

        Returns:
            the path.

        Raises:
            UserError: another kind of file, or one that cannot be written.
        """
        target = parse_path(path)
        if picture_kind(target) == "svg":
            write_text(target, self.svg() + "\n")
        else:
            save_figure(self.figure(), target)
        return target

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return "\n".join(map(_words, self.runs))


def card(
    results: Result | Sequence[Result],
    reference: Reference | str | None = None,
    facts: Sequence[RunFacts] | None = None,
) -> RobustnessCard:
    """Draw the robustness card of a run, or those of several runs below each other; it can also be read as words.

    Args:
        results: the run or the runs.
        reference: acc* that gives the rank among published defenses, or its name or file; ``"none"`` for none, None
            for the shipped one that fits, if one does.
        facts: facts of each run, if they are computed already.

    Returns:
        a picture in notebooks, words where it is printed; ``.save("card.svg")`` writes SVG, PNG or PDF.

    Example:
        >>> result = Result.from_arrays([0, 0], [0, 0], {"linf": [0.1, 0.3]}, {"linf": [0.2, 0.4]}, model="mine")
        >>> str(card(result)).partition(";")[0]
        'Robustness card of mine on 2 images of arrays: clean accuracy 100.0% (15.8 to 100.0)'
    """
    runs = [results] if isinstance(results, Result) else results
    chosen = reference if isinstance(reference, Reference) else choose_reference(reference, runs)
    return RobustnessCard(tuple(facts or [facts_of(result, reference=chosen) for result in runs]))


def _words(run: RunFacts) -> str:
    """Return the whole card in words, for people who do not see it."""
    first = run.headline
    known = "no attack was searched at every strength"
    if first:
        name = first.explained() if first.is_mean else first.abbreviated_name
        known = f"{name} {number_text(first.leading, unit='%')}"
    attacks = [f"{attack_label(attack.attack).label}: {_median_words(attack.median)}" for attack in run.attacks]
    proved = [
        f"{attack_label(attack).label}: half proved {range_words(attack)} {format_size(half, attack=attack)}"
        for attack, half in _proved_halves(run).items()
    ]
    parts = [f"clean accuracy {number_text(run.clean, unit='%')}", known, _rank(run), *attacks, *proved]
    return f"Robustness card of {run.name} on {_scope(run)}: {'; '.join(filter(None, parts))}."


def _median_words(median: Number) -> str:
    ends = [format_size(end, attack=median.attack) for end in (median.value, median.low, median.high)]
    status = status_text(median)
    return f"median size {ends[0]} ({ends[1]} to {ends[2]}{f'; {status}' if status else ''})"


def _scope(run: RunFacts) -> str:
    return f"{pluralise(run.samples, 'image')} of {run.data}"


def _rank(run: RunFacts) -> str:
    """Return the rank among published defenses; empty without a reference that has every attack of the rank."""
    against = run.reference
    if against is None or against.place is None or against.held.doubts:
        return ""
    return against.place.words(against.held.approximate)


def _note(run: RunFacts) -> str:
    """Return the status of the headline with its reason, or else the rank among published defenses."""
    if run.headline and (status := status_text(run.headline.leading)):
        return ", ".join(filter(None, [status, run.headline.leading.why]))
    return _rank(run)


def _proved_halves(run: RunFacts) -> dict[str, float]:
    """Return attack -> size up to which half of the clean accuracy is proved of the model itself."""
    return {facts.row: facts.half for facts in run.certified if not facts.held.of and facts.half > 0}


def _rows(run: RunFacts) -> list[str]:
    """Return the attacks of a card: those that were run, then those that were only certified."""
    return list(dict.fromkeys([*(attack.attack for attack in run.attacks), *_proved_halves(run)]))


def _marks_line(run: RunFacts) -> str:
    """Return how to read the marks that not every card has, and the number of attacks that have no row."""
    hidden = len(_rows(run)) - _MOST_ROWS
    marked = f"{MARK}: {MASKED}." if masked_shares(run, [attack.attack for attack in run.attacks]) else ""
    proved = "Thick line: half is proved." if _proved_halves(run) else ""
    others = f"{pluralise(hidden, 'more attack')}." if hidden > 0 else ""
    return " ".join(filter(None, [proved, marked, others]))


def _card_height(run: RunFacts) -> float:
    lines = [_note(run), _marks_line(run), _READING]
    return 78.0 + _LINE * sum(map(bool, lines)) + _ROW * len(_rows(run)[:_MOST_ROWS])


def _draw_card(axes: Axes, run: RunFacts, top: float) -> None:
    """Draw one card whose upper edge is at `top`."""
    whole, half = WIDTH - 2 * _EDGE, WIDTH / 2 - _EDGE - 3
    _write(axes, _EDGE, top + 15, run.name, whole, _TITLE, bold=True)
    _write(axes, _EDGE, top + 26, _scope(run), whole, colour=_SOFT)
    if run.headline:
        _draw_number(axes, _EDGE, top + 44, run.headline.leading, run.headline.abbreviated_name, half)
    _draw_number(axes, WIDTH / 2 + 3, top + 44, run.clean, "clean accuracy", half)
    at = top + 66.0
    if note := _note(run):
        _write(axes, _EDGE, at, note, whole, colour=_SOFT)
        at += _LINE
    _write(axes, _LEFT, at + 3, "robust accuracy", _RIGHT - _LEFT, colour=_SOFT)
    _write(axes, WIDTH - _EDGE, at + 3, "median size of last", WIDTH - _EDGE - _RIGHT, colour=_SOFT, align="right")
    proved, known = _proved_halves(run), {attack.attack: attack for attack in run.attacks}
    for place, name in enumerate(_rows(run)[:_MOST_ROWS]):
        _draw_row(axes, run, name, known.get(name), proved.get(name, 0.0), at + 8 + _ROW * place)
    end = at + 18 + _ROW * len(_rows(run)[:_MOST_ROWS])
    _write(axes, _EDGE, end, _READING, whole, colour=_SOFT)
    _write(axes, _EDGE, end + _LINE, _marks_line(run), whole, colour=_SOFT)
    edge = top + 0.5, top + _card_height(run) - 0.5
    axes.plot(
        [0.5, WIDTH - 0.5, WIDTH - 0.5, 0.5, 0.5],
        [edge[0], edge[0], edge[1], edge[1], edge[0]],
        _FAINT,
        lw=0.7,
        clip_on=False,
    )


def _draw_number(axes: Axes, x: float, y: float, number: Number, name: str, width: float) -> None:
    """Write a number in large letters, its interval beside it, and its name below."""
    value = value_text(number, unit="%")
    _write(axes, x, y, value, width, _LARGE, bold=True)
    taken = _text_width(value, _LARGE, bold=True) + 4
    _write(axes, x + taken, y, range_text(number), width - taken)
    _write(axes, x, y + _LINE, name, width, colour=_SOFT)


def _draw_row(axes: Axes, run: RunFacts, name: str, attack: AttackFacts | None, proved: float, top: float) -> None:
    """Draw the curve of an attack up to its last strength, with its median size and what is proved; both in words."""
    base, text = top + _CURVE, top + _CURVE - 4
    label = add_mark(attack_label(name).label, masked_shares(run, [name]) if attack else {})
    _write(axes, _EDGE, text, label, _LEFT - _EDGE - 4)
    certified = next((held.strengths for held in run.certified if held.row == name), ())
    last = float(attack.strengths[-1]) if attack else max(certified)

    def x(size: float) -> float:
        return _LEFT + min(size / last, 1.0) * (_RIGHT - _LEFT)

    axes.plot([_LEFT, _RIGHT], [base, base], _FAINT, lw=0.7, clip_on=False)
    if attack and attack.curve:
        steps = StepCurve.from_curve(attack.curve.distance_curve, attack.strengths, last)
        heights = (
            np.round(_CURVE * (1 - steps.error / 100) * 4) / 4
        )  # in quarters of a point, as finer steps are not seen
        kept = np.flatnonzero(np.diff(heights, prepend=np.nan))
        sizes = [*[round(x(size), 1) for size in steps.sizes[kept] for _ in range(2)][1:], _RIGHT]
        tops = (base - np.repeat(heights[kept], 2)).tolist()
        axes.fill([_LEFT, *sizes, _RIGHT], [base, *tops, base], _FILL, linewidth=0, clip_on=False)
    if proved > 0:
        axes.plot([_LEFT, x(proved)], [base, base], _PROVED, lw=2.2, solid_capstyle="butt", clip_on=False)
    if attack is None:
        _write(axes, WIDTH - _EDGE, text, "not attacked", WIDTH - _EDGE - _RIGHT - 4, align="right")
        return
    median, middle = attack.median, base - _CURVE / 2
    axes.plot([x(median.low), x(median.high)], [middle, middle], _INK, lw=0.9, solid_capstyle="butt", clip_on=False)
    if median.value <= last:
        axes.plot([x(median.value)] * 2, [base, top], _INK, lw=1.6, solid_capstyle="butt", clip_on=False)
    _write(axes, WIDTH - _EDGE, text, _median_of_last(median, last), WIDTH - _EDGE - _RIGHT - 4, align="right")


def _median_of_last(median: Number, last: float) -> str:
    """Return the median size beside the last strength, or that it is beyond that one."""
    attack, end = median.attack, format_strength(last, 3, attack=median.attack)
    if median.value > last:
        return f"{word_beyond(attack)} {end}"
    size, falls = format_size(median.value, attack=attack), falling_scale_start(attack) is not None
    return f"{size}, {range_words(attack)} {end}" if falls else f"{size} of {end}"


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    width: float,
    size: float = _SMALL,
    colour: str = _INK,
    align: Literal["left", "right"] = "left",
    bold: bool = False,
) -> None:
    """Write one line that is at most `width` wide; the middle of a longer text is left out."""
    shown = visible_text(text)
    letters = len(shown)
    while letters > 1 and _text_width(shown, size, bold) > width:
        letters -= 1
        shown = elide_middle(visible_text(text), letters)
    weight = "bold" if bold else "normal"
    axes.text(x, y, shown, fontsize=size, color=colour, ha=align, va="baseline", fontweight=weight, parse_math=False)


def _text_width(text: str, size: float, bold: bool = False) -> float:
    font = FontProperties(size=size, weight="bold" if bold else "normal")
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0])


def _style_sheet() -> str:
    """Return the colours for browsers, light or dark as the page is; other programs read the colours on white."""
    rules = "".join(
        f'.card-picture [style*="{kind}: {light}"]{{{kind}:light-dark({light},{dark})!important}}'
        for light, dark in _DARK.items()
        for kind in ("fill", "stroke")
    )
    paper = f".card-picture{{background:light-dark({_PAPER},{_DARK[_PAPER]})}}"
    return f"<style>.card-picture:root{{color-scheme:light dark}}{paper}{rules}</style>"
