"""The table of robust accuracies of a run, attacks by strengths, with its headline and remarks on its attacks."""

from collections.abc import Iterator, Mapping

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table

from robustatlas.cli._terminal import column_groups, safe
from robustatlas.common.wording import MASKED, add_mark, format_counts, pluralise
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.bounds import upper_bound_status
from robustatlas.outcomes.display import classes_in
from robustatlas.report.accuracy_blocks import accuracy_blocks
from robustatlas.report.facts import RunFacts
from robustatlas.report.numbers.definitions import worst_case_points
from robustatlas.report.numbers.headline import choose_headline, headline_of
from robustatlas.report.numbers.number import (
    WORST,
    Number,
    Numbers,
)
from robustatlas.report.numbers.of_run import numbers_of_run
from robustatlas.report.numbers.texts import range_text, value_text
from robustatlas.report.words import (
    headline_sentence,
    is_worst_case_shown,
    median_sentence,
    percent,
    worst_case_in_words,
)
from robustatlas.results.result import Result

_GAP = 2
"""Columns between two columns of a table."""

_GOES_ON = "The same 'evaluate' goes on."

_WITH_SPANS = 6
"""Runs of more attacks have no room for an interval below each number."""

_STRENGTH = "Strength: the largest change that an attack may make, in its unit (robustatlas attacks NAME)."


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
    name = safe(add_mark(result.name, result.is_suspect))
    console.print(
        f"[bold]{name}[/bold] on {result.samples} samples of {safe(result.data)} ({classes_in(result)}): "
        f"{result.clean_accuracy:.1f} % clean accuracy."
    )
    judged = result.select_judged()
    numbers = numbers_of_run(result, worst_case_points(judged))
    if (leading := headline_of(numbers, choose_headline([judged], first or None))) is not None:
        console.print(f"[bold]{safe(headline_sentence(leading))}[/bold].")
    print_table(result, numbers, console)
    if (worst := numbers.find(WORST)) is not None and is_worst_case_shown(worst):
        console.print(f"[bold]{safe(percent(worst))}[/bold] withstand {safe(worst_case_in_words(worst))}.")
    if (median := numbers.weakest_attack()) is not None:
        console.print(safe(median_sentence(median)))
    if result.diagnosis is not None:
        style = "yellow" if result.diagnosis.has_doubts else "dim"
        console.print(f"[{style}]{safe(result.diagnosis.sentence)}[/{style}]")
    if result.missing:
        lacking = safe(format_counts(result.missing))
        console.print(f"[yellow]Not finished[/yellow], samples missing: {lacking}. {safe(rest or _GOES_ON)}")


def print_table(
    result: Result, numbers: Numbers, console: Console, *, every: bool = False, explain: bool = False
) -> None:
    """Print the table of robust accuracies, and what has to be said of single attacks."""
    made, fewer = _table(result, numbers, console.width, every)
    console.print(made)
    spans = "" if len(result.attacks) > _WITH_SPANS else ", and the 95 % interval below"
    console.print(f"[dim]Percent of the images that stay correct{spans}. {_STRENGTH}[/dim]")
    if fewer:
        console.print("[dim]Some strengths are left out; --all shows all of them.[/dim]")
    for attack in result.attacks:
        for line in _attack_notes(result, attack, explain):
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
        f"[dim]{pluralise(len(facts.attacks), 'attack')}: {safe('; '.join(origins))}. {passes:,.0f} passes an image "
        f"(forward and backward passes of the network), {seconds:,.1f} s in all.[/dim]"
    )
    if facts.provenance:
        told = ", ".join(f"{what} {safe(text)}" for what, text in facts.provenance.items())
        console.print(f"[dim]model: {told}[/dim]")


def _attack_notes(result: Result, attack: str, explain: bool) -> Iterator[RenderableType]:
    outcome, certified = result.outcome(attack), result.certified_sizes.get(attack)
    forward, backward = result.passes(attack)
    files = outcome.surviving_files()
    said = [MASKED] if masked_shares(result, [attack]) else []
    said += ["not every strength was searched"] if not outcome.is_judged else []
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


def _table(result: Result, numbers: Numbers, width: int, every: bool) -> tuple[Table, bool]:
    blocks = list(accuracy_blocks(result, numbers))
    spans = len(result.attacks) <= _WITH_SPANS
    labels = max([len("worst case"), *(len(label) for block in blocks for label, _, _ in block.rows)])
    below = [_ends(number) for block in blocks for _, found, _ in block.rows for number in found if spans]
    widest = max(5, *map(len, below), *(len(heading) for block in blocks for heading in block.headings))
    room = max(width - labels - len("100.0") - 3 * _GAP, widest + _GAP)
    chunks, fewer = [], False
    for block in blocks:
        groups = column_groups([widest] * len(block.headings), room)
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
        for label, found, mean in block.rows:
            under = [f"\n[dim]{ends}[/dim]" if spans and (ends := _ends(found[j])) else "" for j in group]
            cells = [f"{value_text(found[j])}{ends}" for j, ends in zip(group, under, strict=True)]
            made.add_row(safe(label), *cells, *empty, f"{mean:.1f}" if first else "")
        made.add_section()
    return made, fewer


def _ends(number: Number) -> str:
    return range_text(number, digits=0).replace(" to ", "-")


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
