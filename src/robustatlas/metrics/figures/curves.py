"""Figures of robustness curves: one axis, both sides, and several panels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from robustatlas.common import wording
from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import figure_text
from robustatlas.common.styles import Style, model_styles
from robustatlas.common.typed_strengths import format_strength, value_as_typed
from robustatlas.metrics.curves import read_end
from robustatlas.metrics.figures.paper import (
    COLUMN,
    STYLE,
    legend_above,
    mark_usual_strength,
    percent_axis,
    size_axis,
    styled_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike, NDArray

    Floats = NDArray[np.float64]
    from matplotlib.figure import Figure


class Curve(Protocol):
    """A robustness curve as figures draw it, as `robustatlas.metrics.RobustnessCurve` is one."""

    @property
    def attack(self) -> str:
        """Name of the attack."""

    @property
    def unit(self) -> str:
        """Unit of its sizes."""

    @property
    def model(self) -> str:
        """Name that the colour and the dash are chosen by; empty where it is not known."""

    @property
    def distance_curve(self) -> Any:
        """The curve over the distance from the unchanged image, as it is drawn."""

    @property
    def jumps(self) -> Floats:
        """Sizes at which the curve changes."""

    def at(self, size: ArrayLike, /) -> Floats:
        """Return the robust error in percent."""

    def band(self, confidence: float, kind: Any, /) -> Any:
        """Return the confidence band of the curve."""

    def crossings(self, other: Any, confidence: float, /) -> Sequence[Any]:
        """Return the crossings with another curve."""


_NORMS = {"linf": r"$\ell_\infty$", "l2": r"$\ell_2$", "l1": r"$\ell_1$", "l0": r"$\ell_0$"}
"""Names of the norms on axes."""

Curves = Curve | Sequence[Curve] | Mapping[str, Curve]


def plot_curves(
    curves: Curves,
    ax: Axes | None = None,
    *,
    error: bool = False,
    confidence: float | None = 0.95,
    up_to: float | None = None,
    crossings: bool = True,
    thresholds: Sequence[float] = (),
) -> Axes:
    """Draw robustness curves: robust accuracy in percent over the perturbation size, with its intervals.

    A model has one colour, dash and marker in all figures (see `robustatlas.common.styles.model_styles`), where the
    curves are of different models; curves of one model under several attacks are told apart by their names. The
    strength at which papers measure is marked.

    Args:
        curves: one curve, several, or name -> curve. Without names, the attacks name them.
        ax: where to draw; a new figure, 3.3 inches wide, when None.
        error: draw the robust error, which rises, as the papers on robustness curves do.
        confidence: of the exact intervals (Clopper-Pearson) around each point, as in tables and pages; None draws none.
        up_to: right end of the axis, as people type the size; just beyond the most harmful finite size of the curves
            when None.
        crossings: mark where two curves of the same attack cross significantly, where exactly two are drawn.
        thresholds: sizes, as people type them, at which a dashed vertical line stands, such as those of point-wise
            measures.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: where there is no curve, or `up_to` changes nothing or is not finite.

    Source: Risse et al. 2021, for the curves over two models; the marks where they cross and the intervals are ours.

    Example:
        >>> from robustatlas.metrics import RobustnessCurve
        >>> curve = RobustnessCurve([0.0, 0.01, 0.03, float("inf")], attack="linf", unit="largest change of a pixel")
        >>> axes = plot_curves({"our model": curve})
        >>> print(axes.get_xlabel())
        $\\ell_\\infty$, largest change of a pixel
    """
    named = _curves_by_name(curves)
    end = _end(named.values(), up_to)
    with styled_axes(ax, 2.15 + 0.11 * max(0, len(named) - 3)) as axes:
        for place, ((name, curve), style) in enumerate(zip(named.items(), _styles(named), strict=True)):
            _draw_curve(axes, name, curve, style, end, confidence, error, place)
        if crossings and len(named) == 2:
            first, second = named.values()
            _mark_crossings(axes, first, second, end, 0.95 if confidence is None else confidence, error)
        size_axis(axes, end, *_size_labels(named.values()))
        for at in (_distance(named.values(), size, "thresholds") for size in thresholds):
            if at <= end:
                axes.axvline(at, color="#000000a0", linestyle="dashed", linewidth=0.7)
        if len(attacks := {curve.attack for curve in named.values()}) == 1:
            mark_usual_strength(axes, attacks.pop(), end, rises=error)
        percent_axis(axes, "robust error (%)" if error else "robust accuracy (%)")
        if len(named) > 1 or isinstance(curves, Sequence | Mapping):
            legend_above(axes, len(named))
    return axes


def _draw_curve(
    axes: Axes, name: str, curve: Curve, style: Style, end: float, confidence: float | None, error: bool, place: int
) -> None:
    """Draw a curve with its band; its markers begin at another place than those of the lines before it."""
    rising = curve.distance_curve
    sizes = step_sizes(rising, end)
    values = rising.at(sizes)
    axes.step(
        sizes, values if error else 100 - values, where="post", color=style.colour, linestyle=style.linestyle,
        linewidth=1.3, marker=style.marker, markersize=3.2, markevery=(0.06 + 0.05 * (place % 4), 0.2),
        label=figure_text(wording.elide_middle(name)),
    )  # fmt: skip
    if confidence is not None:
        low, high = rising.band(confidence, "pointwise").at(sizes)
        ends = (low, high) if error else (100 - high, 100 - low)
        axes.fill_between(sizes, *ends, step="post", color=style.colour, alpha=0.13, linewidth=0)


def _styles(named: Mapping[str, Curve]) -> list[Style]:
    """Choose styles by the models, where each curve is of another one; otherwise by the names of the curves."""
    models = [curve.model or name for name, curve in named.items()]
    return model_styles(models if len(set(models)) == len(models) else list(named))


def step_sizes(curve: Curve, end: float, kept: ArrayLike = (), most: int | None = None) -> Floats:
    """Return the sizes from 0 to `end` at which a curve over distances is drawn: each value holds up to the next size.

    Args:
        curve: whose changes they are.
        end: of the axis.
        kept: sizes that are among them whether or not the curve changes there, such as the strengths of the run.
        most: changes of a longer curve that are left, evenly among its changes; None for all.
    """
    jumps = curve.jumps[(curve.jumps > 0) & (curve.jumps < end)]
    if most is not None and len(jumps) > most:
        jumps = jumps[np.unique(np.linspace(0, len(jumps) - 1, most).round().astype(int))]
    sizes = np.unique(np.concatenate([[0.0], jumps, np.asarray(kept, dtype=np.float64), [end]]))
    return np.asarray(sizes[sizes <= end])


def _curves_by_name(curves: Curves) -> dict[str, Curve]:
    if isinstance(curves, Mapping):
        named = dict(curves)
    else:
        given = curves if isinstance(curves, Sequence) else [curves]
        labels = [attack_label(curve.attack).label if curve.attack else "curve" for curve in given]
        unique = len(set(labels)) == len(labels)
        named = {
            label if unique else f"{label} ({position})": curve
            for position, (label, curve) in enumerate(zip(labels, given, strict=True), start=1)
        }
    if not named:
        raise UserError("There is no curve to draw; give at least one.")
    return named


def _end(curves: Iterable[Curve], up_to: float | None) -> float:
    """Return the distance at the right end of the axis: what is asked for, or just beyond the largest finite one."""
    if up_to is None:
        jumps = [curve.distance_curve.jumps for curve in curves]
        largest = max((each[-1] for each in jumps if each.size), default=0.0)
        return 1.04 * float(largest) or 1.0
    return _distance(curves, up_to, "up_to")


def _distance(curves: Iterable[Curve], size: float, name: str) -> float:
    """Return the distance at a size as people type it for the attack of the curves; `name` is that of the argument."""
    attacks = {curve.attack for curve in curves}
    return read_end(size, attacks.pop() if len(attacks) == 1 else "", name)


def _mark_crossings(axes: Axes, first: Curve, second: Curve, end: float, confidence: float, error: bool) -> None:
    if first.attack != second.attack:
        return
    rising = first.distance_curve
    for crossing in rising.crossings(second.distance_curve, confidence):
        if crossing.significant and crossing.start <= end:
            height = float(rising.at(crossing.start))
            axes.plot(
                crossing.start, height if error else 100 - height, "o", markersize=5, markerfacecolor="white",
                markeredgecolor="black", zorder=5,
            )  # fmt: skip


def _size_labels(curves: Iterable[Curve]) -> tuple[str, str, str]:
    """Return the attack, the unit and the sign of the norm that an axis is labelled by."""
    kinds = {(curve.attack, curve.unit) for curve in curves}
    if len({attack for attack, _ in kinds}) > 1:
        return "", "perturbation size (in each attack's unit)", ""
    attack, unit = max(kinds)
    return attack, unit, _NORMS.get(attack, "")


class Sides(Protocol):
    """Both sides of a curve as figures draw them, as `robustatlas.metrics.two_sided.TwoSided` has them."""

    @property
    def certified(self) -> Any:
        """The curve of the certified sizes."""

    @property
    def empirical(self) -> Any:
        """The curve of the sizes found."""

    @property
    def largest(self) -> float:
        """Most harmful strength at which the attack was run, as people type it."""

    def at(self, size: float, /) -> Any:
        """Return the robust accuracy at a size from both sides, which prints as a sentence."""


def plot_two_sided(
    both: Sides,
    ax: Axes | None = None,
    *,
    at: float | None = None,
    confidence: float | None = 0.95,
    up_to: float | None = None,
) -> Axes:
    """Draw what is known of a robustness curve: at most what attacks left, at least what is certified.

    Between both lines the doubt is shaded. The legend's title says both numbers at one size, in words.

    Args:
        both: as `result.two_sided(attack)` gives them.
        ax: where to draw; a new figure, 3.3 inches wide, when None.
        at: the size, as people type it, of which the legend's title speaks, marked by a line; the middle of the axis
            when None.
        confidence: of the exact intervals that are drawn outside of both lines; None draws none.
        up_to: right end of the axis, as people type the size; the most harmful strength of the attack when None.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: `at` or `up_to` changes nothing or is not finite, or `at` lies beyond the axis.

    Example:
        >>> from robustatlas.metrics import RobustnessCurve
        >>> from robustatlas.metrics.two_sided import TwoSided
        >>> certified, found = (RobustnessCurve(sizes, attack="linf") for sizes in ([0.01, 0.02], [0.01, 0.04]))
        >>> plot_two_sided(TwoSided(certified, found, 0.05), at=8 / 255).get_legend().get_title().get_text()
        'at least 0.0 %, at most 50.0 % robust at 8/255'
    """
    attack = both.empirical.attack
    end = read_end(both.largest if up_to is None else up_to, attack, "up_to")
    size = end / 2 if at is None else read_end(at, attack, "at")
    if size > end:
        given, last = (format_strength(each, attack=attack) for each in (size, end))
        raise UserError(f"at is {given}, beyond the axis, which ends at {last}; give a size with less harm.")
    with styled_axes(ax, 2.4) as axes:
        _draw_sides(axes, both, end, confidence)
        axes.axvline(size, color="#000000", alpha=0.35, linewidth=0.7, linestyle=(0, (2, 2)))
        size_axis(axes, end, both.empirical.attack, both.empirical.unit)
        percent_axis(axes, "robust accuracy (%)")
        legend_above(axes, 3, title=str(both.at(value_as_typed(attack, size))))
    return axes


def _draw_sides(axes: Axes, both: Sides, end: float, confidence: float | None) -> None:
    (style,) = model_styles([both.empirical.model or both.empirical.attack])
    certified: Curve = both.certified.distance_curve
    found: Curve = both.empirical.distance_curve
    sizes = np.union1d(step_sizes(certified, end), step_sizes(found, end))
    most, least = 100 - found.at(sizes), 100 - certified.at(sizes)
    shared: dict[str, Any] = {"where": "post", "color": style.colour}
    axes.step(
        sizes, most, **shared, linestyle=style.linestyle, linewidth=1.3, marker=style.marker, markersize=3.2,
        markevery=(0.06, 0.2), label="at most (attacked)",
    )  # fmt: skip
    axes.step(sizes, least, **shared, linewidth=2.2, label="at least (certified)")
    shade: dict[str, Any] = {"step": "post", "color": style.colour, "linewidth": 0}
    axes.fill_between(sizes, least, most, **shade, alpha=0.22, label="in doubt")
    if confidence is not None:
        lowest = 100 - certified.band(confidence, "pointwise").at(sizes)[1]
        highest = 100 - found.band(confidence, "pointwise").at(sizes)[0]
        axes.fill_between(sizes, lowest, least, **shade, alpha=0.08)
        axes.fill_between(sizes, most, highest, **shade, alpha=0.08)


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
            axes.set_title(figure_text(attack_label(attack).label))
            axes.get_legend().remove()
            if place % columns:
                axes.set_ylabel("")
        for axes in grid.flat[len(curves) :]:
            axes.remove()
        if models > 1:
            lines, names = figure.axes[0].get_legend_handles_labels()
            figure.legend(lines, names, loc="outside upper left", ncols=columns, frameon=False, handlelength=3.4)
    return figure
