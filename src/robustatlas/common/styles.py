"""Colour, dash and marker of a model in every figure and on every page, chosen by the model's hash."""

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
"""Colours on a light and on a dark background.

Any two differ by at least 26 in CIELAB, also as protanopes, deuteranopes and tritanopes see them (by the matrices of
Machado et al. 2009). The contrast of each to its background is at least 3 : 1.
"""

DASHES: tuple[tuple[float, ...], ...] = ((), (5, 1.6), (1.2, 1.2), (5, 1.4, 1.2, 1.4), (9, 2), (3, 1, 1, 1, 1, 1))
"""Lengths of strokes and gaps, in widths of the line; none for a solid line."""

MARKERS = (("o", "circle"), ("s", "square"), ("D", "diamond"), ("^", "triangle-up"), ("X", "x"), ("v", "triangle-down"))
"""Marker that goes with each dash, by its names in matplotlib and in plotly."""


@dataclass(frozen=True)
class Style:
    """Colour, dash and marker of one model.

    Attributes:
        colour: on a light background.
        on_dark: colour on a dark background.
        dash: lengths of strokes and gaps, in widths of the line; empty for a solid line.
        marker: its name in matplotlib.
        symbol: name of the same marker in plotly.
    """

    colour: str
    on_dark: str
    dash: tuple[float, ...]
    marker: str
    symbol: str

    @property
    def linestyle(self) -> Any:
        """Argument ``linestyle`` of matplotlib."""
        return (0, self.dash) if self.dash else "solid"

    def dash_lengths(self, width: float, unit: str = "", separator: str = " ") -> str:
        """Return the dash of a line of this width as SVG writes it; empty for a solid line.

        Plotly writes it with the unit ``"px"`` and the separator ``","``.

        Example:
            >>> model_styles(["a model"])[0].dash_lengths(2, "px", ",")
            '2.4px,2.4px'
        """
        return separator.join(f"{length * width:g}{unit}" for length in self.dash)

    def drawing(self, width: float = 2) -> dict[str, str]:
        """Return the style for drawings on a page, for lines of this width.

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


def model_styles(models: Sequence[str]) -> list[Style]:
    """Return the styles of all models of one figure or page.

    The hash of a model chooses its colour and its dash, wherever it is drawn. If two models would share one, the model
    with the smaller hash keeps it, and the other takes the least used one after it. So up to six models differ in both,
    and up to 36 in one of the two. The order of the models has no influence, except among equal models.

    Args:
        models: fingerprint of each model, or its name if it has none.

    Returns:
        the style of each model, in the given order.

    Example:
        >>> first, second = model_styles(["mine", "another"])
        >>> first.colour != second.colour, first.dash != second.dash, model_styles(["another", "mine"])[1] == first
        (True, True, True)
    """
    hashes = [int(sha256(model.encode(errors="surrogatepass")).hexdigest(), 16) for model in models]
    colours, dashes, pairs = Counter[int](), Counter[int](), Counter[tuple[int, int]]()
    found: dict[int, Style] = {}
    for position in sorted(range(len(models)), key=hashes.__getitem__):
        preferred_dash, preferred_colour = divmod(hashes[position], len(COLOURS))
        colour, dash = min(
            product(_rotated_range(preferred_colour, len(COLOURS)), _rotated_range(preferred_dash, len(DASHES))),
            key=lambda pair: (pairs[pair], colours[pair[0]], dashes[pair[1]]),
        )
        colours[colour], dashes[dash] = colours[colour] + 1, dashes[dash] + 1
        pairs[colour, dash] += 1
        found[position] = Style(*COLOURS[colour], DASHES[dash], *MARKERS[dash])
    return [found[position] for position in range(len(models))]


def _rotated_range(first: int, count: int) -> Iterable[int]:
    """Return all integers below ``count`` in cyclic order, beginning with ``first``."""
    return [(first + step) % count for step in range(count)]
