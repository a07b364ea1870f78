"""Accuracies, and other numbers, over the epochs of a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import MaxNLocator

from robustatlas.common.escaping import figure_text
from robustatlas.common.styles import model_styles
from robustatlas.metrics.figures.paper import legend_above, percent_axis, styled_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


def plot_over_epochs(
    lines: Mapping[str, Floats], ax: Axes | None = None, *, label: str = "accuracy (%)", percent: bool = True
) -> Axes:
    """Draw accuracies, or other numbers, over the epochs of a training, with intervals.

    Args:
        lines: name -> [E, 4]: epoch, and accuracy in percent with the lower and upper end of its interval.
        ax: where to draw; a new figure, 3.3 inches wide, when None.
        label: what the numbers are.
        percent: whether they are percentages, for an axis from 0 to 100.

    Returns:
        the axes.

    Example:
        >>> plot_over_epochs({"linf": np.array([[1, 20.0, 10.0, 30.0], [2, 40.0, 30.0, 50.0]])}).get_ylabel()
        'accuracy (%)'
    """
    with styled_axes(ax, 2.15) as axes:
        for (name, points), style in zip(lines.items(), model_styles(list(lines)), strict=True):
            epochs, value, low, high = np.asarray(points).T
            axes.plot(
                epochs, value, color=style.colour, linestyle=style.linestyle, linewidth=1.3, marker=style.marker,
                markersize=3.2, label=figure_text(name),
            )  # fmt: skip
            axes.fill_between(epochs, low, high, color=style.colour, alpha=0.13, linewidth=0)
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if percent:
            percent_axis(axes, label)
        else:
            axes.set_ylabel(figure_text(label))
            if all(np.min(points) >= 0 for points in lines.values()):
                axes.set_ylim(bottom=0.0)
        legend_above(axes, len(lines))
    return axes
