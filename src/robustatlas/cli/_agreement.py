"""What is printed of how attacks agree on models."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from robustatlas.cli._terminal import in_groups, safe, table, tables_that_fit
from robustatlas.report.facts.agreement import Agreement


def print_uar(console: Console, models: Sequence[str], found: Agreement) -> None:
    """UAR of each model under each attack: rows and columns of figures 6a, 7, 12 and 15 of Kang et al. 2019."""
    rows = [[safe(name), *(f"{score:.0f}" for score in row)] for name, row in zip(models, found.scores, strict=True)]
    for part in tables_that_fit(["UAR, %", *map(safe, found.attacks)], rows, console.width):
        console.print(part)


def print_agreement(console: Console, found: Agreement) -> None:
    if found.correlation is None:
        return
    console.print(f"\nDo the attacks agree? Correlation of {safe(found.over)}:")
    for group in in_groups([5] * len(found.attacks), console.width - max(map(len, found.attacks)) - 6):
        part = table("", *(str(column + 1) for column in group))
        for row, attack in enumerate(found.attacks):
            cells = ["" if k > row else f"{found.correlation[row, k]:.2f}".replace("nan", "-") for k in group]
            part.add_row(f"{row + 1} {safe(attack)}", *cells)
        console.print(part)
