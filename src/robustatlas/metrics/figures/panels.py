"""Several attacks side by side: a panel for each, with the curves of all models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import pyplot as plt

from robustatlas.common.errors import UserError
from robustatlas.common.escaping import figure_text
from robustatlas.common.wording import wording
from robustatlas.metrics.figures.curves import Curve, plot_curves
from robustatlas.metrics.figures.paper import COLUMN, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_ACROSS = 3
"""Panels in a row, over two columns of a paper."""
_WIDE, _HIGH = 2.3, 1.9
"""Inches of a panel."""


def plot_panels(
    curves: Mapping[str, Mapping[str, Curve]],
    *,
    up_to: Mapping[str, float] | None = None,
    error: bool = False,
    confidence: float | None = 0.95,
) -> Figure:
    """Draw robustness curves under several attacks: a panel for each attack, three in a row, under one legend.

    Args:
        curves: attack -> name of the model -> its curve.
        up_to: attack -> right end of its axis, as people type the size; see :func:`plot_curves`.
        error: draw the robust error, which rises.
        confidence: of the intervals around each point; None draws none.

    Returns:
        the figure: of one panel 3.3 inches wide, of more up to 6.9 inches.

    Raises:
        UserError: where there is no curve, or an end is not a positive size.

    Example:
        >>> from robustatlas.metrics import RobustnessCurve
        >>> curve = RobustnessCurve([0.0, 0.01, 0.03], attack="linf")
        >>> figure = plot_panels({"linf": {"a": curve}, "l2": {"a": curve}})
        >>> [axes.get_title() for axes in figure.axes]
        ['L∞', 'L2']
    """
    if not curves:
        raise UserError("There is no curve to draw; give at least one.")
    columns = min(len(curves), _ACROSS)
    rows = math.ceil(len(curves) / columns)
    models = len({name: None for drawn in curves.values() for name in drawn})
    with mpl.rc_context(STYLE):
        size = (COLUMN if columns == 1 else columns * _WIDE, rows * _HIGH + 0.25 * math.ceil(models / columns))
        figure, grid = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
        for place, (attack, drawn) in enumerate(curves.items()):
            axes = grid[place // columns, place % columns]
            plot_curves(drawn, axes, error=error, confidence=confidence, up_to=(up_to or {}).get(attack))
            axes.set_title(figure_text(wording(attack).label))
            axes.get_legend().remove()
            if place % columns:
                axes.set_ylabel("")
        for axes in grid.flat[len(curves) :]:
            axes.remove()
        if models > 1:
            lines, names = figure.axes[0].get_legend_handles_labels()
            figure.legend(lines, names, loc="outside upper left", ncols=columns, frameon=False, handlelength=3.4)
    return figure
