"""The robustness card in a terminal: a row of blocks for each attack."""

from rich.console import Console
from rich.table import Table

from robustatlas.cli._terminal import number_cell, safe, table
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, format_size
from robustatlas.common.wording import MASKED, add_mark
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts
from robustatlas.report.facts.card import ResultCard
from robustatlas.report.facts.run import RunFacts
from robustatlas.report.facts.strips import CELLS, Strip

_BLOCKS = "·░▒▓█"
_LETTERS = ".-=*#"
"""Accuracies from 0 to 100 %, where an encoding has no blocks."""

_PER_BLOCK = 2
"""Cells of a card to a block."""

_NARROW, _WIDE = 72, 96
"""Terminals below these widths have no room for blocks of full length, and for intervals."""


def print_strips(facts: RunFacts, card: ResultCard, console: Console) -> None:
    console.print(strip_table(card, facts, console))
    own = " ~: another threat model than the reference's." if any(attack.own_threat for attack in facts.attacks) else ""
    mark = " ◇" if "utf" in console.encoding.lower() else " o"
    reference = f"{mark}: the reference's." if any(strip.reference is not None for strip in card.strips) else ""
    axis = f"{safe(card.axis).capitalize()}."
    legend = f"The fuller a block, the more images stay correct. |: clean accuracy halved.{reference}{own} {axis}"
    console.print(f"[dim]{legend}[/dim]")


def strip_table(card: ResultCard, facts: RunFacts, console: Console) -> Table:
    """One row an attack: its strip, where half of the clean accuracy is left, its average accuracy, and at every width
    the accuracy at the strength that papers give."""
    strips = {strip.attack: strip for strip in card.strips}
    wide, ranged = console.width >= _NARROW, console.width >= _WIDE
    rows = table("attack", *_HEADINGS[wide])
    rows.columns[0].no_wrap, rows.columns[1].justify = True, "left"
    for attack in facts.attacks:
        average = number_cell(attack.average) if ranged else f"{attack.average.value:.1f}" if attack.average else "-"
        mark = f"\n{MASKED.replace('upper ', f'upper{chr(10)}')}" if masked_shares(facts, [attack.attack]) else ""
        about = "~" if attack.own_threat else ""
        rows.add_row(
            safe(about + add_mark(attack.attack, attack.attack in facts.invalid)),
            blocks(strips[attack.attack], console.encoding, wide) if attack.attack in strips else "",
            format_size(attack.median.value, attack=attack.attack),
            f"{average}{mark}",
            _standard(attack),
        )
    return rows


_HEADINGS = {
    True: ("weak to strong", "halved\nfrom", "average, %", "at, %"),
    False: ("weak to\nstrong", "halved\nfrom", "aver-\nage, %", "at, %"),
}
"""By whether the terminal is wide."""


def blocks(strip: Strip, encoding: str = "utf-8", wide: bool = True) -> str:
    """A strip as letters: the fuller, the more images stay correct; | where the clean accuracy is halved, ◇ where that
    of the reference is, nothing where it was not searched.

    Example:
        >>> from robustatlas.report.facts.strips import Strip
        >>> shades = (100.0,) * 24 + (20.0,) * 12 + (None,) * 12
        >>> blocks(Strip("l2", "L2", shades, 1.0, 0.5, 0.4, 0.6, None, False, None, False))
        '████████████|░░░░░'
    """
    letters, diamond = (_BLOCKS, "◇") if "utf" in encoding.lower() else (_LETTERS, "o")
    step = _PER_BLOCK if wide else 2 * _PER_BLOCK
    row = []
    for first in range(0, CELLS, step):
        known = [shade for shade in strip.shades[first : first + step] if shade is not None]
        row.append(letters[min(int(sum(known) / len(known) / 20), 4)] if known else " ")
    if strip.reference is not None:
        row[min(int(strip.reference * len(row)), len(row) - 1)] = diamond
    if strip.tick is not None:
        row[min(int(strip.tick * len(row)), len(row) - 1)] = "|"
    return "".join(row).rstrip()


def _standard(attack: AttackFacts) -> str:
    """The accuracy at the strength that papers give: one number where it was searched, else what is known of it."""
    if attack.standard is None:
        return "-"
    low, high = attack.standard
    return f"{STANDARD_STRENGTHS[attack.attack][1]}: {low:.1f}{f'-{high:.1f}' if high > low else ''}"
