"""Printing of commands: escaped texts of users, and tables that use the width of the terminal."""

import io
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape, render
from rich.table import Table

from robustatlas.common.escaping import terminal_text
from robustatlas.common.wording import in_shell
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.registry import METRICS
from robustatlas.report.numbers.texts import range_text, status_text, value_text

_GAP = 2
"""Columns between two columns of a table."""


_NARROWEST = 20
"""Width in columns below which the answer of a terminal is ignored."""


def fit_terminal() -> None:
    """Make everything that is printed reach the terminal.

    Letters that its encoding lacks are spelt. A width in which nothing can stand (``COLUMNS=0``) is ignored.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="backslashreplace")
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) < _NARROWEST:
        del os.environ["COLUMNS"]


safe = terminal_text
"""Texts of users for rich."""


def table(*columns: str) -> Table:
    """Return a table whose first column names the rows, and whose other cells stay on one line."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for position, column in enumerate(columns):
        made.add_column(
            column, style="" if position else "bold", justify="right" if position else "left", no_wrap=position > 0
        )
    return made


def number_cell(number: Interval | None, digits: int = 1, sign: bool = False, stacked: bool = False) -> str:
    """Return a number with its interval for a cell of a table, and below it a status that is not the usual one.

    Args:
        number: the number; None is shown as a dash.
        digits: after the point.
        sign: whether a positive number has a plus sign.
        stacked: whether the interval stands below the value, which takes less width.
    """
    if number is None:
        return "-"
    value, ends = value_text(number, digits, sign=sign), range_text(number, digits, sign)
    lines = [value, ends] if stacked else [f"{value} ({ends})" if ends else value]
    return "\n".join(filter(None, [*lines, status_text(number)]))


def tables_of_numbers(
    headings: Sequence[str], rows: Sequence[Sequence[str | Interval]], width: int, digits: int = 1, sign: bool = False
) -> list[Table]:
    """Return rows of texts and numbers as one table: with intervals below the values if they do not fit beside them.

    Where they do not fit either way, there are several tables, as of `tables_that_fit`.
    """
    for stacked in (False, True):
        cells = [
            [cell if isinstance(cell, str) else number_cell(cell, digits, sign, stacked) for cell in row]
            for row in rows
        ]
        tables = tables_that_fit(headings, cells, width)
        if len(tables) == 1:
            break
    return tables


def column_groups(widths: Sequence[int], room: int) -> list[list[int]]:
    """Positions of columns, in groups that fit the room side by side; at least one in each.

    Example:
        >>> column_groups([4, 4, 4], room=12)
        [[0, 1], [2]]
    """
    groups: list[list[int]] = []
    left = 0
    for position, width in enumerate(widths):
        if not groups or width + _GAP > left:
            groups.append([])
            left = room
        groups[-1].append(position)
        left -= width + _GAP
    return groups


def tables_that_fit(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[Table]:
    """Rows in as many tables as the width asks for; the first column, which names them, stands in each of them whole.

    Example:
        >>> parts = tables_that_fit(["attack", "mean", "std"], [["linf", "1.0", "2.0"]], width=18)
        >>> [[column.header for column in part.columns] for part in parts]
        [['attack', 'mean'], ['attack', 'std']]
    """
    widths = [max(map(_width, column)) for column in zip(headings, *rows, strict=True)]
    tables = []
    for group in column_groups(widths[1:], width - widths[0] - _GAP):
        part = table(headings[0], *(headings[1 + position] for position in group))
        part.columns[0].no_wrap = True
        for first, *cells in rows:
            part.add_row(first, *(cells[position] for position in group))
        tables.append(part)
    return tables


def _width(cell: str) -> int:
    return max((cell_len(line) for line in render(cell).plain.split("\n")), default=0)


def shell_lines(command: str, width: int) -> list[str]:
    """Break a command into lines that a shell joins again. An option stays beside its value.

    Example:
        >>> print(*shell_lines("robustatlas evaluate net.py:make --data cifar10 --samples 100", 40), sep="\\n")
        robustatlas evaluate net.py:make \\
            --data cifar10 --samples 100
    """
    bound = re.sub(r"( --?[a-z-]+) (?!-)", "\\1\0", command)
    lines = textwrap.wrap(bound, width - 2, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [line.replace("\0", " ") + " \\" * (line is not lines[-1]) for line in lines]


def print_definitions(console: Console, names: Iterable[str]) -> None:
    chosen = set(names)
    console.print("\n[bold]What the numbers mean[/bold]")
    meanings = Table(box=None, show_header=False, pad_edge=False)
    meanings.add_column(style="bold", no_wrap=True)
    meanings.add_column()
    for name, metric in METRICS.usable().items():
        if name in chosen:
            meanings.add_row(name, escape(metric.explanation))
    console.print(meanings)


def print_run(folder: Path, console: Console) -> None:
    console.print(f"Run: {safe(folder)}   More: robustatlas show {safe(in_shell(folder))}", soft_wrap=True)


def print_what_to_do(folder: Path, console: Console) -> None:
    """Print the command that says what to do about the doubts of a run."""
    console.print(f"What to do: robustatlas diagnose {safe(in_shell(folder))}", soft_wrap=True)
