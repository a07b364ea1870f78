"""Tables that several commands print; all fit 80 columns."""

from __future__ import annotations

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table

from robustatlas.outcomes import Result

_COLUMNS = 8


def _shown(count: int) -> list[int]:
    """At most eight of ``count`` strengths, evenly spread, the last one among them."""
    if count <= _COLUMNS:
        return list(range(count))
    return sorted({round((k + 1) * count / _COLUMNS) - 1 for k in range(_COLUMNS)})


def accuracy_tables(result: Result) -> RenderableType:
    """Robust accuracy of each attack at up to eight of its strengths, and what it cost."""
    parts: list[RenderableType] = [
        f"[bold]{result.manifest.settings.model.name}[/bold] on {len(result.labels)} samples of "
        f"{result.manifest.settings.data.name}: {result.clean_accuracy:.1f} % clean accuracy. Robust accuracy in %:"
    ]
    for attack in result.attacks:
        outcome = result.outcome(attack)
        accuracies, strengths = outcome.accuracies(), outcome.strengths
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(attack, style="bold", min_width=10)
        for j in _shown(len(strengths)):
            table.add_column(f"{strengths[j]:.4g}", justify="right")
        table.add_row("", *(f"{accuracies[j]:.1f}" for j in _shown(len(strengths))))
        forward, backward = result.passes(attack)
        parts += [
            table,
            f"[dim]  {forward:.0f} forward + {backward:.0f} backward passes a sample, {outcome.seconds:.1f} s[/dim]",
        ]
    if result.missing:
        lacking = ", ".join(f"{attack} ({count})" for attack, count in result.missing.items())
        parts.append(f"[yellow]Not finished[/yellow], samples missing: {lacking}. The same 'evaluate' goes on.")
    return Group(*parts)
