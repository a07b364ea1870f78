"""Texts, grids and columns that show a table of outcomes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.tabular import Grid, object_column
from robustatlas.common.typed_strengths import format_size, format_strength
from robustatlas.common.wording import add_mark, pluralise
from robustatlas.outcomes.strengths import sizes_as_typed
from robustatlas.outcomes.table import OutcomeTable

_HEADINGS = ("attack", "median size", "strengths", "passes")
_MOST_LINES = 12
"""Attacks that are listed before the others are only counted."""


def classes_in(table: OutcomeTable) -> str:
    """Return the number of classes of the samples, in words."""
    return f"{table.classes_held} class{'es' * (table.classes_held > 1)}"


def heading(table: OutcomeTable, warnings: Sequence[str] = (), verdict: str = "") -> str:
    """Model, data, number of samples and clean accuracy; after it the ``verdict`` of a diagnosis, and the ``warnings``
    that do not repeat it, each in a line."""
    first = (
        f"{table.name} on {pluralise(table.samples, 'sample')} of {table.data} ({classes_in(table)}): "
        f"{table.clean_accuracy:.1f} % clean accuracy"
    )
    rest = [f"Warning: {warning}" for warning in warnings if not verdict or verdict not in warning]
    return "\n".join([first, *([verdict] if verdict else []), *rest])


def rows(table: OutcomeTable) -> list[tuple[str, str, str, str]]:
    """Return name, median size, first and last strength, and passes per sample of each attack."""
    found = []
    for attack in table.attacks:
        outcome = table.outcome(attack)
        first, last = (format_strength(float(outcome.strengths[position]), attack=attack) for position in (0, -1))
        span = first if len(outcome.strengths) == 1 else f"{first} to {last} ({len(outcome.strengths)})"
        passes = f"{sum(table.passes(attack)):.0f}"
        found.append(
            (add_mark(attack, attack in table.invalid), format_size(outcome.median_size, attack=attack), span, passes)
        )
    return found


def text_of(table: OutcomeTable, warnings: Sequence[str] = (), verdict: str = "") -> str:
    """For ``repr``: a line for the run, the verdict, each warning, each attack, and each certificate."""
    listed = rows(table)
    lines = [
        f"  {attack}: median size {median}, strengths {span}, {passes} passes a sample"
        for attack, median, span, passes in listed[:_MOST_LINES]
    ]
    if len(listed) > _MOST_LINES:
        lines.append(f"  and {pluralise(len(listed) - _MOST_LINES, 'more attack')}")
    for row, held in table.certified_sizes.items():
        median = format_size(held.median_size, attack=held.attack)
        lines.append(f"  {row}: median certified size {median}, by {', '.join(held.methods)}")
    return "\n".join([heading(table, warnings, verdict), *lines])


def grid_of(table: OutcomeTable, warnings: Sequence[str] = (), verdict: str = "") -> Grid:
    """For terminals and notebooks."""
    return Grid(heading(table, warnings, verdict), _HEADINGS, rows(table), numbers=(1, 3))


_NOT_RUN = {"minimal_strength": np.nan, "minimal_size": np.nan, "found_class": -1, "forward": 0, "backward": 0}
"""Values of the columns for an attack that was certified and not run."""


def columns_of(table: OutcomeTable) -> dict[str, NDArray[Any]]:
    """Return one long table: a row for each attack and sample, the attacks one after the other; those that were
    certified and not run come last, without sizes found. Sizes are as people type them."""
    outcomes = [table.outcome(attack) for attack in table.attacks]
    alone = [row for row in table.certified_sizes if row not in table.attacks]
    names = [*table.attacks, *alone]
    samples = {"index": table.index, "label": table.labels, "clean_prediction": table.clean_prediction}
    columns = {name: np.tile(values, len(names)) for name, values in samples.items()}
    columns["attack"] = np.repeat(object_column(names), table.samples)
    for name, nothing in _NOT_RUN.items():
        found = [_as_typed(outcome.attack, name, getattr(outcome, name)) for outcome in outcomes]
        columns[name] = np.concatenate([*found, np.full(table.samples * len(alone), nothing)])
    if any(outcome.drawn is not None for outcome in outcomes):
        none = np.zeros(table.samples, np.int64)
        for name in ("mistakes", "drawn"):
            known = [*(getattr(outcome, name) for outcome in outcomes), *[None] * len(alone)]
            columns[name] = np.concatenate([none if values is None else values for values in known])
    return columns | _certified(table, names)


_SIZES = ("minimal_strength", "minimal_size", "certified_size")


def _as_typed(attack: str, name: str, values: NDArray[Any]) -> NDArray[Any]:
    return sizes_as_typed(values, attack) if name in _SIZES else values


def _certified(table: OutcomeTable, names: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Certified sizes, NaN where nobody asked, and the method that certified each; nothing of a run without any."""
    if not table.certified_sizes:
        return {}
    held = [table.certified_sizes.get(name) for name in names]
    unknown = np.full(table.samples, np.nan)
    return {
        "certified_size": np.concatenate(
            [unknown if each is None else _as_typed(each.attack, "certified_size", each.sizes) for each in held]
        ),
        "certified_by": object_column(
            [by for each in held for by in ([""] * table.samples if each is None else each.leading_methods)]
        ),
    }
