"""What a table of outcomes shows of itself: in a few lines, as a table, and as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.outcomes.table import OutcomeTable
from robustatlas.tabular import Grid
from robustatlas.wording import counted, marked, size, strength

_HEADINGS = ("attack", "median size", "strengths", "passes")
_MOST_LINES = 12
"""Attacks that are listed before the others are only counted."""


def heading(table: OutcomeTable, warnings: Sequence[str] = (), verdict: str = "") -> str:
    """Model, data, number of samples and clean accuracy; after it the ``verdict`` of a diagnosis, and the ``warnings``
    that do not repeat it, each in a line."""
    first = (
        f"{table.name} on {counted(table.samples, 'sample')} of {table.data}: "
        f"{table.clean_accuracy:.1f} % clean accuracy"
    )
    rest = [f"Warning: {warning}" for warning in warnings if not verdict or verdict not in warning]
    return "\n".join([first, *([verdict] if verdict else []), *rest])


def rows(table: OutcomeTable) -> list[tuple[str, str, str, str]]:
    """Of each attack its name, median size, first and last strength, and passes a sample."""
    found = []
    for attack in table.attacks:
        outcome = table.outcome(attack)
        sizes = np.sort(outcome.minimal_size)
        first, last = (strength(float(outcome.strengths[position])) for position in (0, -1))
        span = first if len(outcome.strengths) == 1 else f"{first} to {last} ({len(outcome.strengths)})"
        passes = f"{sum(table.passes(attack)):.0f}"
        found.append((marked(attack, attack in table.void), size(float(sizes[(len(sizes) - 1) // 2])), span, passes))
    return found


def text_of(table: OutcomeTable, warnings: Sequence[str] = (), verdict: str = "") -> str:
    """For ``repr``: a line for the run, one for the verdict and each warning, and one for each attack."""
    listed = rows(table)
    lines = [
        f"  {attack}: median size {median}, strengths {span}, {passes} passes a sample"
        for attack, median, span, passes in listed[:_MOST_LINES]
    ]
    if len(listed) > _MOST_LINES:
        lines.append(f"  and {counted(len(listed) - _MOST_LINES, 'more attack')}")
    return "\n".join([heading(table, warnings, verdict), *lines])


def grid_of(table: OutcomeTable, warnings: Sequence[str] = (), verdict: str = "") -> Grid:
    """For terminals and notebooks."""
    return Grid(heading(table, warnings, verdict), _HEADINGS, rows(table), numbers=(1, 3))


def columns_of(table: OutcomeTable) -> dict[str, NDArray[Any]]:
    """One long table: a row for each attack and sample, the attacks one after the other."""
    outcomes = [table.outcome(attack) for attack in table.attacks]
    samples = {"index": table.index, "label": table.labels, "clean_prediction": table.clean_prediction}
    columns = {name: np.tile(values, len(outcomes)) for name, values in samples.items()}
    columns["attack"] = np.repeat(np.array(table.attacks, dtype=object), table.samples)
    for name in ("minimal_strength", "minimal_size", "found_class", "forward", "backward"):
        columns[name] = np.concatenate([getattr(outcome, name) for outcome in outcomes])
    if any(outcome.drawn is not None for outcome in outcomes):
        for name in ("mistakes", "drawn"):
            known = [getattr(outcome, name) for outcome in outcomes]
            columns[name] = np.concatenate([np.zeros(table.samples, np.int64) if k is None else k for k in known])
    return columns
