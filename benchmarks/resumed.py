"""Benchmarks that stop and go on: what the output has already is not computed again, and each new row is written."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]


class Resumed:
    """The rows of a result file, one or more for each network.

    Attributes:
        rows: those that were read, and those added since.
    """

    def __init__(self, output: Path | None, beside: Callable[[list[Row]], Mapping[str, Any]] = lambda rows: {}) -> None:
        """Read what is there.

        Args:
            output: a JSON file whose ``networks`` are the rows; None: nothing is read or written.
            beside: from the rows to what is written before them.
        """
        self.output, self.beside = output, beside
        self.rows: list[Row] = []
        if output and output.is_file():
            self.rows = json.loads(output.read_text(encoding="utf-8"))["networks"]

    def __contains__(self, network: str) -> bool:
        return any(row["network"] == network for row in self.rows)

    def add(self, row: Row) -> None:
        """Keep a row, and write."""
        self.rows.append(row)
        self.write()

    def write(self, **more: Any) -> None:
        """Write all rows, and ``more`` before them."""
        if self.output:
            found = {**self.beside(self.rows), **more, "networks": self.rows}
            self.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
