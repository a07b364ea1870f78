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
from robustatlas.cli._options import parse_attack_strengths
from robustatlas.cli._terminal import column_groups, print_definitions, safe, table, tables_of_numbers, tables_that_fit
from robustatlas.common.errors import UserError
from robustatlas.common.escaping import visible_text
from robustatlas.common.wording import (
    LONGEST_NAME,
    elide_names,
    join_words,
    list_names,
    pluralise,
)
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references import Reference
from robustatlas.metrics.registry import METRICS, reference_metrics
from robustatlas.outcomes.accuracies import AccuracyTable, masked_shares
from robustatlas.outcomes.bounds import describe_unsearched, upper_bound_status
from robustatlas.outcomes.comparable import threat_identities
from robustatlas.outcomes.strengths import strengths_as_typed
from robustatlas.report.compared import KEPT, Comparison
from robustatlas.report.compared import compare as compare_runs
from robustatlas.report.facts.agreement import Agreement, agreement_of
from robustatlas.report.facts.rows import About, model_facts, read_about
from robustatlas.report.numbers.against import Held, choose_reference
from robustatlas.report.numbers.groups import groups_of, runs_of_groups
from robustatlas.report.numbers.number import WORST, Number
from robustatlas.report.numbers.of_several import ModelNumbers, SharedNumbers
from robustatlas.report.numbers.shared import Shared
from robustatlas.report.numbers.standings import standings_of
from robustatlas.report.words import is_worst_case_shown, verdict, worst_case_in_words
from robustatlas.results.result import Result, Results

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
    chosen_union = parse_attack_strengths(union, "--union") or None
    form = _form(json=as_json, csv=as_csv, latex=as_latex)
    if group:
        if form:
            raise UserError(f"--{form} is not for --group yet; leave one of them out.")
        if headline:
            raise UserError("--headline is not for --group yet; leave one of them out.")
        _compare_groups(runs, group, reference, weights, chosen_union, explain, save_reference)
        return
    _check(runs or [], save_reference)
    asked = parse_attack_strengths(headline, "--headline") or None
    found = _Comparison.from_runs(runs or [], reference, weights, chosen_union, read_about(about), asked)
    if form:
        sys.stdout.write(getattr(Comparison(found.numbers), form)())
        for note in found.numbers.shared.notes if form != "json" else ():  # which has them itself
            typer.echo(visible_text(note), err=True)
        return
    console = Console(highlight=False)
    found.print(console, explain)
    if save_reference is not None:
        if alone := next((one.table.unsearched for one in found.numbers.models if one.table.unsearched), ()):
            raise UserError(f"--save-reference: {describe_unsearched(alone)}; a reference is of searched strengths.")
        given = dict(zip(found.numbers.shared.names, found.accuracies, strict=True))
        _save(save_reference, runs or [], given, found.numbers.shared.results[0])
        console.print(f"Reference: {safe(save_reference)}", soft_wrap=True)


def _form(**asked: bool) -> str | None:
    """The one form that is asked for instead of words."""
    chosen = [name for name, given in asked.items() if given]
    if len(chosen) > 1:
        raise UserError(f"{join_words([f'--{name}' for name in chosen])} are given; give one of them.")
    return chosen[0] if chosen else None


@dataclass(frozen=True)
class _Comparison:
    """The runs with their numbers, and what is known of the training of each."""

    numbers: SharedNumbers
    trained_on: Sequence[Mapping[str, float] | None]
    asks_worst_case: bool

    @classmethod
    def from_runs(
        cls,
        runs: Sequence[Path],
        reference: str | None,
        weights: Path | None,
        worst_at: Mapping[str, float] | None,
        known: Mapping[str, About],
        headline: Mapping[str, float] | None = None,
    ) -> _Comparison:
        """Read the runs and compute their numbers."""
        chosen = choose_reference(reference, Results(runs, kept=KEPT), weights)
        numbers = compare_runs(
            runs, chosen or "none", _strengths_as_typed(worst_at), _strengths_as_typed(headline)
        ).numbers
        abouts = [model_facts(model.table, known) for model in numbers.models]
        trained = [about.trained_on if about.tells_training else None for about in abouts]
        return cls(numbers, trained, bool(worst_at))

    @property
    def accuracies(self) -> list[AccuracyTable]:
        """Accuracies of each model on what is shared."""
        return [model.table.accuracies() for model in self.numbers.models]

    def print(self, console: Console, explain: bool) -> None:
        """Print the verdict, the numbers, and the pairs."""
        numbers, models = self.numbers, self.numbers.models
        short = _introduce(console, numbers.shared, models[0].table.data, numbers.held)
        for name, model in zip(short, models, strict=True):
            if unsearched := upper_bound_status(model.table.unsearched):
                console.print(f"[yellow]{safe(name)}[/yellow]: {safe(unsearched)}.")
        for sentence in verdict(replace(standings_of(numbers), names=tuple(short))):
            console.print(f"[bold]{safe(sentence)}[/bold]")
        shows_worst = self.asks_worst_case or explain or any(map(is_worst_case_shown, self._worst_cases))
        labels = [label for label in numbers.labels if label != WORST or shows_worst]
        _print_numbers(console, short, labels, models)
        if shows_worst:
            for name, worst in zip(short, self._worst_cases, strict=bool(self._worst_cases)):
                console.print(f"[dim]{WORST} of {safe(name)}: {safe(worst_case_in_words(worst))}.[/dim]")
        _pairs.print_pairs(console, short, numbers, labels, explain)
        for pair in numbers.pairs:
            both = models[pair.first], models[pair.second]
            _pairs.print_details(console, both, (short[pair.first], short[pair.second]), explain)
        _pairs.print_bounds(console, short, models)
        agreement = self._print_agreement(console, short, explain)
        if explain:
            _explain(console, numbers.labels, bool(models[0].volumes), agreement)

    @property
    def _worst_cases(self) -> list[Number]:
        return [model.numbers[WORST] for model in self.numbers.models if WORST in model.numbers]

    def _print_agreement(self, console: Console, names: Sequence[str], explain: bool) -> bool:
        """Print UAR under each attack if there is a reference, and how the attacks agree; return if that was said."""
        models = zip(names, self.numbers.models, self.accuracies, self.trained_on, strict=True)
        competing = [(name, table, trained) for name, model, table, trained in models if not masked_shares(model.table)]
        if not competing:
            return False
        kept, tables, trained = zip(*competing, strict=True)
        found = agreement_of(tables, trained, self.numbers.held)
        if found.uar:
            _print_uar(console, kept, found)
        told = found.correlation is not None and (explain or len(competing) >= _ENOUGH)
        if told:
            _print_correlation(console, found)
        return told


def _strengths_as_typed(strengths: Mapping[str, float] | None) -> dict[str, float] | None:
    return None if strengths is None else strengths_as_typed(strengths)


def _print_numbers(
    console: Console, names: Sequence[str], labels: Sequence[str], models: Sequence[ModelNumbers]
) -> None:
    """Print a row for each number and a column for each model."""
    rows: list[list[str | Interval]] = [[safe(label), *(model.numbers[label] for model in models)] for label in labels]
    for part in tables_of_numbers(["95 % intervals", *map(safe, names)], rows, console.width):
        console.print(part)


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
    results = {name: Results(found, kept=KEPT) for name, found in _groups.parse_groups(given).items()}
    everything = runs_of_groups(results)
    groups = groups_of(results, choose_reference(reference, everything, weights), union)
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
    names = shared.labels
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
    for group in column_groups([5] * len(found.attacks), console.width - max(map(len, found.attacks)) - 6):
        part = table("", *(str(column + 1) for column in group))
        for row, attack in enumerate(found.attacks):
            cells = ["" if k > row else f"{found.correlation[row, k]:.2f}".replace("nan", "-") for k in group]
            part.add_row(f"{row + 1} {safe(attack)}", *cells)
        console.print(part)
