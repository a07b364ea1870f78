"""Figures of the adversarial hypervolume and of numbers over the epochs of a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import LogLocator, MaxNLocator

from robustatlas.common import wording
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import figure_text
from robustatlas.common.styles import model_styles
from robustatlas.metrics.curves import read_end
from robustatlas.metrics.figures.paper import INK, OTHER, legend_above, percent_axis, size_axis, styled_axes
from robustatlas.metrics.hypervolume import convergence_rate, hypervolume_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]


def plot_frontier(
    frontier: ArrayLike,
    clean: float,
    largest: float,
    ax: Axes | None = None,
    *,
    attack: str = "",
    unit: str = "perturbation size",
) -> Axes:
    """Draw the frontier of one image: the confidence it keeps at each size, and the area that is its hypervolume.

    Args:
        frontier: [L], the confidence kept at L equal steps from no change to the largest size: a row of
            :attr:`robustatlas.metrics.AdversarialHypervolume.frontier`.
        clean: the confidence on the clean image.
        largest: the most harmful size, as people type it.
        ax: where to draw; a new figure when None.
        attack: its name, by which sizes are written as people type them.
        unit: what sizes measure.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: the frontier is not a row of numbers, or the largest size changes nothing or is not finite.

    Source: Guo et al. 2024, Figure 2.

    Example:
        >>> axes = plot_frontier([0.8, 0.5, 0.0], clean=0.9, largest=0.03)
        >>> axes.get_title()
        'hypervolume 0.433'
    """
    kept = np.asarray(frontier, dtype=np.float64)
    if kept.ndim != 1 or not kept.size or not np.isfinite(kept).all():
        raise UserError(f"The frontier of one image is a row of numbers [L]; given the shape {kept.shape}.")
    end = read_end(largest, attack, "largest")
    sizes = np.linspace(0, end, len(kept) + 1)
    with styled_axes(ax, 2.0) as axes:
        axes.bar(sizes[:-1], kept, np.diff(sizes), align="edge", color=INK, alpha=0.25, linewidth=0)
        axes.plot(sizes, [clean, *kept], color=INK, marker="o", markersize=3)
        size_axis(axes, end, attack, unit)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("confidence kept")
        axes.set_title(f"hypervolume {kept.mean():.3f}")
    return axes


def plot_frontiers(
    frontiers: Mapping[str, ArrayLike],
    largest: float,
    ax: Axes | None = None,
    *,
    attack: str = "",
    unit: str = "perturbation size",
) -> Axes:
    """Draw the frontiers of several models over one image.

    Args:
        frontiers: name -> [L + 1], the confidence on the clean image and what is kept at L equal steps to
            the largest size.
        largest: the most harmful size, as people type it, the same for all.
        ax: where to draw; a new figure when None.
        attack: its name, by which sizes are written as people type them.
        unit: what sizes measure.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: there is no model, a frontier is not a row of two numbers or more, or the largest size changes
            nothing or is not finite.

    Source: Guo et al. 2024, Figure 2.

    Example:
        >>> axes = plot_frontiers({"A": [0.9, 0.8, 0.0], "B": [0.7, 0.7, 0.4]}, largest=0.03)
        >>> [line.get_label() for line in axes.lines]
        ['A, 0.400', 'B, 0.550']
    """
    kept = {name: np.asarray(frontier, dtype=np.float64) for name, frontier in frontiers.items()}
    if not kept or any(row.ndim != 1 or len(row) < 2 or not np.isfinite(row).all() for row in kept.values()):
        raise UserError("Give at least one model, and of each a row [L + 1] of the clean confidence and what is kept.")
    end = read_end(largest, attack, "largest")
    with styled_axes(ax, 2.15) as axes:
        for (name, row), style in zip(kept.items(), model_styles(list(kept)), strict=True):
            sizes = np.linspace(0, end, len(row))
            axes.plot(
                sizes, row, color=style.colour, linestyle=style.linestyle, marker=style.marker, markersize=3.2,
                label=figure_text(f"{wording.elide_middle(name)}, {row[1:].mean():.3f}"),
            )  # fmt: skip
        size_axis(axes, end, attack, unit)
        axes.set_ylim(0, 1.02)
        axes.set_ylabel("confidence kept")
        legend_above(axes, len(kept))
    return axes


def plot_convergence(by_levels: Mapping[int, float], ax: Axes | None = None) -> Axes:
    """Draw the error of the mean hypervolume over the number of levels N, both axes logarithmic, with the fit c / N.

    Args:
        by_levels: number of levels -> mean hypervolume (:func:`robustatlas.metrics.hypervolume_at_levels`); the largest
            number stands for the integral.
        ax: where to draw; a new figure when None.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: fewer than two numbers of levels.

    Source: Guo et al. 2024, Figure 5.

    Example:
        >>> plot_convergence({1: 0.2, 2: 0.4, 20: 0.6}).get_legend().get_texts()[1].get_text()
        'c / N, c = 0.4'
    """
    rate = convergence_rate(by_levels)
    errors = {count: error for count, error in hypervolume_errors(by_levels).items() if error > 0}
    levels = np.array(sorted(hypervolume_errors(by_levels)), dtype=np.float64)
    with styled_axes(ax, 2.0) as axes:
        label = f"measured, slope {rate.slope:.2f}"
        axes.plot(list(errors), list(errors.values()), "o-", color=INK, markersize=4, linewidth=1, label=label)
        axes.plot(levels, rate.factor / levels, "--", color=OTHER, label=f"c / N, c = {rate.factor:.3g}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xticks(levels, [f"{count:g}" for count in levels])
        axes.minorticks_off()
        axes.set_xlabel("number of levels N")
        axes.set_ylabel(f"error against N = {max(by_levels)}")
        axes.legend(frameon=False)
    return axes


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
