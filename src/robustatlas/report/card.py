"""The robustness card as a picture of one format, 3.3 inches wide: for READMEs, papers, pages and notebooks."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import wrap

from robustatlas.common.files import parse_path, picture_kind, write_text
from robustatlas.common.typed_strengths import (
    falling_scale_start,
    format_size,
    format_strength,
    range_words,
    word_beyond,
)
from robustatlas.common.wording import MARK, MASKED, add_mark, elide_middle
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.reference import Reference
from robustatlas.report.facts.card import ResultCard, card_of
from robustatlas.report.facts.run import RunFacts, facts_of
from robustatlas.report.facts.strips import CELLS, Strip
from robustatlas.report.numbers.against import choose_reference
from robustatlas.report.shapes import Anchor, Box, Diamond, Picture, Shape, Stroke, Words, figure_of, stacked, svg_of
from robustatlas.results.result import Result

WIDTH = 330.0
_TEXT = 11.0
"""Size of the smallest words, in hundredths of an inch, and in pixels where the card is as wide as on pages."""
_LETTER = 0.56 * _TEXT
"""Width of a letter, on average."""
_EDGE, _STRIP, _GAP = 8.0, 13.0, 5.0
_LINE_LETTERS = 52
"""Letters of a line below the strips."""
_LABELS, _SIZES = 16, 17
"""Letters of the name of an attack, and of the sizes at the right, for which there is room."""
_LEFT, _RIGHT = _EDGE + _LABELS * _LETTER, WIDTH - _EDGE - _SIZES * _LETTER
_TOP = 70.0
_PROVED, _GAP_PROVED = 2.6, 1.0
_INK, _SOFT, _LINE = "#14171a", "#565c63", "#b9b5aa"
_ON_WHITE = (("#ffffff", 3.4), (_INK, 1.4))
_SHADES = ((247, 245, 239), (169, 207, 207), (61, 143, 150), (10, 77, 86), (4, 38, 44))
"""From 0 to 100 %, monotone in lightness: the order shows in grey, and to the colour-blind."""


@dataclass(frozen=True)
class RobustnessCard:
    """The card of one or several runs: a picture in notebooks, words where it is printed, a file by `save`."""

    cards: tuple[ResultCard, ...]

    @property
    def picture(self) -> Picture:
        """The shapes of all cards, below each other."""
        return stacked([picture_of(card) for card in self.cards])

    def svg(self) -> str:
        """The picture as SVG."""
        return str(svg_of(self.picture))

    def save(self, path: str | Path) -> Path:
        """Write the picture, whole or not at all.

        Args:
            path: a name that ends in .svg, .png or .pdf.

        Returns:
            the path.

        Raises:
            UserError: another kind of file, or one that cannot be written.
        """
        from robustatlas.metrics.figures.paper import save_figure

        target = parse_path(path)
        if picture_kind(target) == "svg":
            write_text(target, self.svg() + "\n")
        else:
            save_figure(figure_of(self.picture), target)
        return target

    def _repr_svg_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        return "\n".join(card.words for card in self.cards)


def card(
    results: Result | Sequence[Result],
    reference: Reference | str | None = None,
    facts: Sequence[RunFacts] | None = None,
) -> RobustnessCard:
    """Draw the robustness card of a run, or those of several runs below each other; it can also be read as words.

    Args:
        results: the run or the runs.
        reference: acc* that scales the strengths and gives the competitiveness ratio, or its name or file; ``"none"``
            for none, None for the shipped one that fits, if one does.
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
    known = facts or [facts_of(result, reference=chosen) for result in runs]
    return RobustnessCard(tuple(card_of(result, of, chosen) for result, of in zip(runs, known, strict=True)))


def picture_of(card: ResultCard) -> Picture:
    """The shapes of a card."""
    bottom = _TOP + len(card.strips) * (_STRIP + _GAP)
    shapes = [*_head(card)]
    for row, strip in enumerate(card.strips):
        shapes += _strip(strip, _TOP + row * (_STRIP + _GAP))
    shapes += _axis(card, bottom)
    height = bottom + 13.0 + _TEXT * 1.2 * len(_legend(card))
    frame = [Box(0.5, 0.5, WIDTH - 1, height - 1, "none", _LINE)]
    return Picture(WIDTH, height, (*frame, *shapes), card.words)


def _head(card: ResultCard) -> list[Shape]:
    scope = f"{card.scope}; {card.place}" if card.place else card.scope
    shapes: list[Shape] = [Words(_EDGE, 18, card.title, 13, _INK, bold=True), Words(_EDGE, 32, scope, _TEXT, _SOFT)]
    shapes += _number(_EDGE, "start", card.clean, "clean accuracy")
    if card.score:
        shapes += _number(WIDTH - _EDGE, "end", card.score, card.score_name)
    return shapes


def _number(x: float, anchor: Anchor, number: Interval, name: str) -> list[Shape]:
    said = f"{number.value:.1f}% ({number.low:.1f} to {number.high:.1f})"
    return [Words(x, 48, said, 12, _INK, anchor, bold=True), Words(x, 60.5, name, _TEXT, _SOFT, anchor)]


def _strip(strip: Strip, top: float) -> list[Shape]:
    middle, end = top + _STRIP / 2, top + _STRIP
    room = _LABELS - 2 * strip.own_threat - 2 * strip.masked
    label = elide_middle(strip.label, room)
    label = add_mark(f"≈ {label}" if strip.own_threat else label, strip.masked)
    shapes: list[Shape] = [Words(_LEFT - 5, middle + 4, label, _TEXT, _INK, "end")]
    shapes.append(Words(WIDTH - _EDGE, middle + 4, _sizes(strip), _TEXT, _INK, "end"))
    shapes += _shaded(strip, top, _STRIP if strip.certified is None else _STRIP - _PROVED - _GAP_PROVED)
    if strip.certified is not None:
        shapes.append(Box(_LEFT, end - _PROVED, strip.certified * (_RIGHT - _LEFT), _PROVED, _INK))
    if strip.reference is not None:
        shapes.append(Diamond(_x(strip.reference), middle, 4.2, _INK))
        if strip.beyond:
            shapes.append(Words(_x(strip.reference) + 5, middle + 3.4, "›", 11, _INK, bold=True))
    return shapes + (_half(strip, top) if strip.searched else [])


def _sizes(strip: Strip) -> str:
    """Return where the clean accuracy is halved, of the last strength, in the attack's own unit."""
    last = format_strength(strip.last, 3, attack=strip.attack)
    if not strip.searched:
        return f"{range_words(strip.attack)} {last}"
    within = strip.halved <= strip.last
    if not within:
        return f"{word_beyond(strip.attack)} {last}"
    halved = format_size(strip.halved, attack=strip.attack)
    return (
        f"{halved} of {last}"
        if falling_scale_start(strip.attack) is None
        else f"{halved}, {range_words(strip.attack)} {last}"
    )


def _shaded(strip: Strip, top: float, height: float) -> list[Shape]:
    """The strip itself; a line where nothing was searched."""
    width, middle = (_RIGHT - _LEFT) / CELLS, top + height / 2
    shapes: list[Shape] = []
    cell = 0
    for shade, alike in groupby(strip.shades):
        left, cell = _LEFT + cell * width, cell + len(list(alike))
        right = _LEFT + cell * width
        if shade is None:
            shapes.append(Stroke(left, middle, right, middle, _LINE, 0.8))
        else:
            shapes.append(Box(left, top, right - left + 0.15, height, colour_of(shade)))
    return shapes


def _half(strip: Strip, top: float) -> list[Shape]:
    """Draw where half of the clean accuracy is left, with its interval; on white, it stands out from every shade."""
    middle, end = top + _STRIP / 2, top + _STRIP
    low, high = _x(strip.low), _x(strip.high)
    shapes: list[Shape] = [Stroke(low, middle, high, middle, colour, width) for colour, width in _ON_WHITE]
    if strip.tick is None:
        return shapes
    x = _x(strip.tick)
    return [*shapes, *(Stroke(x, top - 1.5, x, end + 1.5, colour, width + 0.9) for colour, width in _ON_WHITE)]


def _axis(card: ResultCard, top: float) -> list[Shape]:
    compared = any(strip.reference is not None for strip in card.strips)
    half, whole = ("1", "2") if compared else ("½", "1")
    shapes: list[Shape] = [
        Words(_x(0), top + 7, "0", _TEXT, _SOFT, "start"),
        Words(_x(0.5), top + 7, half, _TEXT, _SOFT, "middle"),
        Words(_x(1), top + 7, whole, _TEXT, _SOFT, "end"),
    ]
    for line, text in enumerate(_legend(card)):
        shapes.append(Words(_EDGE, top + 21 + 1.2 * _TEXT * line, text, _TEXT, _SOFT))
    return shapes


def _legend(card: ResultCard) -> list[str]:
    marks = ["dark: 100% correct; bar: clean accuracy halved,", "with interval; right: where, of the last strength"]
    more = ["line below: half proved"] if any(strip.certified is not None for strip in card.strips) else []
    more += ["≈: not the reference's threat model"] if any(strip.own_threat for strip in card.strips) else []
    more += [f"{MARK}: {MASKED}, as the gradient misleads"] if any(strip.masked for strip in card.strips) else []
    more += [f"{card.others} more attacks not shown"] if card.others else []
    return [
        *wrap(card.score_over, _LINE_LETTERS),
        *wrap(card.axis, _LINE_LETTERS),
        *marks,
        *(["; ".join(more)] if more else []),
        card.footer,
    ]


def _x(place: float) -> float:
    return _LEFT + place * (_RIGHT - _LEFT)


def colour_of(percent: float) -> str:
    """The shade of an accuracy.

    Example:
        >>> colour_of(0), colour_of(100)
        ('#f7f5ef', '#04262c')
    """
    position = max(0.0, min(percent / 100, 1.0)) * (len(_SHADES) - 1)
    left = min(int(position), len(_SHADES) - 2)
    part = position - left
    mixed = (round(a + part * (b - a)) for a, b in zip(_SHADES[left], _SHADES[left + 1], strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
