"""How commands print: names of others made harmless, tables that use the width there is."""

from __future__ import annotations

import io
import os
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape, render
from rich.padding import Padding
from rich.table import Table

from robustatlas.common.wording import MARK, MASKED, beside_masked, in_shell, marked, strength
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.registry import METRICS
from robustatlas.outcomes.display import classes_in
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts.headline import headline_of
from robustatlas.report.facts.standard import NEAR, STANDARD
from robustatlas.results.result import Result

_GAP = 2
"""Columns between two columns of a table."""


_NARROWEST = 20
"""Columns below which what a terminal says of its width is taken for no answer."""


def fit_terminal() -> None:
    """Have everything that is printed reach the terminal: letters that its encoding lacks are spelt, and a width in
    which nothing can stand (``COLUMNS=0``) is not believed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and "utf" not in stream.encoding.lower():
            stream.reconfigure(errors="backslashreplace")
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) < _NARROWEST:
        del os.environ["COLUMNS"]


def safe(text: object) -> str:
    """Text of others for the terminal: without control characters, and with nothing that is read as markup.

    Example:
        >>> safe("a\\x1b[31mb [bold]c")
        'a�[31mb \\\\[bold]c'
    """
    return escape(printable(str(text)))


def printable(text: str) -> str:
    """Text without control characters; line ends become spaces."""
    return "".join(
        " " if char in "\n\t\r" else "\ufffd" if unicodedata.category(char) in ("Cc", "Cf", "Cs") else char
        for char in text
    )


def for_spreadsheet(cell: object) -> object:
    """A cell of a CSV: numbers as they are, texts without control characters and never a formula (which begins with
    = + - @ or a tab, and does not after an apostrophe).

    Example:
        >>> for_spreadsheet("=HYPERLINK(1)"), for_spreadsheet("linf"), for_spreadsheet(-0.5)
        ("'=HYPERLINK(1)", 'linf', -0.5)
    """
    if cell is None or isinstance(cell, (bool, int, float, Decimal)):
        return cell
    text = str(cell)
    return f"{chr(39) * text.startswith(_FORMULA)}{printable(text)}"


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def table(*columns: str) -> Table:
    """A table whose first column names the rows, and whose other cells stay on one line."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for position, column in enumerate(columns):
        made.add_column(
            column, style="" if position else "bold", justify="right" if position else "left", no_wrap=position > 0
        )
    return made


def shown(interval: Interval | None, form: str = ".1f") -> str:
    """A number with its interval, for a cell."""
    if interval is None:
        return "-"
    return escape(f"{interval.value:{form}} [{interval.low:{form}}, {interval.high:{form}}]")


def in_groups(widths: Sequence[int], room: int) -> list[list[int]]:
    """Positions of columns, in groups that fit the room side by side; at least one in each.

    Example:
        >>> in_groups([4, 4, 4], room=12)
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
    for group in in_groups(widths[1:], width - widths[0] - _GAP):
        part = table(headings[0], *(headings[1 + position] for position in group))
        part.columns[0].no_wrap = True
        for first, *cells in rows:
            part.add_row(first, *(cells[position] for position in group))
        tables.append(part)
    return tables


def _width(cell: str) -> int:
    """Columns of the terminal that a cell with markup takes."""
    return max((cell_len(line) for line in render(cell).plain.split("\n")), default=0)


def print_definitions(console: Console, names: Iterable[str]) -> None:
    """Print what the numbers mean, in the registry's order."""
    chosen = set(names)
    console.print("\n[bold]What the numbers mean[/bold]")
    meanings = Table(box=None, show_header=False, pad_edge=False)
    meanings.add_column(style="bold", no_wrap=True)
    meanings.add_column()
    for name, metric in METRICS.usable().items():
        if name in chosen:
            meanings.add_row(name, escape(metric.explanation))
    console.print(meanings)


class AccuracyTables:
    """Robust accuracy of each attack at its strengths, and what that cost.

    Args:
        result: the run.
        every: show every strength, in several rows where the terminal is too narrow, and not only those that fit.
        rest: who does what is missing, a sentence.
    """

    def __init__(self, result: Result, every: bool, rest: str) -> None:
        self.result, self.every, self.rest = result, every, rest

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result = self.result
        name = safe(marked(result.name, result.suspect))
        yield (
            f"[bold]{name}[/bold] on {result.samples} samples of {safe(result.data)} ({classes_in(result)}): "
            f"{result.clean_accuracy:.1f} % clean accuracy."
        )
        if (first := headline_of(result.judged())) is not None:
            number = beside_masked(f"[bold]{shown(first.accuracy)} %[/bold]", masked(result, first.at))
            yield f"{number} withstand {safe(first.words)} ({safe(first.why)})."
        if result.diagnosis is not None:
            style = "yellow" if result.diagnosis.doubted else "dim"
            yield f"[{style}]{safe(result.diagnosis.sentence)}[/{style}]"
        yield "Robust accuracy in %:"
        left_out = False
        audits = result.audit_sentences()
        for attack in result.attacks:
            parts, fewer = self._of(attack, options.max_width)
            left_out |= fewer
            yield from parts
            if attack in audits:
                yield Padding(safe(f"In the mean over the strengths {audits[attack]}."), (0, 0, 0, 2))
        for row in (row for row in result.certified_sizes if row not in result.attacks):
            parts, fewer = self._certified_alone(row, options.max_width)
            left_out |= fewer
            yield from parts
        if left_out:
            yield "[dim]Some strengths are left out; --all shows all of them.[/dim]"
        if result.missing:
            lacking = ", ".join(f"{attack} ({count})" for attack, count in result.missing.items())
            yield f"[yellow]Not finished[/yellow], samples missing: {safe(lacking)}. {safe(self.rest)}"

    def _grids(
        self, attack: str, name: str, strengths: Sequence[float], lines: Mapping[str, Sequence[float]], room: int
    ) -> tuple[list[list[int]], list[RenderableType]]:
        """Which strengths stand together, and a table for each such group."""
        headings = [strength(each, 3, of=attack) for each in strengths]
        groups = in_groups([max(5, len(heading)) for heading in headings], room)
        if not self.every:
            groups = [_spread(len(headings), len(groups[0]), _usual(attack, strengths))]
        return groups, [_grid(name, headings, lines, group) for group in groups]

    def _certified_alone(self, row: str, width: int) -> tuple[list[RenderableType], bool]:
        """An attack that was certified and not run."""
        held = self.result.certified_sizes[row]
        room = width - max(10, len(row) + 1) - _GAP
        groups, parts = self._grids(held.attack, row, held.strengths, {"certified": held.accuracies().tolist()}, room)
        said = f"by {', '.join(held.methods)}; the robust accuracy is at least that, and no attack was run"
        shown = sum(map(len, groups))
        return [*parts, Padding(f"[dim]{safe(said)}[/dim]", (0, 0, 0, 2))], shown < len(held.strengths)

    def _of(self, attack: str, width: int) -> tuple[list[RenderableType], bool]:
        outcome, certified = self.result.outcome(attack), self.result.certified_sizes.get(attack)
        headings = [strength(each, 3, of=attack) for each in outcome.strengths.tolist()]
        room = width - max(10, len(attack) + len(MARK) + 1) - _GAP
        if outcome.judged:
            lines = {"": outcome.accuracies().tolist()}
            if outcome.typical is not None:
                lines = {"worst case": lines[""], "typical": outcome.typical_accuracies().tolist()}
            if certified is not None:
                lines = {
                    "certified": certified.accuracies(outcome.strengths).tolist(),
                    "at most": outcome.accuracies().tolist(),
                }
            name = marked(attack, attack in self.result.invalid)
            groups, parts = self._grids(attack, name, outcome.strengths.tolist(), lines, room)
        else:
            groups = [list(range(len(headings)))]
            parts = [f"[bold]{safe(attack)}[/bold]: not every strength was searched."]
        forward, backward = self.result.passes(attack)
        cost = f"{forward:.0f} forward + {backward:.0f} backward passes a sample, {outcome.seconds:.1f} s"
        certified_by = [f"certified by {', '.join(certified.methods)}"] if certified is not None else []
        mark = [MASKED] if masked(self.result, [attack]) else []
        files = outcome.surviving_files()
        kept = [] if files is None else [f"{files[0]} of {files[1]} examples stay ones in an 8-bit file"]
        said = "; ".join([*mark, cost, *kept, *outcome.origins, *certified_by])
        return [*parts, Padding(f"[dim]{safe(said)}[/dim]", (0, 0, 0, 2))], sum(map(len, groups)) < len(headings)


def accuracy_tables(result: Result, every: bool = False, rest: str = "The same 'evaluate' goes on.") -> RenderableType:
    """The accuracies of a run, for `Console.print`; see `AccuracyTables`."""
    return AccuracyTables(result, every, rest)


def print_run(folder: Path, console: Console) -> None:
    """Print where a run is, and how to look at it."""
    console.print(
        f"Run: {safe(folder)}   More: robustatlas show {safe(in_shell(folder))}", highlight=False, soft_wrap=True
    )


def print_ways_out(folder: Path, console: Console) -> None:
    """Print how doubts about a run are looked at, and what is found in spite of them."""
    run = safe(in_shell(folder))
    console.print(
        f"What to do: robustatlas diagnose {run}   Try it: robustatlas diagnose {run} --repair",
        highlight=False,
        soft_wrap=True,
    )


def _grid(
    attack: str, headings: Sequence[str], lines: Mapping[str, Sequence[float]], positions: Sequence[int]
) -> Table:
    """A row of percentages for each of the ``lines``, by what it is called."""
    made = table(safe(attack), *(headings[j] for j in positions))
    made.columns[0].min_width = 10
    for name, values in lines.items():
        made.add_row(name, *(f"{values[j]:.1f}" for j in positions))
    return made


def _usual(attack: str, strengths: Sequence[float]) -> int | None:
    """Position of the strength that is the one at which papers give accuracies, or near it; None where none is."""
    if attack not in STANDARD:
        return None
    standard, _ = STANDARD[attack]
    nearest = min(range(len(strengths)), key=lambda position: abs(strengths[position] - standard))
    return nearest if abs(strengths[nearest] / standard - 1) < NEAR else None


def _spread(count: int, columns: int, usual: int | None = None) -> list[int]:
    """Positions of at most so many of `count` strengths, evenly spread, the last one and the `usual` one among them.

    Example:
        >>> _spread(20, 4), _spread(20, 4, usual=5), _spread(20, 1, usual=5)
        ([4, 9, 14, 19], [5, 9, 14, 19], [5])
    """
    if count <= columns:
        return list(range(count))
    spread = sorted({round((k + 1) * count / columns) - 1 for k in range(columns)})
    if usual is not None and usual not in spread:
        spread[min(range(len(spread)), key=lambda k: abs(spread[k] - usual))] = usual
    return spread
