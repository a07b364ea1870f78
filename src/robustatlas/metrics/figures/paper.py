"""Settings of all figures: one column wide (3.3 inches), readable without colour, matplotlib's settings left alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

from robustatlas.common.escaping import figure_text
from robustatlas.common.files import picture_kind, write_atomically
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, axis_label, falling_scale_start

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 3.3
"""Width of a figure in inches: one column of a two-column paper."""

_DPI = 300
"""Resolution of figures in files that are pictures of pixels."""

_FONTS: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42}
"""TrueType, which publishers ask for and other programs can edit; matplotlib's own choice is Type 3."""

_LETTER = 0.035
"""Part of an axis that a letter of the name of a strength takes."""

_LETTERS_PER_INCH = 15
"""Letters of the name of an axis in an inch of the figure, of which a part is left of the axis."""

INK, OTHER = "#0a6670", "#d95f0e"
"""Colours of what belongs to no model."""

SEQUENCE = LinearSegmentedColormap.from_list("robustatlas", ["#f7f5ef", "#a9cfcf", "#3d8f96", "#0a4d56", "#04262c"])
"""From light (0 %) to dark (100 %), monotone in lightness."""

STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 150,
}


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure, whole or not at all, with TrueType fonts in PDF. Raises :class:`UserError`: a name that does not
    end in .png, .pdf or .svg, or a file that cannot be written."""
    with mpl.rc_context(_FONTS):
        write_atomically(path, partial(figure.savefig, format=picture_kind(path), dpi=_DPI))


@contextmanager
def styled_axes(ax: Axes | None, height: float) -> Iterator[Axes]:
    """Yield the axes that are given, with their own fonts, or those of a new figure of that height in inches."""
    with mpl.rc_context(STYLE if ax is None else {}):
        yield plt.subplots(figsize=(COLUMN, height), layout="constrained")[1] if ax is None else ax


def size_axis(axes: Axes, end: float, attack: str, unit: str, norm: str = "") -> None:
    """Label sizes from 0 to ``end``, in words after the sign of their ``norm``, with numbers as people type them."""
    axes.set_xlim(0, end)
    words = axis_label(unit, attack=attack)
    label = ", ".join([*([norm] if norm else []), *([figure_text(words)] if words else [])])
    axes.set_xlabel(fill(label, _label_width(axes)))
    if (top := falling_scale_start(attack)) is not None:
        axes.xaxis.set_major_formatter(lambda at, _: f"{top - at:g}")


def _label_width(axes: Axes) -> int:
    """Return the number of letters of a label that stand below an axis in one line."""
    place, whole = axes.get_subplotspec(), axes.get_figure(root=True)
    columns = 1 if place is None else place.get_gridspec().ncols
    return max(12, int(_LETTERS_PER_INCH * (COLUMN if whole is None else whole.get_figwidth()) / columns))


def mark_usual_strength(axes: Axes, attack: str, end: float, rises: bool = False) -> None:
    """Draw a line at the strength that papers give, if it lies on an axis that ends at ``end``.

    Its name stands in the corner that curves leave free: at the top where they rise, else at the bottom."""
    at, written = STANDARD_STRENGTHS.get(attack, (math.inf, ""))
    if at > end:
        return
    axes.vlines(at, 0, 1, "#00000059", "dotted", transform=axes.get_xaxis_transform(), linewidth=0.7)
    left = at > _LETTER * len(written) * end
    axes.annotate(
        written, (at, float(rises)), (-2 if left else 2, -2 if rises else 2), xycoords=("data", "axes fraction"),
        textcoords="offset points", horizontalalignment="right" if left else "left",
        verticalalignment="top" if rises else "bottom", fontsize=6.5, color="#565c63", zorder=4,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 0.6},
    )  # fmt: skip


def percent_axis(axes: Axes, label: str) -> None:
    """Label percentages upwards from 0 to 100, over a faint grid."""
    axes.set_ylim(0, 102)
    axes.set_ylabel(figure_text(label))
    axes.grid(True, color="#000000", alpha=0.08, linewidth=0.5)
    axes.set_axisbelow(True)


def legend_above(axes: Axes, entries: int, title: str | None = None) -> None:
    """Draw the legend above the data, no wider than the axes; handles are long enough to show dash and marker."""
    for columns in range(min(entries, 3), 0, -1):
        legend = axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, frameon=False, borderaxespad=0.2,
            handlelength=3.4, columnspacing=1.2,
            title=title and figure_text(title), title_fontsize="small", alignment="left",
        )  # fmt: skip
        if legend.get_window_extent().width <= axes.get_window_extent().width:
            return
