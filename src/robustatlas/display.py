"""How a table of outcomes shows itself: in a few lines, in a terminal, in a notebook, and as one long table."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.markup import escape as plain
from rich.table import Table

from robustatlas.errors import UserError
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.wording import counted, size, strength

_HEADINGS = ("attack", "median size", "strengths", "passes")
_MOST_LINES = 12
"""Attacks that are listed before the others are only counted."""


def heading(table: OutcomeTable) -> str:
    """Model, data, number of samples and clean accuracy."""
    return (
        f"{table.name} on {counted(table.samples, 'sample')} of {table.data}: "
        f"{table.clean_accuracy:.1f} % clean accuracy"
    )


def rows(table: OutcomeTable) -> list[tuple[str, str, str, str]]:
    """Of each attack its name, median size, first and last strength, and passes a sample."""
    found = []
    for attack in table.attacks:
        outcome = table.outcome(attack)
        sizes = np.sort(outcome.minimal_size)
        first, last = (strength(float(outcome.strengths[position])) for position in (0, -1))
        span = first if len(outcome.strengths) == 1 else f"{first} to {last} ({len(outcome.strengths)})"
        passes = f"{sum(table.passes(attack)):.0f}"
        found.append((attack, size(float(sizes[(len(sizes) - 1) // 2])), span, passes))
    return found


def text_of(table: OutcomeTable) -> str:
    """For ``repr``: a line for the run, and one for each attack."""
    listed = rows(table)
    lines = [
        f"  {attack}: median size {median}, strengths {span}, {passes} passes a sample"
        for attack, median, span, passes in listed[:_MOST_LINES]
    ]
    if len(listed) > _MOST_LINES:
        lines.append(f"  and {counted(len(listed) - _MOST_LINES, 'more attack')}")
    return "\n".join([heading(table), *lines])


def rich_of(table: OutcomeTable) -> Table:
    """For ``rich.print``."""
    made = Table(title=plain(heading(table)), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for position, column in enumerate(_HEADINGS):
        made.add_column(column, justify="right" if position in (1, 3) else "left")
    for row in rows(table):
        made.add_row(*map(plain, row))
    return made


def html_of(table: OutcomeTable) -> str:
    """For notebooks; everything that others named is escaped."""
    head = "".join(f"<th>{column}</th>" for column in _HEADINGS)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows(table))
    return (
        f"<table><caption>{escape(heading(table))}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


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


def framework(name: str, what: str) -> Any:
    """A package that robustatlas does not need itself."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(f"{what} needs the package {name}, which is not installed; pip install {name}.") from error
