"""Colour, dash and marker of a model, in every figure and on every page: one rule, by the hash of its name."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from typing import Any

COLOURS = (
    ("#0a6670", "#4bb8c2"),  # teal
    ("#d95f0e", "#ff8a3d"),  # orange
    ("#6a38a7", "#8070ef"),  # violet
    ("#9b8d69", "#e8c08e"),  # sand
    ("#1c2024", "#f4f2ec"),  # ink
    ("#7b3111", "#916f53"),  # brown
)
"""On a light and on a dark ground. Any two differ by 26 and more in CIELAB, also as protanopes, deuteranopes and
tritanopes see them (by the matrices of Machado et al. 2009), and each by 3 : 1 from its ground."""

DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.6), (1.2, 1.2), (5, 1.4, 1.2, 1.4), (9, 2), (3, 1, 1, 1, 1, 1))
"""Lengths of strokes and gaps, in widths of the line; none for a solid line."""

MARKERS = (("o", "circle"), ("s", "square"), ("D", "diamond"), ("^", "triangle-up"), ("X", "x"), ("v", "triangle-down"))
"""Markers, one for each dash, by the names of matplotlib and of plotly."""


@dataclass(frozen=True)
class Style:
    """Colour, dash and marker of a model.

    Attributes:
        colour: on a light ground.
        on_dark: on a dark ground.
        dash: lengths of strokes and gaps, in widths of the line; empty for a solid line.
        marker: of matplotlib.
        symbol: the same marker, of plotly.
    """

    colour: str
    on_dark: str
    dash: tuple[float, ...]
    marker: str
    symbol: str

    @property
    def linestyle(self) -> Any:
        """The dash, for matplotlib."""
        return (0, self.dash) if self.dash else "solid"

    def dash_lengths(self, width: float, unit: str = "", separator: str = " ") -> str:
        """Return the dash of a line of that width: as SVG writes it, or plotly (``"px"``, ``","``); empty for a solid
        line.

        Example:
            >>> model_styles(["a model"])[0].dash_lengths(2, "px", ",")
            '2.4px,2.4px'
        """
        return separator.join(f"{length * width:g}{unit}" for length in self.dash)

    def drawing(self, width: float = 2) -> dict[str, str]:
        """Return what the drawings of a page need, for lines of that width.

        Example:
            >>> list(model_styles(["a model"])[0].drawing())
            ['colour', 'onDark', 'dasharray', 'dash', 'symbol']
        """
        return {
            "colour": self.colour,
            "onDark": self.on_dark,
            "dasharray": self.dash_lengths(width),
            "dash": self.dash_lengths(width, "px", ",") or "solid",
            "symbol": self.symbol,
        }


def model_styles(models: Sequence[str], taken: Sequence[Style] = ()) -> list[Style]:
    """Return the styles of all models of one figure or page.

    A model has the colour and the dash that the hash of its name gives it. Where two would have the same one, the name
    with the smaller hash keeps it, and the other takes the next that fewest have. So up to six models differ in both,
    up to 36 in one of them, and up to 216 in colour, dash or marker. The order of the models changes nothing, except
    among equal ones.

    Args:
        models: their names.
        taken: styles of models that are on the page as well and keep theirs.

    Returns:
        a style for each, in their order.

    Example:
        >>> first, second = model_styles(["mine", "another"])
        >>> first.colour != second.colour, first.dash != second.dash, model_styles(["another", "mine"])[1] == first
        (True, True, True)
    """
    hashes = [int(sha256(model.encode(errors="surrogatepass")).hexdigest(), 16) for model in models]
    colours = Counter(style.colour for style in taken)
    dashes = Counter(style.dash for style in taken)
    pairs = Counter((style.colour, style.dash) for style in taken)
    found: dict[int, Style] = {}
    for place in sorted(range(len(models)), key=hashes.__getitem__):
        second, first = divmod(hashes[place], len(COLOURS))
        colour, dash = min(
            product(_ring(first, len(COLOURS)), _ring(second % len(DASHES), len(DASHES))),
            key=lambda pair: (
                pairs[COLOURS[pair[0]][0], DASHES[pair[1]]],
                colours[COLOURS[pair[0]][0]],
                dashes[DASHES[pair[1]]],
            ),
        )
        again = pairs[COLOURS[colour][0], DASHES[dash]]
        style = Style(*COLOURS[colour], DASHES[dash], *MARKERS[(dash + again) % len(MARKERS)])
        colours[style.colour] += 1
        dashes[style.dash] += 1
        pairs[style.colour, style.dash] += 1
        found[place] = style
    return [found[place] for place in range(len(models))]


def _ring(first: int, count: int) -> Iterable[int]:
    """Return all places of a ring, beginning with one."""
    return [(first + step) % count for step in range(count)]
