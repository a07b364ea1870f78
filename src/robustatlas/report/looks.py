"""Styles of the models of a page: as a style sheet, as data for scripts, and as line samples."""

from collections.abc import Sequence

from markupsafe import Markup

from robustatlas.common.styles import Style

MARKS = {
    "circle": "M13 6m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0",
    "square": "M9.5 2.5h7v7h-7z",
    "diamond": "M13 1.4l4.6 4.6l-4.6 4.6l-4.6-4.6z",
    "triangle-up": "M13 1.5l4.6 8h-9.2z",
    "x": "M10 1.5l3 3 3-3 1.5 1.5-3 3 3 3-1.5 1.5-3-3-3 3-1.5-1.5 3-3-3-3z",
    "triangle-down": "M13 10.5l4.6-8h-9.2z",
}
"""Outlines of the markers, by the names that plotly has for them, in the middle of a line sample of 26 x 12."""


def look_of(style: Style) -> dict[str, str]:
    """Return what scripts need to draw with a style."""
    return {**style.drawing(), "mark": MARKS[style.symbol]}


def style_sheet(styles: Sequence[Style]) -> Markup:
    """A class for the line of each model of a page, and its colour by name: `series-1`, `--series-1`."""
    colours = "".join(f"--series-{k}:light-dark({s.colour},{s.on_dark});" for k, s in enumerate(styles, start=1))
    dashes = "".join(
        f".series-{k}{{stroke:var(--series-{k});color:var(--series-{k})"
        f"{f';stroke-dasharray:{s.dash_lengths(2)}' if s.dash else ''}}}"
        for k, s in enumerate(styles, start=1)
    )
    return Markup(f":root{{{colours}}}{dashes}")


def swatch(place: int, style: Style) -> Markup:
    """A sample of a model's line with its marker."""
    return Markup(
        '<svg class="swatch series-{}" viewBox="0 0 26 12" aria-hidden="true"><path d="M0 6h26"/><path class="dot" '
        'd="{}"/></svg>'
    ).format(place, MARKS[style.symbol])
