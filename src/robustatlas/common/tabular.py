"""Tables for terminals and notebooks that convert to data frames of other packages."""

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
from robustatlas.common.wording import pluralise

MOST_ROWS = 60
"""Number of rows that a display shows; a last row counts the others."""


@dataclass(frozen=True)
class Grid:
    """Table of texts for display.

    Attributes:
        title: above the table; may be empty.
        headings: of the C columns.
        rows: R rows of C texts.
        numbers: positions of columns that are aligned to the right.
    """

    title: str
    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: tuple[int, ...] = ()

    @property
    def visible_rows(self) -> list[tuple[str, ...]]:
        """Rows of the display; if there are too many, the last one counts the hidden rows."""
        if len(self.rows) <= MOST_ROWS:
            return list(self.rows)
        rest = f"and {pluralise(len(self.rows) - MOST_ROWS, 'more row')}"
        return [*self.rows[:MOST_ROWS], (rest, *("",) * (len(self.headings) - 1))]

    def text(self) -> str:
        """Return the table as lines with aligned columns, for ``repr``."""
        cells = [[*map(visible_text, row)] for row in (self.headings, *self.visible_rows)]
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
        """Return the table for ``rich.print``; names that look like markup are escaped."""
        title = terminal_text(self.title) or None
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        for position, heading in enumerate(self.headings):
            table.add_column(terminal_text(heading), justify="right" if position in self.numbers else "left")
        for row in self.visible_rows:
            table.add_row(*map(terminal_text, row))
        return table

    def html(self) -> str:
        """Return the table for notebooks; all texts are escaped."""
        caption = f"<caption>{html_text(self.title)}</caption>" if self.title else ""
        head = "".join(f"<th>{html_text(heading)}</th>" for heading in self.headings)
        body = "".join(
            f"<tr>{''.join(f'<td>{html_text(cell)}</td>' for cell in row)}</tr>" for row in self.visible_rows
        )
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Tabular(ABC):
    """Base of classes that display as a table (``_grid``) and convert to data frames (``_columns``).

    A dataclass that derives from it must be declared with ``repr=False``.
    """

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
        """Return the table in long form as a ``pandas.DataFrame``."""
        return import_framework("pandas", "to_pandas").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """Return the table of :meth:`to_pandas` as a ``polars.DataFrame``."""
        return import_framework("polars", "to_polars").DataFrame(self._lists())

    def to_arrow(self) -> Any:
        """Return the table of :meth:`to_pandas` as a ``pyarrow.Table``."""
        return import_framework("pyarrow", "to_arrow").table(self._lists())

    def _lists(self) -> dict[str, Any]:
        """Return the columns; those of objects become lists, as polars and pyarrow expect."""
        columns = self._columns().items()
        return {name: values.tolist() if values.dtype == object else values for name, values in columns}


def object_column(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return a column [N] of any Python objects, such as texts."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def import_framework(name: str, what: str) -> Any:
    """Import an optional package for the method ``what``."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(f"{what} needs the package {name}, which is not installed; pip install {name}.") from error
