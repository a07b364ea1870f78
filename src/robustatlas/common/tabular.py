"""Tables that show themselves: in a terminal, in a notebook, and as frames of other packages."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.table import Table

from robustatlas.common.errors import UserError
from robustatlas.common.escaping import html_text, terminal_text, visible_text
from robustatlas.common.wording import counted

MOST_ROWS = 60
"""Rows that a display lists before the others are only counted."""


@dataclass(frozen=True)
class Grid:
    """What a display shows: ``rows`` [R] of texts under ``headings`` [C]; ``numbers`` are columns flush right."""

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: tuple[int, ...] = ()

    @property
    def listed(self) -> list[tuple[str, ...]]:
        """The rows that are shown, the last of which counts those that are not."""
        if len(self.rows) <= MOST_ROWS:
            return list(self.rows)
        rest = f"and {counted(len(self.rows) - MOST_ROWS, 'more row')}"
        return [*self.rows[:MOST_ROWS], (rest, *("",) * (len(self.headings) - 1))]

    def text(self) -> str:
        """Lines for ``repr``, the columns in line."""
        cells = [[*map(visible_text, row)] for row in (self.headings, *self.listed)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [visible_text(self.title)] if self.title else []
        for row in cells:
            padded = [
                cell.rjust(width) if position in self.numbers else cell.ljust(width)
                for position, (cell, width) in enumerate(zip(row, widths, strict=True))
            ]
            lines.append(f"  {'  '.join(padded)}".rstrip())
        return "\n".join(lines)

    def rich(self) -> Table:
        """For ``rich.print``; names that look like markup are text."""
        title = terminal_text(self.title) or None
        made = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        for position, heading in enumerate(self.headings):
            made.add_column(terminal_text(heading), justify="right" if position in self.numbers else "left")
        for row in self.listed:
            made.add_row(*map(terminal_text, row))
        return made

    def html(self) -> str:
        """For notebooks; everything that others named is escaped."""
        caption = f"<caption>{html_text(self.title)}</caption>" if self.title else ""
        head = "".join(f"<th>{html_text(heading)}</th>" for heading in self.headings)
        body = "".join(f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>" for row in self.listed)
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Tabular(ABC):
    """What is a table: it says what a display shows (``_grid``), and the columns of its frames (``_columns``). A
    dataclass of this kind has ``repr=False``."""

    @abstractmethod
    def _grid(self) -> Grid: ...

    @abstractmethod
    def _columns(self) -> dict[str, NDArray[Any]]: ...

    def __repr__(self) -> str:
        return self._grid().text()

    def __rich__(self) -> Table:
        return self._grid().rich()

    def _repr_html_(self) -> str:
        return self._grid().html()

    def to_pandas(self) -> Any:
        """One long table as a ``pandas.DataFrame``."""
        return framework("pandas", "to_pandas").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """The table of :meth:`to_pandas` as a ``polars.DataFrame``."""
        return framework("polars", "to_polars").DataFrame(self._lists())

    def to_arrow(self) -> Any:
        """The table of :meth:`to_pandas` as a ``pyarrow.Table``."""
        return framework("pyarrow", "to_arrow").table(self._lists())

    def _lists(self) -> dict[str, Any]:
        """The columns, those that are not numbers as lists."""
        columns = self._columns().items()
        return {name: values.tolist() if values.dtype == object else values for name, values in columns}


def objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """A column [N] of texts, or of anything else."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def framework(name: str, what: str) -> Any:
    """A package that robustatlas does not need itself."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(f"{what} needs the package {name}, which is not installed; pip install {name}.") from error
