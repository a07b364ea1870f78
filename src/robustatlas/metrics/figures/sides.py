"""Both sides of a robustness curve, with what lies in doubt between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.styles import model_styles
from robustatlas.common.typed_strengths import format_strength, value_as_typed
from robustatlas.metrics.curves import read_end
from robustatlas.metrics.figures.curves import Curve, step_sizes
from robustatlas.metrics.figures.paper import legend_above, percent_axis, size_axis, styled_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
        """The robust accuracy at a size from both sides, which prints as a sentence."""


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
        _draw(axes, both, end, confidence)
        axes.axvline(size, color="#000000", alpha=0.35, linewidth=0.7, linestyle=(0, (2, 2)))
        size_axis(axes, end, both.empirical.attack, both.empirical.unit)
        percent_axis(axes, "robust accuracy (%)")
        legend_above(axes, 3, title=str(both.at(value_as_typed(attack, size))))
    return axes


def _draw(axes: Axes, both: Sides, end: float, confidence: float | None) -> None:
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
