"""Figures for notebooks and papers, drawn with matplotlib: one column (3.3 inches) wide, readable without colour.

matplotlib's own settings are left as they are; axes that are given keep their fonts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.ticker import MaxNLocator

from robustatlas import wording
from robustatlas.errors import UserError, brief
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.scalars import real

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]

COLUMN = 3.3
"""Width of a figure in inches: one column of a two-column paper."""

COLOURS = ("#0a6670", "#d95f0e", "#6c4aa6", "#c9a227", "#4a5058", "#8c2d5b")
DASHES: tuple[Any, ...] = (
    "solid",
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (5, 1.4, 1.2, 1.4)),
    (0, (9, 2)),
    (0, (3, 1, 1, 1, 1, 1)),
)
"""Lines differ by dash as well as by colour."""

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


class Curve(Protocol):
    """What is drawn of a robustness curve, as `robustatlas.metrics.RobustnessCurve` is one."""

    @property
    def attack(self) -> str:
        """Name of the attack."""

    @property
    def unit(self) -> str:
        """Of its sizes."""

    @property
    def jumps(self) -> Floats:
        """Sizes at which the curve changes."""

    def at(self, size: ArrayLike, /) -> Floats:
        """Robust error in percent."""

    def band(self, confidence: float, /) -> Any:
        """Its simultaneous band."""

    def crossings(self, other: Any, confidence: float, /) -> Sequence[Any]:
        """Where it crosses another curve."""


Curves = Curve | Sequence[Curve] | Mapping[str, Curve]


def plot_curves(
    curves: Curves,
    ax: Axes | None = None,
    *,
    confidence: float | None = 0.95,
    up_to: float | None = None,
    crossings: bool = True,
) -> Axes:
    """Draw robustness curves: robust error in percent over the perturbation size, with confidence bands.

    Args:
        curves: one curve, several, or name -> curve. Without names, the attacks name them.
        ax: where to draw; a new figure, 3.3 inches wide, when None.
        confidence: of the simultaneous bands; None draws none.
        up_to: right end of the axis; just beyond the largest finite size of the curves when None.
        crossings: mark where two curves of the same attack cross significantly, where exactly two are drawn.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: where there is no curve, or `up_to` is not a positive size.

    Example:
        >>> from robustatlas.metrics import RobustnessCurve
        >>> curve = RobustnessCurve([0.0, 0.01, 0.03, float("inf")], attack="linf", unit="largest change of a pixel")
        >>> axes = plot_curves({"our model": curve})
        >>> axes.get_xlabel(), axes.get_ylabel()
        ('largest change of a pixel', 'robust error (%)')
    """
    named = _named(curves)
    end = _end(named.values()) if up_to is None else up_to
    if not 0 < real(end) < np.inf:
        raise UserError(f"up_to is {brief(end)}; a positive finite size is expected.")
    with mpl.rc_context(STYLE if ax is None else {}):
        axes = _new_axes(2.15) if ax is None else ax
        for position, (name, curve) in enumerate(named.items()):
            _draw_curve(axes, name, curve, position, end, confidence)
        if crossings and len(named) == 2:
            first, second = named.values()
            _mark_crossings(axes, first, second, end, confidence or 0.95)
        axes.set_xlim(0, end)
        axes.set_ylim(0, 102)
        axes.set_xlabel(_size_label(named.values()))
        axes.set_ylabel("robust error (%)")
        axes.grid(True, color="#000000", alpha=0.08, linewidth=0.5)
        axes.set_axisbelow(True)
        if len(named) > 1 or isinstance(curves, Sequence | Mapping):
            _legend_above(axes, len(named))
    return axes


def plot_over_epochs(lines: Mapping[str, Floats], ax: Axes | None = None) -> Axes:
    """Draw accuracies over the epochs of a training, with intervals.

    Args:
        lines: name -> [E, 4]: epoch, and accuracy in percent with the lower and upper end of its interval.
        ax: where to draw; a new figure, 3.3 inches wide, when None.

    Returns:
        the axes.

    Example:
        >>> plot_over_epochs({"linf": np.array([[1, 20.0, 10.0, 30.0], [2, 40.0, 30.0, 50.0]])}).get_ylabel()
        'accuracy (%)'
    """
    with mpl.rc_context(STYLE if ax is None else {}):
        axes = _new_axes(2.15) if ax is None else ax
        for position, (name, points) in enumerate(lines.items()):
            colour, dash = COLOURS[position % len(COLOURS)], DASHES[position % len(DASHES)]
            epochs, value, low, high = np.asarray(points).T
            axes.plot(epochs, value, color=colour, linestyle=dash, linewidth=1.3, marker="o", markersize=3, label=name)
            axes.fill_between(epochs, low, high, color=colour, alpha=0.13, linewidth=0)
        axes.set_ylim(0, 102)
        axes.set_xlabel("epoch")
        axes.set_ylabel("accuracy (%)")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(True, color="#000000", alpha=0.08, linewidth=0.5)
        axes.set_axisbelow(True)
        _legend_above(axes, len(lines))
    return axes


def plot_accuracy_matrix(
    accuracies: AccuracyTable,
    ax: Axes | None = None,
    *,
    relative_to: AccuracyTable | None = None,
    attacks: Sequence[str] | None = None,
) -> Axes:
    """Draw accuracies as a strip of colour for each attack, from its weakest to its strongest strength.

    Args:
        accuracies: in percent.
        ax: where to draw; a new figure, 3.3 inches wide, when None.
        relative_to: divide by these accuracies (acc* of a reference): the ratio in percent, shown up to 120. Strengths
            that these do not have stay empty.
        attacks: the attacks to draw, from the top; all when None.

    Returns:
        the axes, whose `.figure` can be saved. Each strip goes from 0 to the largest strength, written at its end.

    Raises:
        UserError: the table has no attacks.

    Example:
        >>> table = AccuracyTable(90.0, {"linf": {0.01: 70.0, 0.02: 40.0}, "l2": {0.5: 60.0, 1.0: 20.0}})
        >>> [label.get_text() for label in plot_accuracy_matrix(table).get_yticklabels()]
        ['L∞', 'L2']
    """
    names = list(accuracies.attacks if attacks is None else attacks)
    if not names:
        raise UserError("The table has no attacks; at least one is needed for a figure.")
    scale = Normalize(0, 100 if relative_to is None else 120)
    with mpl.rc_context(STYLE if ax is None else {}):
        axes = _new_axes(0.75 + 0.2 * len(names)) if ax is None else ax
        for row, attack in enumerate(names):
            strengths = accuracies.strengths(attack)
            edges = np.concatenate([[0.0], strengths]) / strengths[-1]
            values = _strip(accuracies, relative_to, attack)
            axes.pcolormesh(edges, [row - 0.42, row + 0.42], values[None, :], cmap=SEQUENCE, norm=scale)
            end = f"{strengths[-1]:g}"
            axes.annotate(
                end, (1, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7, annotation_clip=False
            )
        axes.set_xlim(0, 1)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), [wording.wording(attack).label for attack in names])
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        axes.tick_params(length=0)
        axes.set_frame_on(False)
        axes.set_xlabel("strength / largest strength (at the right)")
        bar = axes.figure.colorbar(ScalarMappable(scale, SEQUENCE), ax=axes, pad=0.13, aspect=14, shrink=0.9)
        bar.set_label("accuracy (%)" if relative_to is None else "share of the reference (%)")
        bar.outline.set_visible(False)
    return axes


def plot_scores(
    scores: Mapping[str, Mapping[str, float]], ax: Axes | None = None, *, label: str = "UAR (%)", largest: float = 100
) -> Axes:
    """Draw a heat map of models (rows) under attacks (columns), with the numbers written into it.

    Args:
        scores: model -> attack -> number, such as the UAR, or the competitiveness ratio, under that attack alone; a
            model may lack attacks.
        ax: where to draw; a new figure when None.
        label: what the numbers are.
        largest: number of the darkest colour.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: there is no model or no attack.

    Source: the heat maps of Kang et al. 2019 (models trained against each attack) and of Dai et al. 2023, Figure 1c.

    Example:
        >>> axes = plot_scores({"linf 8": {"linf": 90.0, "fog": 40.0}, "fog 128": {"linf": 30.0, "fog": 95.0}})
        >>> [text.get_text() for text in axes.texts]
        ['90', '40', '30', '95']
    """
    attacks = list(dict.fromkeys(attack for row in scores.values() for attack in row))
    if not attacks:
        raise UserError("There are no scores; give at least one model with a number under an attack.")
    values = np.array([[row.get(attack, np.nan) for attack in attacks] for row in scores.values()])
    scale = Normalize(0, largest)
    with mpl.rc_context(STYLE if ax is None else {}):
        axes = _new_axes(0.9 + 0.22 * len(scores)) if ax is None else ax
        axes.imshow(np.ma.masked_invalid(values), cmap=SEQUENCE, norm=scale, aspect="auto")
        for (row, column), value in np.ndenumerate(values):
            if np.isfinite(value):
                shade = "white" if scale(value) > 0.55 else "black"
                axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=6, color=shade)
        axes.set_xticks(
            range(len(attacks)), [wording.wording(attack).label for attack in attacks], rotation=45, ha="right"
        )
        axes.set_yticks(range(len(scores)), list(scores))
        axes.tick_params(length=0)
        axes.set_xlabel(label)
    return axes


def plot_frontier(
    frontier: ArrayLike, clean: float, largest: float, ax: Axes | None = None, *, unit: str = "perturbation size"
) -> Axes:
    """Draw the frontier of one image: the confidence it keeps at each size, and the area that is its hypervolume.

    Args:
        frontier: [L], the confidence kept at the sizes largest / L, ..., largest: a row of
            :attr:`robustatlas.metrics.AdversarialHypervolume.frontier`.
        clean: the confidence on the clean image.
        largest: the largest size.
        ax: where to draw; a new figure when None.
        unit: what sizes measure.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: the frontier is no row of numbers.

    Source: Guo et al. 2024, Figure 2.

    Example:
        >>> axes = plot_frontier([0.8, 0.5, 0.0], clean=0.9, largest=0.03)
        >>> axes.get_title()
        'hypervolume 0.433'
    """
    kept = np.asarray(frontier, dtype=np.float64)
    if kept.ndim != 1 or not kept.size or not np.isfinite(kept).all():
        raise UserError(f"The frontier of one image is a row of numbers [L]; given the shape {kept.shape}.")
    sizes = np.linspace(0, largest, len(kept) + 1)
    with mpl.rc_context(STYLE if ax is None else {}):
        axes = _new_axes(2.0) if ax is None else ax
        axes.bar(sizes[:-1], kept, np.diff(sizes), align="edge", color=COLOURS[0], alpha=0.25, linewidth=0)
        axes.plot(sizes, [clean, *kept], color=COLOURS[0], marker="o", markersize=3)
        axes.set_xlim(0, largest)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(wording.axis(unit))
        axes.set_ylabel("confidence kept")
        axes.set_title(f"hypervolume {kept.mean():.3f}")
    return axes


def plot_convergence(by_levels: Mapping[int, float], limit: float, slope: float, ax: Axes | None = None) -> Axes:
    """Draw the mean hypervolume over the number of levels, with the fit h - c / L.

    Args:
        by_levels: number of levels -> mean hypervolume (:func:`robustatlas.metrics.hypervolume_at_levels`).
        limit: h (:func:`robustatlas.metrics.hypervolume_limit`).
        slope: c.
        ax: where to draw; a new figure when None.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: there is nothing to draw.

    Source: Guo et al. 2024, Figure 5.

    Example:
        >>> axes = plot_convergence({1: 0.25, 2: 0.375, 4: 0.4375}, limit=0.5, slope=0.25)
        >>> axes.lines[1].get_label()
        '0.500 - 0.250 / L'
    """
    if not by_levels:
        raise UserError("There is no number of levels to draw; give at least one.")
    levels = sorted(by_levels)
    fine = np.linspace(levels[0], levels[-1], 200)
    with mpl.rc_context(STYLE if ax is None else {}):
        axes = _new_axes(2.0) if ax is None else ax
        axes.plot(levels, [by_levels[count] for count in levels], "o", color=COLOURS[0], markersize=4, label="measured")
        axes.plot(fine, limit - slope / fine, color=COLOURS[1], label=f"{limit:.3f} - {slope:.3f} / L")
        axes.set_xlabel("levels L")
        axes.set_ylabel("mean hypervolume")
        axes.legend(frameon=False)
    return axes


def _strip(accuracies: AccuracyTable, relative_to: AccuracyTable | None, attack: str) -> np.ma.MaskedArray[Any, Any]:
    """Values [S] of one attack; masked where the reference has none."""
    values = accuracies.values(attack)
    if relative_to is None:
        return np.ma.masked_invalid(values)
    below = []
    for strength in accuracies.strengths(attack).tolist():
        try:
            below.append(relative_to.at(attack, strength))
        except UserError:
            below.append(np.nan)
    return np.ma.masked_invalid(100 * values / np.array(below))


def _named(curves: Curves) -> dict[str, Curve]:
    if isinstance(curves, Mapping):
        named = dict(curves)
    else:
        given = curves if isinstance(curves, Sequence) else [curves]
        labels = [wording.wording(curve.attack).label if curve.attack else "curve" for curve in given]
        unique = len(set(labels)) == len(labels)
        named = {
            label if unique else f"{label} ({position})": curve
            for position, (label, curve) in enumerate(zip(labels, given, strict=True), start=1)
        }
    if not named:
        raise UserError("There is no curve to draw; give at least one.")
    return named


def _end(curves: Iterable[Curve]) -> float:
    largest = max((curve.jumps[-1] for curve in curves if curve.jumps.size), default=0.0)
    return 1.04 * float(largest) or 1.0


def _new_axes(height: float) -> Axes:
    return plt.subplots(figsize=(COLUMN, height), layout="constrained")[1]


def _draw_curve(axes: Axes, name: str, curve: Curve, position: int, end: float, confidence: float | None) -> None:
    colour, dash = COLOURS[position % len(COLOURS)], DASHES[position % len(DASHES)]
    sizes = np.concatenate([[0.0], curve.jumps[curve.jumps > 0], [end]])
    sizes = np.sort(sizes[sizes <= end])
    axes.step(sizes, curve.at(sizes), where="post", color=colour, linestyle=dash, linewidth=1.3, label=name)
    if confidence is not None:
        low, high = curve.band(confidence).at(sizes)
        axes.fill_between(sizes, low, high, step="post", color=colour, alpha=0.13, linewidth=0)


def _mark_crossings(axes: Axes, first: Curve, second: Curve, end: float, confidence: float) -> None:
    if first.attack != second.attack:
        return
    for crossing in first.crossings(second, confidence):
        if crossing.significant and crossing.start <= end:
            height = float(first.at(crossing.start))
            axes.plot(
                crossing.start, height, "o", markersize=5, markerfacecolor="white", markeredgecolor="black", zorder=5
            )


def _size_label(curves: Iterable[Curve]) -> str:
    kinds = {(curve.attack, curve.unit) for curve in curves}
    if len({attack for attack, _ in kinds}) > 1:
        return "perturbation size (in each attack's unit)"
    return wording.axis(max(unit for _, unit in kinds))


def _legend_above(axes: Axes, entries: int) -> None:
    axes.legend(
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=min(entries, 3), frameon=False, borderaxespad=0.2,
        handlelength=2.4, columnspacing=1.2,
    )  # fmt: skip
