"""The course of a training: loss and held-out accuracies over its epochs, as a picture and as a page."""

import json
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import figure_text
from robustatlas.common.files import parse_path, write_text
from robustatlas.common.styles import model_styles
from robustatlas.common.typed_strengths import text_as_typed
from robustatlas.metrics.figures import COLUMN, STYLE
from robustatlas.metrics.figures.paper import INK, legend_above, percent_axis
from robustatlas.models.card import Card, read_card
from robustatlas.report import pages

LOG = "log.jsonl"
PICTURE, PAGE = "training.svg", "training.html"
_LEGEND_LINE = 0.15
"""Inches of a line of the legend."""
_PER_ATTACK = "robust/"
_AS_TRAINED = {"training/": "training", "held_out/": "held out, as trained"}
"""Accuracies at the examples that the recipe makes of each attack: beginning of the key -> what of."""


def plot_training(history: Sequence[Mapping[str, Any]], axes: Sequence[Axes] | None = None) -> Figure:
    """Draw a training: its loss, and below it the accuracies on held-out images, over the epochs.

    Args:
        history: a record of each epoch, as :class:`robustatlas.training.Trained` has them and ``log.jsonl`` holds them.
        axes: two axes to draw into, for the loss and the accuracies; a new figure, 3.3 inches wide, when None.

    Returns:
        the figure, which can be saved.

    Raises:
        UserError: there is no epoch, or not two axes.

    Example:
        >>> history = [{"epoch": 1, "loss": 2.0, "training_accuracy": 30.0, "clean": 50.0, "robust": 20.0}]
        >>> [axes.get_ylabel() for axes in plot_training(history).axes]
        ['loss', 'accuracy (%)']
    """
    if not history:
        raise UserError("The training has no finished epoch yet; there is nothing to draw.")
    if axes is not None and len(axes) != 2:
        raise UserError(f"Two axes are expected, for the loss and for the accuracies; given: {len(axes)}.")
    with mpl.rc_context(STYLE if axes is None else {}):
        curves = _curves(history)
        if axes is None:
            height = 3.1 + _LEGEND_LINE * max(0, len(curves) - 4)
            figure = Figure(figsize=(COLUMN, height), layout="constrained")
            above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1, 2))
        else:
            above, below = axes
        epochs = [record["epoch"] for record in history]
        above.plot(epochs, [record["loss"] for record in history], color=INK)
        above.set_ylabel("loss")
        for (label, values), style in zip(curves.items(), model_styles(list(curves)), strict=True):
            below.plot(
                epochs, values, color=style.colour, linestyle=style.linestyle, marker=style.marker, markersize=3.2,
                markevery=max(1, len(epochs) // 8), label=figure_text(label),
            )  # fmt: skip
        below.set_xlabel("epoch")
        below.xaxis.set_major_locator(MaxNLocator(integer=True))
        percent_axis(below, "accuracy (%)")
        legend_above(below, len(curves))
    found = above.figure
    assert isinstance(found, Figure)
    return found


def write_training_page(folder: str | Path) -> Path:
    """Write ``training.svg`` and ``training.html`` into the folder of a training.

    Returns:
        the page.

    Raises:
        UserError: no card or no log there.

    Example:
        >>> import tempfile, robustatlas as ra
        >>> from robustatlas.training import network_for
        >>> data = ra.load_dataset("digits", "train").take(64)
        >>> with tempfile.TemporaryDirectory() as place:
        ...     net = network_for("digits-cnn", data)
        ...     _ = ra.train(net, data, epochs=1, out=place, architecture="digits-cnn", progress=False)
        ...     "held out" in write_training_page(place).read_text()
        True
    """
    place = parse_path(folder)
    card, history = read_card(place), read_history(place)
    drawing = StringIO()
    figure = plot_training(history)
    with mpl.rc_context({"svg.hashsalt": card.weights_sha256, "svg.fonttype": "none"}):
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    svg, keys = drawing.getvalue(), _columns(history)
    write_text(place / PICTURE, svg)
    page = pages.render(
        "training.html",
        title=f"Training of {place.name}",
        styles=[pages.inline("base.css")],
        scripts=[pages.inline("page.js")],
        drawing=Markup(svg[svg.index("<svg") :]),
        about=_context(card),
        warnings=[*card.warnings],
        notes=[*card.notes],
        columns=list(keys.values()),
        rows=[
            (record["epoch"], record["loss"], [_value(record, label) for label in _columns(history)])
            for record in history
        ],
    )
    write_text(place / PAGE, page)
    return place / PAGE


def read_history(folder: Path) -> list[dict[str, Any]]:
    """The record of each epoch of the training in ``folder``."""
    path = folder / LOG
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"There is no log of a training {path} ({error}).") from error


def _columns(history: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Key of a record -> what it is called, for all accuracies that any record has."""
    keys = dict.fromkeys(key for record in history for key in record)
    attacks = [key for key in keys if key.startswith(_PER_ATTACK)]
    found = {"training_accuracy": "training", "clean": "clean, held out"}
    found |= {key: f"{attack_label(key.removeprefix(_PER_ATTACK)).label}, held out" for key in attacks}
    if len(attacks) > 1:
        found["robust"] = "all attacks, held out"
    for beginning, what in _AS_TRAINED.items():
        own = [key for key in keys if key.startswith(beginning)]
        found |= {key: f"{attack_label(key.removeprefix(beginning)).label}, {what}" for key in own}
    return {key: label for key, label in found.items() if any(_value(record, key) is not None for record in history)}


def _curves(history: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    return {
        label: [float("nan") if (value := _value(record, key)) is None else value for record in history]
        for key, label in _columns(history).items()
    }


def _value(record: Mapping[str, Any], key: str) -> float | None:
    value = record.get(key)
    return None if value is None else float(value)


def _context(card: Card) -> list[tuple[str, str]]:
    identity = card.identity
    against = ", ".join(f"{attack_label(name).label} {text_as_typed(at)}" for name, at in card.trained_on.items())
    return [
        ("Network", f"{card.architecture}, {card.parameters:,} parameters"),
        ("Recipe", f"{identity.recipe['name']}{f' against {against}' if against else ''}"),
        ("Images", f"{identity.data.images - identity.data.held_out:,} of {identity.data.name}"),
        ("Weights of epoch", f"{card.epoch} of {identity.settings['epochs']}"),
        ("Seconds", f"{card.seconds:,.0f}"),
    ]
