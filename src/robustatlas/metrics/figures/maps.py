"""Maps of colour: accuracies by attack and strength, and scores by model and attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import figure_text
from robustatlas.common.typed_strengths import format_strength, text_as_typed
from robustatlas.metrics.figures.paper import SEQUENCE, styled_axes
from robustatlas.outcomes.accuracies import AccuracyTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_MOST_WRITTEN = 6
"""Strengths that have room below a strip."""


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
        the axes, whose `.figure` can be saved. Each strip goes from no change to the last strength, written at its end;
        where all attacks have the same few strengths, such as severities from 1 to 5, these stand below the strips.

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
    shared = _shared_strengths(accuracies, names)
    with styled_axes(ax, 0.75 + 0.2 * len(names)) as axes:
        for row, attack in enumerate(names):
            distances = accuracies.distances(attack)
            edges = np.concatenate([[0.0], distances]) / distances[-1]
            values = _strip(accuracies, relative_to, attack)
            axes.pcolormesh(edges, [row - 0.42, row + 0.42], values[None, :], cmap=SEQUENCE, norm=scale)
            if not shared:
                end = format_strength(distances[-1], attack=attack)
                axes.annotate(
                    end, (1, row), xytext=(3, 0), textcoords="offset points", va="center", fontsize=7,
                    annotation_clip=False,
                )  # fmt: skip
        axes.set_xlim(0, 1)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_yticks(range(len(names)), [figure_text(attack_label(attack).label) for attack in names])
        if shared:
            axes.set_xticks((edges[:-1] + edges[1:]) / 2, shared)
        else:
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "¼", "½", "¾", "1"])
        axes.tick_params(length=0)
        axes.set_frame_on(False)
        axes.set_xlabel("strength" if shared else "from no change to the strength at the right")
        pad = 0.04 if shared else 0.13
        bar = axes.figure.colorbar(ScalarMappable(scale, SEQUENCE), ax=axes, pad=pad, aspect=14, shrink=0.9)
        bar.set_label("accuracy (%)" if relative_to is None else "share of the reference (%)")
        bar.outline.set_visible(False)
    return axes


def _shared_strengths(accuracies: AccuracyTable, attacks: Sequence[str]) -> list[str]:
    """Return the strengths as texts where several attacks have the same few of them; none elsewhere."""
    grids = {tuple(accuracies.strengths(attack).tolist()) for attack in attacks}
    few = len(attacks) > 1 and len(grids) == 1 and len(next(iter(grids))) <= _MOST_WRITTEN
    return [text_as_typed(strength) for strength in grids.pop()] if few else []


def plot_scores(
    scores: Mapping[str, Mapping[str, float]], ax: Axes | None = None, *, label: str = "UAR (%)", largest: float = 100
) -> Axes:
    """Draw a heat map of models (rows) under attacks (columns), with the numbers written into it.

    Args:
        scores: model -> attack -> number under that attack, such as the UAR; a model may lack attacks.
        ax: where to draw; a new figure when None.
        label: what the numbers are.
        largest: number of the darkest colour.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: there is no model or no attack.

    Source: Kang et al. 2019, Figure 6a (UAR of models trained against each attack).

    Example:
        >>> axes = plot_scores({"linf 8": {"linf": 90.0, "fog": 40.0}, "fog 128": {"linf": 30.0, "fog": 95.0}})
        >>> [text.get_text() for text in axes.texts]
        ['90', '40', '30', '95']
    """
    attacks = list(dict.fromkeys(attack for row in scores.values() for attack in row))
    if not attacks:
        raise UserError("There are no scores; give at least one model with a number under an attack.")
    values = np.array([[row.get(attack, np.nan) for attack in attacks] for row in scores.values()])
    with styled_axes(ax, 0.9 + 0.22 * len(scores)) as axes:
        _heat_map(axes, values, list(scores), [attack_label(attack).label for attack in attacks], largest)
        axes.set_xlabel(figure_text(label))
    return axes


def plot_trained_strengths(
    accuracies: Mapping[str, Mapping[float, float]], attack: str, ax: Axes | None = None
) -> Axes:
    """Draw accuracies as a matrix: a row for each model, a column for each strength at which it was attacked.

    Args:
        accuracies: model -> strength -> accuracy in percent; the models are trained at rising strengths, say.
        attack: the attack that evaluates them, by which strengths are written.
        ax: where to draw; a new figure when None.

    Returns:
        the axes, whose `.figure` can be saved.

    Raises:
        UserError: there is no model or no strength.

    Source: Kang et al. 2019, Figure 14.

    Example:
        >>> weak, strong = {0.1: 80.0, 0.2: 30.0}, {0.1: 75.0, 0.2: 60.0}
        >>> axes = plot_trained_strengths({"linf 0.1": weak, "linf 0.2": strong}, "linf")
        >>> [text.get_text() for text in axes.texts]
        ['80', '30', '75', '60']
    """
    strengths = sorted({strength for row in accuracies.values() for strength in row})
    if not strengths:
        raise UserError("There are no accuracies; give at least one model with an accuracy at a strength.")
    values = np.array([[row.get(strength, np.nan) for strength in strengths] for row in accuracies.values()])
    with styled_axes(ax, 0.9 + 0.22 * len(accuracies)) as axes:
        labels = [format_strength(strength, attack=attack) for strength in strengths]
        _heat_map(axes, values, list(accuracies), labels, 100)
        axes.set_xlabel(figure_text(f"accuracy (%), attacked by {attack_label(attack).label} at"))
    return axes


def _heat_map(axes: Axes, values: Floats, rows: Sequence[str], columns: Sequence[str], largest: float) -> None:
    """Draw `values` [rows, columns] as colours with the numbers written into them; `largest` has the darkest colour."""
    scale = Normalize(0, largest)
    axes.imshow(np.ma.masked_invalid(values), cmap=SEQUENCE, norm=scale, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            shade = "white" if scale(value) > 0.55 else "black"
            axes.text(column, row, f"{value:.0f}", ha="center", va="center", fontsize=6, color=shade)
    axes.set_xticks(range(len(columns)), list(map(figure_text, columns)), rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), list(map(figure_text, rows)))
    axes.tick_params(length=0)


def _strip(accuracies: AccuracyTable, relative_to: AccuracyTable | None, attack: str) -> np.ma.MaskedArray[Any, Any]:
    """Return the values [S] of one attack; masked where the reference has none."""
    values = accuracies.values(attack)
    if relative_to is None:
        return np.ma.masked_invalid(values)
    below = []
    for strength in accuracies.distances(attack).tolist():
        try:
            below.append(relative_to.accuracy_at_distance(attack, strength))
        except UserError:
            below.append(np.nan)
    return np.ma.masked_invalid(100 * values / np.array(below))
