"""A picture as a list of shapes, and the two ways in which it is written: SVG for pages, matplotlib for PNG and PDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from robustatlas.common.escaping import html_text, visible_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INCH = 100.0
"""Units of a picture to an inch."""

Anchor = Literal["start", "middle", "end"]

_POINT = 72.0 / INCH
_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Box:
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    edge: str = "none"


@dataclass(frozen=True)
class Stroke:
    """A straight line."""

    x: float
    y: float
    to_x: float
    to_y: float
    colour: str
    width: float = 1.0


@dataclass(frozen=True)
class Diamond:
    """A hollow mark."""

    x: float
    y: float
    radius: float
    edge: str
    fill: str = "#ffffff"


@dataclass(frozen=True)
class Words:
    """A line of text; `y` is its base."""

    x: float
    y: float
    text: str
    size: float
    colour: str
    anchor: Anchor = "start"
    bold: bool = False


Shape = Box | Stroke | Diamond | Words


@dataclass(frozen=True)
class Picture:
    """Shapes on white. ``shapes``: those behind come first. ``said``: the picture in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...]
    said: str


def stacked(pictures: Sequence[Picture]) -> Picture:
    """Pictures below each other."""
    shapes: list[Shape] = []
    top = 0.0
    for picture in pictures:
        shapes += [_lower(shape, top) for shape in picture.shapes]
        top += picture.height
    return Picture(max(p.width for p in pictures), top, tuple(shapes), " ".join(p.said for p in pictures))


def _lower(shape: Shape, by: float) -> Shape:
    if isinstance(shape, Stroke):
        return replace(shape, y=shape.y + by, to_y=shape.to_y + by)
    return replace(shape, y=shape.y + by)


def svg_of(picture: Picture) -> Markup:
    """The picture as SVG, with its words as its description."""
    head = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="card-picture" viewBox="0 0 {:g} {:g}" width="{:g}" '
        'height="{:g}" role="img" aria-label="{}" font-family="{}" shape-rendering="crispEdges">'
    ).format(picture.width, picture.height, picture.width, picture.height, html_text(picture.said), _FONTS)
    ground = Markup('<rect width="{:g}" height="{:g}" fill="#ffffff"/>').format(picture.width, picture.height)
    return head + ground + Markup("").join(_element(shape) for shape in picture.shapes) + Markup("</svg>")


def _element(shape: Shape) -> Markup:
    if isinstance(shape, Box):
        edge = Markup("") if shape.edge == "none" else Markup(' stroke="{}"').format(shape.edge)
        element = Markup('<path fill="{}"{} d="M{:.1f} {:.1f}h{:.1f}v{:.1f}h-{:.1f}z"/>')
        return element.format(shape.fill, edge, shape.x, shape.y, shape.width, shape.height, shape.width)
    if isinstance(shape, Stroke):
        element = Markup('<path d="M{:.2f} {:.2f}L{:.2f} {:.2f}" stroke="{}" stroke-width="{:g}"/>')
        return element.format(shape.x, shape.y, shape.to_x, shape.to_y, shape.colour, shape.width)
    if isinstance(shape, Diamond):
        corners = " ".join(f"{x:.2f},{y:.2f}" for x, y in _corners(shape))
        return Markup('<polygon points="{}" fill="{}" stroke="{}" stroke-width="1.2"/>').format(
            corners, shape.fill, shape.edge
        )
    element = Markup(
        '<text x="{:.2f}" y="{:.2f}" font-size="{:g}" fill="{}" text-anchor="{}" font-weight="{}">{}</text>'
    )
    return element.format(
        shape.x, shape.y, shape.size, shape.colour, shape.anchor, 650 if shape.bold else 400, html_text(shape.text)
    )


def _corners(mark: Diamond) -> list[tuple[float, float]]:
    r = mark.radius
    return [(mark.x, mark.y - r), (mark.x + r, mark.y), (mark.x, mark.y + r), (mark.x - r, mark.y)]


def figure_of(picture: Picture) -> Figure:
    """The picture as a figure of matplotlib, for PNG and PDF."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Polygon, Rectangle

    figure = Figure(figsize=(picture.width / INCH, picture.height / INCH), dpi=300)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, picture.width)
    axes.set_ylim(picture.height, 0)
    axes.axis("off")
    for shape in picture.shapes:
        if isinstance(shape, Box):
            box = Rectangle((shape.x, shape.y), shape.width, shape.height, facecolor=shape.fill, edgecolor=shape.edge)
            box.set_linewidth(0.5 if shape.edge != "none" else 0)
            axes.add_patch(box)
        elif isinstance(shape, Stroke):
            ends = [shape.x, shape.to_x], [shape.y, shape.to_y]
            axes.add_line(Line2D(*ends, color=shape.colour, linewidth=shape.width * _POINT, solid_capstyle="butt"))
        elif isinstance(shape, Diamond):
            mark = Polygon(
                _corners(shape), facecolor=shape.fill, edgecolor=shape.edge, linewidth=1.2 * _POINT, zorder=3
            )
            axes.add_patch(mark)
        else:
            across = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
            weight = "bold" if shape.bold else "normal"
            look: dict[str, Any] = {
                "fontsize": shape.size * _POINT,
                "color": shape.colour,
                "ha": across,
                "fontweight": weight,
            }
            axes.text(shape.x, shape.y, visible_text(shape.text), va="baseline", parse_math=False, **look)
    return figure
