"""The robustness card in a terminal: a row of blocks for each attack."""

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.table import Table

from robustatlas.cli._terminal import number_cell, safe, table
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, format_size
from robustatlas.common.wording import MASKED, add_mark
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.run import RunFacts

_BLOCKS = "·░▒▓█"
_LETTERS = ".-=*#"
"""Accuracies from 0 to 100 %, where an encoding has no blocks."""

_WIDE_ROW, _NARROW_ROW = 24, 12
"""Blocks of a row."""

_NARROW, _WIDE = 72, 96
"""Terminals below these widths have no room for rows of full length, and for intervals."""


def print_strips(facts: RunFacts, console: Console) -> None:
    """Print a row for each attack, and how to read it."""
    console.print(strip_table(facts, console))
    own = " ~: another threat model than the reference's." if any(attack.own_threat for attack in facts.attacks) else ""
    legend = f"The fuller a block, the more images stay correct, up to the last strength. |: median size.{own}"
    console.print(f"[dim]{legend}[/dim]")


def strip_table(facts: RunFacts, console: Console) -> Table:
    """Return one row an attack: its strip, its median size, its average accuracy, and the accuracy at the strength that
    papers give."""
    wide, ranged = console.width >= _NARROW, console.width >= _WIDE
    rows = table("attack", *_HEADINGS[wide])
    rows.columns[0].no_wrap, rows.columns[1].justify = True, "left"
    for attack in facts.attacks:
        average = number_cell(attack.average) if ranged else f"{attack.average.value:.1f}" if attack.average else "-"
        mark = f"\n{MASKED.replace('upper ', f'upper{chr(10)}')}" if masked_shares(facts, [attack.attack]) else ""
        about = "~" if attack.own_threat else ""
        rows.add_row(
            safe(about + add_mark(attack.attack, attack.attack in facts.invalid)),
            _strip(attack, console.encoding, _WIDE_ROW if wide else _NARROW_ROW),
            format_size(attack.median.value, attack=attack.attack),
            f"{average}{mark}",
            _standard(attack),
        )
    return rows


_HEADINGS = {
    True: ("weak to strong", "median\nsize", "average, %", "at, %"),
    False: ("weak to\nstrong", "median\nsize", "aver-\nage, %", "at, %"),
}
"""By whether the terminal is wide."""


def _strip(attack: AttackFacts, encoding: str, length: int) -> str:
    """Return the accuracies of an attack as blocks, up to its last strength."""
    if attack.curve is None:
        return ""
    last = float(attack.strengths[-1])
    accuracies = attack.curve.robust_accuracy(last * (np.arange(length) + 0.5) / length).tolist()
    return blocks(accuracies, attack.median.value / last, encoding)


def blocks(accuracies: Sequence[float], mark: float, encoding: str = "utf-8") -> str:
    """Return accuracies as blocks: the fuller, the more images stay correct; | at a share of the row, if within it.

    Example:
        >>> blocks([100.0] * 5 + [20.0] * 3, 0.5)
        '████|░░░'
    """
    letters = _BLOCKS if "utf" in encoding.lower() else _LETTERS
    row = [letters[min(int(accuracy / 20), 4)] for accuracy in accuracies]
    if mark <= 1:
        row[min(int(mark * len(row)), len(row) - 1)] = "|"
    return "".join(row)


def _standard(attack: AttackFacts) -> str:
    """Return the accuracy at the strength that papers give: one number where it was searched, else its bounds."""
    if attack.standard is None:
        return "-"
    low, high = attack.standard
    return f"{STANDARD_STRENGTHS[attack.attack][1]}: {low:.1f}{f'-{high:.1f}' if high > low else ''}"
