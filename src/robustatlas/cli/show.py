"""``robustatlas show``: what a run found."""

import csv
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from robustatlas.cli import _runs
from robustatlas.cli._accuracies import print_provenance, print_table
from robustatlas.cli._card import print_strips
from robustatlas.cli._help import OUTPUT, FullHelp
from robustatlas.cli._options import parse_attack_strengths
from robustatlas.cli._terminal import (
    number_cell,
    print_definitions,
    safe,
    shell_lines,
    table,
    tables_of_numbers,
    tables_that_fit,
)
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import visible_text
from robustatlas.common.typed_strengths import format_size, format_strength, text_as_typed, value_as_typed
from robustatlas.common.wording import (
    UPPER_BOUND,
    add_mark,
    format_counts,
    format_rough,
    join_words,
    label_masked,
    list_names,
)
from robustatlas.metrics.references import Reference
from robustatlas.metrics.registry import attack_metrics, model_metrics
from robustatlas.outcomes.strengths import levels_hint, read_strength, strengths_as_typed
from robustatlas.report.facts import Beside, RunFacts, choose_reference, facts_of, hold_against
from robustatlas.report.facts.card import card_of
from robustatlas.report.facts.run import ReferenceFacts, TrainingFacts
from robustatlas.report.facts.run_json import run_as_json
from robustatlas.report.in_latex import run_in_latex
from robustatlas.report.numbers.number import CERTIFIED, CLEAN, ROBUST, TYPICAL, WORST, Number
from robustatlas.report.numbers.steadiness import Steadiness
from robustatlas.report.words import WITHOUT, findings, worst_case_in_words
from robustatlas.report.words import headline as headline_in_words
from robustatlas.results.result import Result, load_result


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Run directory.")],
    trained_on: _runs.TrainedOn = None,
    union: _runs.Union = None,
    headline: _runs.Headline = None,
    reference: _runs.Reference = None,
    weights: _runs.Weights = None,
    alpha: _runs.Alpha = None,
    difficulty: _runs.Difficulty = None,
    explain: _runs.Explain = False,
    every: Annotated[
        bool,
        OUTPUT.flag(
            "--all", "Show the accuracy at every strength, in several rows where the terminal is too narrow for one."
        ),
    ] = False,
    as_json: Annotated[bool, OUTPUT.flag("--json", "Print every number as JSON, and no tables.")] = False,
    as_csv: Annotated[
        bool,
        OUTPUT.flag(
            "--csv", "Print attack, strength, accuracy, its interval and the certified accuracy as CSV, and no tables."
        ),
    ] = False,
    as_latex: Annotated[bool, OUTPUT.flag("--latex", "Print the table for a paper (package booktabs).")] = False,
    help_all: FullHelp = False,
) -> None:
    r"""Print what a run found: how robust, the rank, and a row for each attack; every metric with --explain.

    All metrics of a run, with their meanings, for a model that was trained against linf:

    ```bash
    robustatlas show runs/mynet-cifar10 \
        --trained-on linf=8/255 --explain
    ```
    """
    forms = [form for form, asked in (("--json", as_json), ("--csv", as_csv), ("--latex", as_latex)) if asked]
    if len(forms) > 1:
        raise UserError(f"{join_words(forms)} are given together; give one of them.")
    asked = parse_attack_strengths(trained_on, "--trained-on")
    training = None if asked is None else strengths_as_typed(asked)
    attacks = parse_attack_strengths(union, "--union") or None
    result = load_result(run)
    chosen = choose_reference(reference, [result], weights)
    first = parse_attack_strengths(headline, "--headline") or None
    facts = load_facts(result, chosen or "none", training, attacks, _runs.steadiness(alpha, difficulty), first)
    if as_json:
        sys.stdout.write(json.dumps(run_as_json(facts), indent=1, allow_nan=False) + "\n")
    elif as_csv:
        _write_csv(facts)
    elif as_latex:
        sys.stdout.write(run_in_latex(facts))
    else:
        console = Console(highlight=False)
        console.print(f"[bold]{safe(facts.name)}[/bold]: {safe(headline_in_words(facts))}")
        print_table(result, facts.numbers, console, every=every, explain=explain)
        print_judgement(facts, console)
        for certified in facts.certified:
            console.print(safe(certified.sentence))
        for found in _query_tables(facts):
            console.print(found)
        if explain:
            print_strips(facts, card_of(result, facts, chosen), console)
            print_facts(facts, console, explain=True, trained_on=training)
        print_provenance(facts, console)
        if not explain:
            console.print("[dim]Every number, and what it means: --explain. Every strength: --all.[/dim]")


def load_facts(
    result: Result,
    reference: str | Reference | None = None,
    trained_on: Mapping[str, float] | None = None,
    union: Mapping[str, float] | None = None,
    steadiness: Steadiness | None = None,
    headline: Mapping[str, float] | None = None,
) -> RunFacts:
    """The facts of a run, held against the reference that is asked for (by default the one that fits)."""
    chosen = reference if isinstance(reference, Reference) else choose_reference(reference, [result])
    if trained_on is not None:
        _check_trained_on(trained_on, chosen)
    if chosen:
        hold_against(result, chosen).require()
    return facts_of(
        result, reference=chosen, trained_on=trained_on, union=union, steadiness=steadiness, headline=headline
    )


def print_judgement(facts: RunFacts, console: Console) -> None:
    """Print three lines on what to think of it, and what to beware of."""
    for about, number, text in findings(facts):
        if about == WITHOUT:  # which the headline says
            continue
        stop = "." if text[:1].isupper() else ""
        console.print(f"{safe(about)}: [bold]{safe(number)}[/bold]{stop} {safe(text)}")
    if facts.diagnosis is not None:
        console.print(safe(facts.diagnosis.sentence))
    for sentence in facts.calibrations:
        console.print(safe(sentence))
    for beside in facts.beside:
        console.print(safe(beside.sentence))
    for attack in facts.attacks:
        if attack.best_known:
            console.print(safe(attack.best_known.sentence(attack.attack)))
    if facts.advice:
        named = join_words([one.attack for one in facts.advice])
        console.print(f"[yellow]Strengths that tell little[/yellow], {safe(named)}; better:")
        for line in shell_lines(facts.extended, console.width - 4):
            console.print(f"    {visible_text(line)}", markup=False, soft_wrap=True)
    for warning in facts.warnings:
        console.print(f"[yellow]Warning:[/yellow] {safe(warning)}")
    if facts.missing:
        console.print(f"[yellow]Not finished[/yellow], samples missing: {safe(format_counts(facts.missing))}.")


def print_facts(
    facts: RunFacts, console: Console, *, explain: bool = False, trained_on: Mapping[str, float] | None = None
) -> None:
    """Print every number of a run, with intervals.

    Args:
        explain: whether to print the definitions of the numbers below them.
        trained_on: what the model was trained on, to name what takes no part.
    """
    names = ["clean accuracy", "average accuracy", "median size", "curve area", "interval"]
    console.print(_overall(facts))
    if facts.worst:
        names.append(WORST)
        console.print(f"[dim]{WORST}: {safe(worst_case_in_words(facts.worst))}.[/dim]")
    names += [metric.name for metric in model_metrics() if any(name.startswith(metric.name) for name in facts.own)]
    console.print(*_attack_tables(facts, console.width))
    if any(attack.frontier for attack in facts.attacks):
        names.append("AH")
        console.print(*_hypervolumes(facts, console.width))
        bounds = [attack.attack for attack in facts.attacks if attack.frontier and not attack.frontier.searched]
        if bounds:
            console.print(
                f"AH of {safe(list_names(bounds))} is an {UPPER_BOUND}: the lowest margins were not searched for "
                "(--search frontier does)."
            )
    uneven = sorted(attack.attack for attack in facts.attacks if not attack.equal_steps)
    if uneven:
        console.print(f"No adversarial hypervolume of {safe(list_names(uneven))}: the strengths are not equal steps.")
    if facts.reference:
        names += _print_against(facts.reference, console, trained_on)
    for beside in facts.beside:
        _print_field(beside, console)
    if explain:
        _print_kinds(facts, console)
        print_definitions(console, names)


def _print_kinds(facts: RunFacts, console: Console) -> None:
    for attack in facts.attacks:
        if attack.found_last:
            rows = table(f"{safe(attack.attack)}: the smallest example was found by", "% of samples")
            for kind, share in sorted(attack.found_last.items(), key=lambda item: -item[1]):
                rows.add_row(safe(kind), f"{share:.1f}")
            console.print(rows)


def _print_against(facts: ReferenceFacts, console: Console, trained_on: Mapping[str, float] | None) -> list[str]:
    """Print the numbers that the reference gives; their names."""
    for note in facts.held.notes():
        if note not in facts.held.doubts:  # said above, with the warnings
            console.print(safe(note))
    rows = table(f"against {safe(facts.name)}", "")
    for name, number in facts.numbers.items():
        rows.add_row(add_mark(name, facts.masked), number_cell(number))
    names = [*facts.numbers, "UAR"]
    has_ratios = any(name.startswith("CR") for name in facts.numbers)
    if has_ratios:
        names.append("CR")
    if facts.training:
        names += ["seen", "SC"]
        ratios = facts.training.ratios
        rows.add_row("seen", f"{facts.training.seen:.1f}")
        rows.add_row("CR in", f"{ratios.inside:.1f}")
        rows.add_row("CR out", "-" if math.isnan(ratios.outside) else f"{ratios.outside:.1f}")
        for floor, constant in facts.training.stability.items():
            name = f"SC, floor {floor:g}" if floor else "SC"
            rows.add_row(add_mark(name, facts.masked), label_masked(_steadiness(facts.training, floor), facts.masked))
            if constant.pair:
                rows.add_row("", f"[dim]{safe(' and '.join(constant.pair))}[/dim]")
    console.print(rows)
    unused = [attack for attack in trained_on or () if attack not in facts.held.ranked]
    if unused:
        console.print(f"Trained on {safe(list_names(unused))}, of which no point is compared here.")
    if trained_on is None and has_ratios:
        console.print("Say what the model was trained on, such as --trained-on linf=0.03, for SC, CR in and out.")
    return names


def _steadiness(training: TrainingFacts, floor: float) -> str:
    ends = training.steadiness.get(floor)
    return (
        "- (no pair)"
        if ends is None
        else safe(
            f"{format_rough(ends.value)} [{format_rough(ends.low)}, {format_rough(ends.high)}], lower is steadier"
        )
    )


def _print_field(beside: Beside, console: Console) -> None:
    console.print(f"\n{safe(beside.sentence)}")
    rows = table("beside it", safe(f"{beside.point}, %"), "clean, %")
    for entry in beside.neighbours:
        rows.add_row(safe(entry.name), f"{entry.accuracy:.2f}", f"{entry.clean:.2f}")
    console.print(rows)
    if beside.hidden:
        console.print(safe(beside.hidden))


def _overall(facts: RunFacts) -> Table:
    rows = table("", "% of samples, with 95 % interval")
    known = (facts.clean, facts.rejected, facts.average, facts.worst, *facts.own.values())
    for number in known:
        if number is not None:
            rows.add_row(number.what, number_cell(number))
    return rows


def _attack_tables(facts: RunFacts, width: int) -> list[Table]:
    present = [
        metric.name for metric in attack_metrics() if any(metric.name in attack.against for attack in facts.attacks)
    ]
    headings = ["attack", "average\naccuracy", "median\nsize", "curve\narea", *present]
    rows = [
        [
            safe(add_mark(attack.attack, attack.attack in facts.invalid)),
            attack.average or "-",
            format_size(attack.median.value, attack=attack.attack),
            "-" if attack.area is None else f"{attack.area:.1f}",
            *(f"{attack.against[name].value:.1f}" if name in attack.against else "-" for name in present),
        ]
        for attack in facts.attacks
    ]
    return tables_of_numbers(headings, rows, width)


def _query_tables(facts: RunFacts) -> list[Table]:
    tables = []
    for found in (success for attack in facts.attacks for success in attack.queries):
        rows = table(
            f"queries, {safe(found.attack)} at {format_strength(found.strength, attack=found.attack)}",
            "% broken, with 95 % interval",
        )
        for limit, success in zip(found.limits, found.success, strict=True):
            rows.add_row(f"{limit:,}", number_cell(success))
        tables.append(rows)
    return tables


def _hypervolumes(facts: RunFacts, width: int) -> list[Table]:
    headings = ["AH", "mean,\nwith 95 % interval", "std", "levels", "too\nlow by", "weak"]
    rows = []
    for attack in facts.attacks:
        if attack.frontier:
            volume = attack.frontier.hypervolume
            rows.append(
                [
                    safe(add_mark(attack.attack, attack.attack in facts.invalid)),
                    number_cell(attack.frontier.volume, 3),
                    f"{volume.std:.3f}",
                    str(volume.levels),
                    f"<= {volume.error_bound:.3f}",
                    f"{volume.corrected:.1f} %",
                ]
            )
    return tables_that_fit(headings, rows, width)


def _write_csv(facts: RunFacts) -> None:
    """Print a row for each attack and strength; certified accuracies have a column, if there are any."""
    numbers = facts.numbers
    accuracies = {_place(number): number for number in (*numbers.select(CLEAN), *numbers.select(ROBUST))}
    more = {
        name: {_place(number): number.value for number in numbers.select(what)}
        for name, what in (("typical", TYPICAL), ("certified", CERTIFIED))
    }
    columns = [name for name, values in more.items() if values]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["attack", "strength", "accuracy", "low", "high", "status", *columns])
    for place in dict.fromkeys([*accuracies, *more["certified"]]):
        known = accuracies.get(place)
        cells = [known.value, known.low, known.high, known.status.value] if known else [None] * 4
        writer.writerow([place[0], value_as_typed(*place), *cells, *(more[name].get(place) for name in columns)])


def _place(number: Number) -> tuple[str, float]:
    """Return the attack and the strength of an accuracy."""
    return (number.attack, number.strength) if number.at else ("clean", 0.0)


def _check_trained_on(trained_on: Mapping[str, float], reference: Reference | None) -> None:
    if reference is None:
        raise UserError("--trained-on needs a reference to judge the training by; give one with --reference.")
    for attack, most in trained_on.items():
        if attack not in reference.accuracies.entries:
            raise UserError(
                f"--trained-on names {attack!r}, which {reference.name} does not have; it has "
                f"{list_names(reference.accuracies.attacks)}."
            )
        if meant := levels_hint(read_strength(most, attack), max(reference.accuracies.distance_entries[attack])):
            raise UserError(
                f"--trained-on {attack}={text_as_typed(most)} is beyond every strength of {reference.name}; {meant}."
            )
