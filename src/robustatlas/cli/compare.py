"""``robustatlas compare``: which model is more robust, and how sure that is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from robustatlas.cli import _groups, _pairs, _runs
from robustatlas.cli._help import OUTPUT, FullHelp
from robustatlas.cli._options import parse_strength_of
from robustatlas.cli._terminal import in_groups, print_definitions, safe, shown, table, tables_that_fit
from robustatlas.cli.show import named_points
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import visible_text
from robustatlas.common.wording import (
    LONGEST_NAME,
    MASKED,
    elide_names,
    join_words,
    list_names,
    masked_reason,
    pluralise,
    remove_mark,
)
from robustatlas.metrics import Interval, SampleStatistic
from robustatlas.metrics.references import Reference
from robustatlas.metrics.registry import METRICS, reference_metrics
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.alike import threat_identities
from robustatlas.outcomes.bounds import describe_unsearched, upper_bound_status
from robustatlas.outcomes.masked import masked
from robustatlas.report.compared import Comparison
from robustatlas.report.facts import Shared, chosen_reference, hold_against, what_is_shared
from robustatlas.report.facts.against import Held
from robustatlas.report.facts.agreement import Agreement, agreement_of
from robustatlas.report.facts.ahead import standings_of
from robustatlas.report.facts.comparison import Compared, volume_name
from robustatlas.report.facts.groups import groups_of, in_a_row
from robustatlas.report.facts.headline import Headline, headline_of
from robustatlas.report.facts.numbers import union_strengths
from robustatlas.report.facts.pairs import Pair, pairs_of
from robustatlas.report.facts.rows import About, about_of, read_about
from robustatlas.report.words import verdict
from robustatlas.results.many import Results
from robustatlas.results.result import Result

_KEPT = 16
"""Runs that stay in memory; of more, each is read as often as it is looked at, four or five times."""

_ENOUGH = 10
"""Models over which a correlation of attacks says something; of fewer it is shown by --explain."""

_NAMED = 20
"""Runs that a saved reference names as its source."""


def compare(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="RUN", help="Run directories, two or more. Each is compared with each."),
    ] = None,
    about: _runs.About = None,
    union: _runs.Union = None,
    headline: _runs.Headline = None,
    reference: _runs.Reference = None,
    weights: _runs.Weights = None,
    group: _groups.Group = None,
    explain: _runs.Explain = False,
    save_reference: Annotated[
        Path | None,
        OUTPUT.option(
            "FILE",
            "Write the best accuracy of these runs at each shared strength to this JSON file, which "
            "`--reference` reads.",
        ),
    ] = None,
    as_json: Annotated[bool, OUTPUT.flag("--json", "Print all numbers and differences as JSON.")] = False,
    as_csv: Annotated[bool, OUTPUT.flag("--csv", "Print all numbers and differences as CSV.")] = False,
    as_latex: Annotated[
        bool, OUTPUT.flag("--latex", "Print a table for a paper, with intervals and p-values.")
    ] = False,
    help_all: FullHelp = False,
) -> None:
    r"""Compare runs on the samples, attacks and strengths that all of them have: intervals, differences, tests.

    Which of two models is more robust, and how sure that is:

    ```bash
    robustatlas compare runs/a runs/b
    ```

    Several trainings of each model, with other seeds:

    ```bash
    robustatlas compare --group trades='runs/trades-*' \
        --group pgd='runs/pgd-*'
    ```

    A reference of your own, from runs of models that were each trained against one of the attacks:

    ```bash
    robustatlas compare runs/adv-linf runs/adv-l2 \
        --save-reference mine.json
    robustatlas show runs/mynet --reference mine.json
    ```
    """
    chosen_union = parse_strength_of(union, "--union") or None
    form = _form(json=as_json, csv=as_csv, latex=as_latex)
    if group:
        if form:
            raise UserError(f"--{form} is not for --group yet; leave one of them out.")
        if headline:
            raise UserError("--headline is not for --group yet; leave one of them out.")
        _compare_groups(runs, group, reference, weights, chosen_union, explain, save_reference)
        return
    _check(runs or [], save_reference)
    asked = parse_strength_of(headline, "--headline") or None
    found = _Sides.of(runs or [], reference, weights, chosen_union, read_about(about), asked)
    if form:
        sys.stdout.write(getattr(found.comparison(), form)())
        for note in found.shared.notes if form != "json" else ():  # which has them itself
            typer.echo(visible_text(note), err=True)
        return
    console = Console(highlight=False)
    found.print(console, explain)
    if save_reference is not None:
        if alone := next((side.table.unsearched for side in found.sides if side.table.unsearched), ()):
            raise UserError(f"--save-reference: {describe_unsearched(alone)}; a reference is of searched strengths.")
        tables = {name: run.accuracies for name, run in zip(found.shared.names, found.seen, strict=True)}
        given = {remove_mark(name): tables[name] for name in found.shared.names}
        _save(save_reference, runs or [], given, found.shared.results[0])
        console.print(f"Reference: {safe(save_reference)}", soft_wrap=True)


def _form(**asked: bool) -> str | None:
    """The one form that is asked for instead of words."""
    chosen = [name for name, given in asked.items() if given]
    if len(chosen) > 1:
        raise UserError(f"{join_words([f'--{name}' for name in chosen])} are given; give one of them.")
    return chosen[0] if chosen else None


@dataclass(frozen=True)
class _Sides:
    """The runs, in the order in which they are given."""

    shared: Shared
    held: Held | None
    union: Mapping[str, float]
    leads: Headline | None
    seen: Sequence[_Seen]
    sides: Sequence[Compared]
    statistics: Sequence[Mapping[str, SampleStatistic]]
    pairs: Sequence[Pair]
    headline: Mapping[str, float] | None

    @classmethod
    def of(
        cls,
        runs: Sequence[Path],
        reference: str | None,
        weights: Path | None,
        union: Mapping[str, float] | None,
        known: Mapping[str, About],
        headline: Mapping[str, float] | None = None,
    ) -> _Sides:
        results = Results(runs, kept=_KEPT)
        shared = what_is_shared(results)
        first, leading = shared.table(0), results[0]
        at = union_strengths(first, union)
        chosen = chosen_reference(reference, results, weights)
        held = hold_against(first, chosen, leading.records.values(), leading.identity).require() if chosen else None
        leads = headline_of(first, headline)
        named = {} if leads is None else {_called(leads, at): leads.at}
        seen = [_Seen.of(replace(shared.on(run), first=named), held, at, known) for run in range(len(runs))]
        volumes = [attack for attack in shared.grid if all(volume_name(attack) in run.intervals for run in seen)]
        sides = [replace(shared.on(run).with_volumes_of(volumes), first=named) for run in range(len(runs))]
        statistics = [side.statistics(held, at) for side in sides]
        pairs = pairs_of(statistics, [run.masked.keys() for run in seen])
        return cls(shared, held, at, leads, seen, sides, statistics, pairs, headline)

    def comparison(self) -> Comparison:
        """For machines and papers."""
        numbers = [{name: run.intervals[name] for name in self.statistics[0]} for run in self.seen]
        masked = [run.masked for run in self.seen]
        shared, data = self.shared, self.sides[0].table.data
        return Comparison(data, shared.samples, shared.grid, shared.names, numbers, masked, self.pairs, shared.notes)

    def print(self, console: Console, explain: bool) -> None:
        """For people: the verdict, the numbers, the pairs."""
        short = _introduce(console, self.shared, self.sides[0].table.data, self.held)
        for name, side in zip(short, self.sides, strict=True):
            if unsearched := upper_bound_status(side.table.unsearched):
                console.print(f"[yellow]{safe(name)}[/yellow]: {safe(unsearched)}.")
        for sentence in verdict(standings_of(replace(self.shared, names=tuple(short)), self.headline)):
            console.print(f"[bold]{safe(sentence)}[/bold]")
        _print_numbers(console, short, self.statistics[0], self.seen)
        leading = _called(self.leads, self.union)
        if self.leads is not None and leading == self.leads.words:
            console.print(f"[dim]{safe(self.leads.explained(len(self.leads.at)))}[/dim]")
        if "union accuracy" in self.statistics[0]:
            console.print(f"[dim]union accuracy: all at once, at {named_points(self.union)}[/dim]")
        _pairs.print_pairs(console, short, self.pairs, leading, explain)
        for pair in self.pairs:
            both = self.sides[pair.first], self.sides[pair.second]
            _pairs.print_details(console, both, (short[pair.first], short[pair.second]), explain)
        _pairs.print_bounds(console, short, self.sides)
        agreement = _print_agreement(console, short, self.seen, self.held, explain)
        if explain:
            _explain(console, self.statistics[0], bool(self.sides[0].volumes), agreement)


def _called(headline: Headline | None, union: Mapping[str, float]) -> str:
    """What the number that comes first is called: the union accuracy keeps its name."""
    if headline is None:
        return "average accuracy"
    return "union accuracy" if len(union) > 1 and headline.at == union else headline.words


def _print_numbers(console: Console, names: Sequence[str], numbers: Iterable[str], seen: Sequence[_Seen]) -> None:
    rows = [[safe(name), *(each.shown(name) for each in seen)] for name in numbers]
    for part in tables_that_fit(["95 % intervals", *map(safe, names)], rows, console.width):
        console.print(part)


def _print_agreement(
    console: Console, names: Sequence[str], seen: Sequence[_Seen], held: Held | None, explain: bool
) -> bool:
    """UAR under each attack where there is a reference, and how the attacks agree; whether that was said."""
    competing = [(name, run) for name, run in zip(names, seen, strict=True) if not run.why]
    if not competing:
        return False
    found = agreement_of([run.accuracies for _, run in competing], [run.trained_on for _, run in competing], held)
    if found.uar:
        _print_uar(console, [name for name, _ in competing], found)
    told = found.correlation is not None and (explain or len(competing) >= _ENOUGH)
    if told:
        _print_correlation(console, found)
    return told


def _compare_groups(
    runs: Sequence[Path] | None,
    given: Sequence[str],
    reference: str | None,
    weights: Path | None,
    union: Mapping[str, float] | None,
    explain: bool,
    save_reference: Path | None,
) -> None:
    if runs or save_reference is not None:
        raise UserError("--group takes all runs, and makes no reference; leave the others, or --save-reference, out.")
    results = {name: Results(found, kept=_KEPT) for name, found in _groups.parse_groups(given).items()}
    everything = in_a_row(results)
    groups = groups_of(results, chosen_reference(reference, everything, weights), union)
    console = Console(highlight=False)
    console.print(_heading(groups.shared, everything[0].data))
    for note in groups.held.notes() if groups.held else ():
        console.print(safe(note))
    _groups.print_groups(console, groups)
    if explain:
        numbers = next(iter(groups.numbers.values()))
        explained = [name for name in numbers if name in METRICS]
        print_definitions(
            console, [*explained, *(["AH"] if any("AH" in name for name in numbers) else []), "trainings"]
        )


@dataclass(frozen=True)
class _Seen:
    """What is kept of a run for the tables of all."""

    intervals: Mapping[str, Interval]
    accuracies: AccuracyTable
    masked: Mapping[str, Mapping[str, float]]
    why: str
    trained_on: Mapping[str, float] | None

    @classmethod
    def of(
        cls, run: Compared, held: Held | None, union: Mapping[str, float], about: Mapping[str, About] | None = None
    ) -> _Seen:
        intervals, invalid = run.intervals(held, union), masked(run.table)
        why = masked_reason(invalid) if invalid else ""
        told = about_of(run.table, about or {})
        trained = told.trained_on if told.tells_training else None
        return cls(intervals, run.table.accuracies(), run.masked(intervals, held, union), why, trained)

    def shown(self, name: str) -> str:
        """A number in a cell, and below it what it is where it is masked."""
        return f"{shown(self.intervals[name])}\n{MASKED}" if name in self.masked else shown(self.intervals[name])


def _save(file: Path, runs: Sequence[Path], tables: Mapping[str, AccuracyTable], leading: Result) -> None:
    source = "best of the runs " + list_names(map(str, runs), at_most=_NAMED)
    data = leading.identity.data if leading.identity else None
    threats = threat_identities(leading.records.values())
    Reference.from_models(file.stem, source, tables, data, threats).to_json(file)


def _check(runs: Sequence[Path], save_reference: Path | None) -> None:
    if len(runs) < 2:
        raise UserError("One run is given; give two or more to compare.")
    if len({run.resolve() for run in runs}) < len(runs):
        raise UserError("The same run is given twice; give different runs to compare.")
    if save_reference is not None and not save_reference.parent.is_dir():
        raise UserError(f"--save-reference {save_reference}: there is no folder {save_reference.parent}.")


def _introduce(console: Console, shared: Shared, data: str, held: Held | None) -> list[str]:
    """Say what is compared; the names of the models, short enough for tables."""
    names = shared.names
    short = elide_names(names, min(LONGEST_NAME, max(console.width - 24, 16)))
    console.print(_heading(shared, data))
    for name, whole in zip(short, names, strict=True):
        if name != whole:
            console.print(f"{safe(name)} is {safe(whole)}.")
    for note in held.notes() if held else ():
        console.print(safe(note))
    return short


def _explain(console: Console, statistics: Iterable[str], volumes: bool, agreement: bool) -> None:
    explained = ["clean accuracy", "average accuracy", "interval", "difference", "McNemar", "crossing"]
    others = ("union accuracy", *(metric.name for metric in reference_metrics()))
    explained += [name for name in others if name in statistics]
    explained += ["AH", "Wilcoxon"] if volumes else []
    print_definitions(console, [*explained, *(["agreement"] if agreement else [])])


def _heading(shared: Shared, data: str) -> str:
    points = sum(len(grid) for grid in shared.grid.values())
    attacks = safe(", ".join(shared.grid))
    text = (
        f"{shared.samples} shared samples of {safe(data)}, "
        f"{pluralise(len(shared.grid), 'shared attack')} at {pluralise(points, 'strength')}: {attacks}."
    )
    return "\n".join([text, *(f"[yellow]{safe(note)}[/yellow]" for note in shared.notes)])


def _print_uar(console: Console, models: Sequence[str], found: Agreement) -> None:
    """UAR of each model under each attack: rows and columns of figures 6a, 7, 12 and 15 of Kang et al. 2019."""
    rows = [[safe(name), *(f"{score:.0f}" for score in row)] for name, row in zip(models, found.scores, strict=True)]
    for part in tables_that_fit(["UAR, %", *map(safe, found.attacks)], rows, console.width):
        console.print(part)


def _print_correlation(console: Console, found: Agreement) -> None:
    assert found.correlation is not None
    console.print(f"\nDo the attacks agree? Correlation of {safe(found.over)}:")
    for group in in_groups([5] * len(found.attacks), console.width - max(map(len, found.attacks)) - 6):
        part = table("", *(str(column + 1) for column in group))
        for row, attack in enumerate(found.attacks):
            cells = ["" if k > row else f"{found.correlation[row, k]:.2f}".replace("nan", "-") for k in group]
            part.add_row(f"{row + 1} {safe(attack)}", *cells)
        console.print(part)
