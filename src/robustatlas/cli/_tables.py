"""Tables that several commands print; all fit 80 columns."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from robustatlas.outcomes import Result

_CHARACTERS = 66
"""For the columns of strengths, three characters of each being spaces."""


def _shown(headings: list[str]) -> list[int]:
    """Positions of as many strengths as fit, evenly spread, the last one among them."""
    count, columns = len(headings), min(8, _CHARACTERS // (3 + max(5, *map(len, headings))))
    if count <= columns:
        return list(range(count))
    return sorted({round((k + 1) * count / columns) - 1 for k in range(columns)})


def accuracy_tables(result: Result) -> RenderableType:
    """Robust accuracy of each attack at up to eight of its strengths, and what that cost."""
    parts: list[RenderableType] = [
        f"[bold]{result.manifest.settings.model.name}[/bold] on {len(result.labels)} samples of "
        f"{result.manifest.settings.data.name}: {result.clean_accuracy:.1f} % clean accuracy. Robust accuracy in %:"
    ]
    for attack in result.attacks:
        outcome = result.outcome(attack)
        accuracies, strengths = outcome.accuracies(), outcome.strengths
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(attack, style="bold", min_width=10)
        headings = [f"{strength:.3g}" for strength in strengths]
        for j in _shown(headings):
            table.add_column(headings[j], justify="right")
        table.add_row("", *(f"{accuracies[j]:.1f}" for j in _shown(headings)))
        forward, backward = result.passes(attack)
        parts += [
            table,
            f"[dim]  {forward:.0f} forward + {backward:.0f} backward passes a sample, {outcome.seconds:.1f} s[/dim]",
        ]
    if result.missing:
        lacking = ", ".join(f"{attack} ({count})" for attack, count in result.missing.items())
        parts.append(f"[yellow]Not finished[/yellow], samples missing: {lacking}. The same 'evaluate' goes on.")
    return Group(*parts)
