"""Tables of a study: as texts for terminals and Markdown, and with every number of their cells for CSV."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

from robustatlas.common.escaping import markdown_text, spreadsheet_cell
from robustatlas.studies.numbers import StudyNumber

Cell = str | int | float | StudyNumber

IMAGES = "I: 95 % interval over the choice of images."
TRAININGS = "±: standard deviation over trainings; T: 95 % interval over trainings."


@dataclass(frozen=True)
class Sheet:
    """A table.

    Attributes:
        title: what it is.
        columns: headings; the first is of the names of the rows.
        rows: of cells.
        notes: what a reader has to know, one sentence each.
        digits: of plain numbers after the point.

    Example:
        >>> print(Sheet("small", ("model", "clean"), [("linf", 91.23)]).markdown())
        | model | clean |
        |---|---|
        | linf | 91.2 |
        <BLANKLINE>
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()
    digits: int = 1

    def texts(self) -> list[list[str]]:
        """The cells as texts, of several lines where a number has intervals."""
        return [["\n".join(self._lines(cell)) for cell in row] for row in self.rows]

    def _lines(self, cell: Cell) -> list[str]:
        if isinstance(cell, StudyNumber):
            found = [cell.text + (" *" if cell.masked else "")]
            ends = {name: (each.low, each.high) for name, each in cell.intervals.items()}
            return found + [
                f"{name[0].upper()} [{low:.{cell.digits}f}, {high:.{cell.digits}f}]"
                for name, (low, high) in ends.items()
            ]
        if isinstance(cell, float):
            return ["none" if math.isnan(cell) else f"{cell:.{self.digits}f}"]
        return [str(cell)]

    @property
    def legend(self) -> tuple[str, ...]:
        """Sentences that explain the marks in the cells."""
        cells = [cell for row in self.rows for cell in row if isinstance(cell, StudyNumber) and not cell.why]
        several = any(cell.std is not None for cell in cells)
        found = [IMAGES, TRAININGS][: 1 + several] if cells else []
        found += ["*: gradients mislead, upper bound only."] if any(cell.masked for cell in cells) else []
        return (*found, *self.notes)

    def markdown(self) -> str:
        """Return the table as Markdown."""
        lines = [self.columns, ["---"] * len(self.columns)]
        rows = [[_lines_in_markdown(text) for text in row] for row in (self.columns, *self.texts())]
        head, *body = (f"| {' | '.join(row)} |" for row in rows)
        return "\n".join([head, f"|{'|'.join(lines[1])}|", *body]) + "\n"

    def csv(self) -> str:
        """Return the table as CSV; mean, deviation and both intervals of each number have columns of their own."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        whole = [
            column
            for column in range(len(self.columns))
            if any(isinstance(row[column], StudyNumber) for row in self.rows)
        ]
        writer.writerow([head for column, head in enumerate(self.columns) for head in _heads(head, column in whole)])
        for row in self.rows:
            writer.writerow([value for column, cell in enumerate(row) for value in _values(cell, column in whole)])
        return out.getvalue()


_PARTS = ("std over trainings", "trainings low", "trainings high", "images low", "images high", "trainings")


def _heads(head: str, whole: bool) -> list[str]:
    return [head, *(f"{head}, {part}" for part in _PARTS)] if whole else [head]


def _values(cell: Cell, whole: bool) -> list[str]:
    if not isinstance(cell, StudyNumber) or cell.why:
        return [_csv_text(cell.why if isinstance(cell, StudyNumber) else cell), *[""] * (len(_PARTS) * whole)]
    ends = [cell.intervals.get(name) for name in ("trainings", "images")]
    numbers = [cell.mean, cell.std, *(end for one in ends for end in ((one.low, one.high) if one else (None, None)))]
    numbers.append(cell.over.values.size)
    return ["" if number is None else _csv_text(number) for number in numbers]


def _csv_text(cell: Cell) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(spreadsheet_cell(cell))


def _lines_in_markdown(text: str) -> str:
    return "<br>".join(map(markdown_text, text.split("\n")))
