"""What a run found, in one table of attacks by strengths, and what to think of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table

from robustatlas.cli._terminal import in_groups, safe, shown
from robustatlas.common.standard import NEAR, STANDARD
from robustatlas.common.wording import MASKED, beside_masked, counted, counts, marked, strength
from robustatlas.metrics.intervals import Interval
from robustatlas.outcomes.bounds import upper_bound_status
from robustatlas.outcomes.display import classes_in
from robustatlas.outcomes.masked import masked
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts import RunFacts
from robustatlas.report.facts.attack import accuracies_of
from robustatlas.report.facts.breaking import breaking_point
from robustatlas.report.facts.headline import Headline, headline_of, worst_case_of
from robustatlas.report.facts.units import unit_of
from robustatlas.report.words import half_words
from robustatlas.results.result import Result

_GAP = 2
"""Columns between two columns of a table."""

_GOES_ON = "The same 'evaluate' goes on."

_WITH_SPANS = 6
"""Runs of more attacks have no room for an interval below each number."""

_STRENGTH = "Strength: the largest change that an attack may make, in its unit (robustatlas attacks NAME)."


@dataclass
class _Block:
    """Attacks at the same strengths of one unit.

    Attributes:
        headings: of the strengths.
        usual: position of the strength at which papers give accuracies; None where none is.
        rows: what a row is called, its numbers, and their intervals where each has one.
    """

    headings: tuple[str, ...]
    usual: int | None = None
    attacks: list[str] = field(default_factory=list)
    rows: list[tuple[str, Sequence[float], Sequence[Interval]]] = field(default_factory=list)


def print_accuracies(
    result: Result,
    console: Console,
    *,
    rest: str | None = None,
    first: Mapping[str, float] | None = None,
) -> None:
    """Print what a run found: the headline, the table, and three lines on what to think of it.

    Args:
        rest: who does what is missing, a sentence; None: the same command.
        first: attack -> strength of the headline; None: the usual one.
    """
    name = safe(marked(result.name, result.suspect))
    console.print(
        f"[bold]{name}[/bold] on {result.samples} samples of {safe(result.data)} ({classes_in(result)}): "
        f"{result.clean_accuracy:.1f} % clean accuracy."
    )
    judged = result.judged()
    leading, worst = headline_of(judged, first or None), worst_case_of(judged)
    if leading is not None:
        console.print(_withstand(result, leading))
    print_table(result, console)
    if worst is not None and leading is not None and worst.at != leading.at:
        console.print(_withstand(result, worst))
    if (point := breaking_point(result)) is not None:
        console.print(safe(half_words(point.attack, point.half, masked(result, [point.attack]))))
    if result.diagnosis is not None:
        style = "yellow" if result.diagnosis.has_doubts else "dim"
        console.print(f"[{style}]{safe(result.diagnosis.sentence)}[/{style}]")
    if result.missing:
        lacking = safe(counts(result.missing))
        console.print(f"[yellow]Not finished[/yellow], samples missing: {lacking}. {safe(rest or _GOES_ON)}")


def _withstand(result: Result, said: Headline) -> str:
    number = beside_masked(f"[bold]{shown(said.accuracy)} %[/bold]", masked(result, said.at))
    return f"{number} withstand {safe(said.explained())}."


def print_table(result: Result, console: Console, *, every: bool = False, explain: bool = False) -> None:
    """Print the table of robust accuracies, and what has to be said of single attacks."""
    made, fewer = _table(result, console.width, every)
    console.print(made)
    spans = "" if len(result.attacks) > _WITH_SPANS else ", and the 95 % interval below"
    console.print(f"[dim]Percent of the images that stay correct{spans}. {_STRENGTH}[/dim]")
    if fewer:
        console.print("[dim]Some strengths are left out; --all shows all of them.[/dim]")
    for attack in result.attacks:
        for line in _about(result, attack, explain):
            console.print(line)
    for row in (row for row in result.certified_sizes if row not in result.attacks):
        said = f"{row}: certified by {', '.join(result.certified_sizes[row].methods)}; no attack was run"
        console.print(Padding(f"[dim]{safe(said)}[/dim]", (0, 0, 0, 2)))


def print_provenance(facts: RunFacts, console: Console) -> None:
    """Print what the run is: how its attacks searched, what that cost, and where the model comes from."""
    origins = dict.fromkeys(origin for attack in facts.attacks for origin in attack.origins)
    passes = sum(attack.forward + attack.backward for attack in facts.attacks)
    seconds = sum(attack.seconds for attack in facts.attacks)
    console.print(
        f"[dim]{counted(len(facts.attacks), 'attack')}: {safe('; '.join(origins))}. {passes:,.0f} passes an image "
        f"(forward and backward passes of the network), {seconds:,.1f} s in all.[/dim]"
    )
    if facts.provenance:
        told = ", ".join(f"{what} {safe(text)}" for what, text in facts.provenance.items())
        console.print(f"[dim]model: {told}[/dim]")


def _about(result: Result, attack: str, explain: bool) -> Iterator[RenderableType]:
    outcome, certified = result.outcome(attack), result.certified_sizes.get(attack)
    forward, backward = result.passes(attack)
    files = outcome.surviving_files()
    said = [MASKED] if masked(result, [attack]) else []
    said += ["not every strength was searched"] if not outcome.judged else []
    said += [only] if (only := upper_bound_status(outcome.unsearched)) else []
    said += [] if files is None else [f"{files[0]} of {files[1]} examples stay ones in an 8-bit file"]
    said += [f"certified by {', '.join(certified.methods)}"] if certified is not None else []
    if explain:
        cost = f"{forward:.0f} forward + {backward:.0f} backward passes a sample, {outcome.seconds:.1f} s"
        said += [cost, *outcome.origins]
    if said:
        yield Padding(f"[dim]{safe(attack)}: {safe('; '.join(said))}[/dim]", (0, 0, 0, 2))
    if attack in (audits := result.audit_sentences()):
        yield Padding(safe(f"{attack}: in the mean over the strengths {audits[attack]}."), (0, 0, 0, 2))


def _table(result: Result, width: int, every: bool) -> tuple[Table, bool]:
    blocks = list(_blocks(result))
    spans = len(result.attacks) <= _WITH_SPANS
    labels = max([len("worst case"), *(len(label) for block in blocks for label, _, _ in block.rows)])
    below = [_span(end) for block in blocks for _, _, found in block.rows for end in found if spans]
    widest = max(5, *map(len, below), *(len(heading) for block in blocks for heading in block.headings))
    room = max(width - labels - len("100.0") - 3 * _GAP, widest + _GAP)
    chunks, fewer = [], False
    for block in blocks:
        groups = in_groups([widest] * len(block.headings), room)
        if not every:
            fewer |= len(groups) > 1
            groups = [_spread(len(block.headings), len(groups[0]), block.usual)]
        chunks += [(block, group, number == 0) for number, group in enumerate(groups)]
    columns = max((len(group) for _, group, _ in chunks), default=1)
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_header=False)
    made.add_column(style="bold", no_wrap=True)
    for _ in range(columns + 1):
        made.add_column(justify="right", no_wrap=True)
    for block, group, first in chunks:
        empty = [""] * (columns - len(group))
        heads = [f"[bold]{block.headings[j]}[/bold]" for j in group]
        made.add_row("[dim]strength[/dim]", *heads, *empty, "[bold]mean[/bold]" if first else "")
        for label, values, ends in block.rows:
            under = [f"\n[dim]{_span(ends[j])}[/dim]" if spans and len(ends) else "" for j in group]
            numbers = [f"{values[j]:.1f}{span}" for j, span in zip(group, under, strict=True)]
            made.add_row(safe(label), *numbers, *empty, f"{sum(values) / len(values):.1f}" if first else "")
        made.add_section()
    return made, fewer


def _span(interval: Interval) -> str:
    return f"{interval.low:.0f}-{interval.high:.0f}"


def _blocks(result: Result) -> Iterator[_Block]:
    """The attacks, those at the same strengths of one unit together; below several the worst case and the mean."""
    blocks: dict[tuple[str, ...], _Block] = {}
    for attack in result.attacks:
        outcome = result.outcome(attack)
        if outcome.judged:
            grid = outcome.strengths.tolist()
            headings = tuple(strength(each, 3, of=attack) for each in grid)
            unit = unit_of(attack, outcome.unit)
            block = blocks.setdefault((unit, *headings), _Block(headings, _usual(attack, grid)))
            block.attacks.append(attack)
            block.rows += _rows(result, attack)
    for row, held in result.certified_sizes.items():
        if row not in result.attacks:
            headings = tuple(strength(each, 3, of=held.attack) for each in held.strengths)
            block = blocks.setdefault((unit_of(held.attack), *headings), _Block(headings))
            block.rows.append((f"{row} certified", held.accuracies().tolist(), ()))
    for block in blocks.values():
        if len(block.attacks) > 1:
            block.rows += _over(result, block.attacks)
        yield block


def _rows(result: Result, attack: str) -> Iterator[tuple[str, Sequence[float], Sequence[Interval]]]:
    """The accuracies of an attack; beside the worst case what is typical, or what is certified."""
    outcome, certified = result.outcome(attack), result.certified_sizes.get(attack)
    label, values = marked(attack, attack in result.invalid), outcome.accuracies().tolist()
    yield label, values, accuracies_of(outcome) or ()
    if outcome.typical is not None:
        yield "  typical", outcome.typical_accuracies().tolist(), ()
    if certified is not None:
        yield "  certified", certified.accuracies(outcome.strengths).tolist(), ()


def _over(table: OutcomeTable, attacks: Sequence[str]) -> Iterator[tuple[str, Sequence[float], Sequence[Interval]]]:
    """The worst case over attacks that have the same strengths, and their mean."""
    grid = table.distances(attacks[0]).tolist()
    standing: list[Mapping[str, float]] = [dict.fromkeys(attacks, each) for each in grid]
    yield "worst case", [100 * float(table.survivors_within(at).mean()) for at in standing], ()
    means = np.mean([table.outcome(attack).accuracies() for attack in attacks], axis=0)
    yield "mean", means.tolist(), ()


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
