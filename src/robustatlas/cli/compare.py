"""``robustatlas compare``: which model is more robust, and how sure that is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from robustatlas.cli import _runs
from robustatlas.cli._help import OUTPUT
from robustatlas.cli._options import parse_strength_of
from robustatlas.cli._terminal import in_groups, print_definitions, safe, shown, table, tables_that_fit
from robustatlas.cli.show import named_points
from robustatlas.common.errors import UserError
from robustatlas.common.wording import (
    LONGEST_NAME,
    MASKED,
    UPPER_BOUND,
    counted,
    listed,
    shortened_apart,
    some,
    strength,
    unmarked,
    why_masked,
)
from robustatlas.metrics import (
    AdversarialHypervolume,
    Interval,
    OutcomeTable,
    RobustnessCurve,
    SampleStatistic,
    attack_correlation,
    average_accuracy,
    holm,
    mcnemar_at_strengths,
    paired_differences,
    rank_sum_test,
    signed_rank_test,
)
from robustatlas.metrics.references import Reference
from robustatlas.metrics.registry import against_reference
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts import Shared, chosen_reference, hold_against, what_is_shared
from robustatlas.report.facts.against import Held
from robustatlas.report.facts.comparison import Compared, volume_name
from robustatlas.report.facts.numbers import union_strengths
from robustatlas.results.many import Results
from robustatlas.results.result import Result

_SIGNIFICANT = 0.05

_KEPT = 16
"""Runs that stay in memory; of more, each is read as often as it is looked at, three or four times."""

_NAMED = 20
"""Runs that a saved reference names as its source."""


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN", help="Run directories, two or more. The first one is compared with each of the others."
        ),
    ],
    reference: _runs.Reference = None,
    explain: _runs.Explain = False,
    union: _runs.Union = None,
    save_reference: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the best accuracy of these runs at each shared strength to this JSON file, which "
            "`--reference` reads.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Compare runs on the samples, attacks and strengths that all of them have: intervals, differences, tests.

    Which of two models is more robust, and how sure that is:

        robustatlas compare runs/a runs/b

    A reference of your own, from runs of models that were each trained against one of the attacks:

        robustatlas compare runs/adv-linf runs/adv-l2 --save-reference mine.json

        robustatlas show runs/mynet --reference mine.json
    """
    _check(runs, save_reference)
    chosen_union = parse_strength_of(union, "--union") or None
    results = Results(runs, kept=_KEPT)
    shared = what_is_shared(results)
    first = shared.on(0)
    at = union_strengths(first.table, chosen_union)
    chosen = chosen_reference(reference, results)
    leading = results[0]
    held = hold_against(first.table, chosen, leading.records.values(), leading.identity).require() if chosen else None
    seen = [_Seen.of(shared.on(run), held, at) for run in range(len(runs))]
    volumes = [attack for attack in shared.grid if all(volume_name(attack) in run.intervals for run in seen)]

    console = Console(highlight=False)
    short = _introduce(console, shared, first.table.data, held)
    first = first.with_volumes_of(volumes)
    told = first.statistics(held, at)
    for part in _side_by_side(short, told, seen, console.width):
        console.print(part)
    for name, run in zip(short, seen, strict=True):
        if run.why:
            console.print(f"{safe(name)} is {MASKED}. {safe(run.why)}", highlight=False)
    if "union accuracy" in told:
        console.print(f"[dim]union: {named_points(at)}[/dim]", highlight=False)
    for other in range(1, len(runs)):
        compared = shared.on(other).with_volumes_of(volumes)
        barred = seen[0].masked.keys() | seen[other].masked.keys()
        statistics = told, compared.statistics(held, at)
        _print_pair(console, (first, compared), statistics, barred, (short[0], short[other]))
    competing = [run.accuracies for run in seen if not run.why]
    agreement = _agreement(competing, console.width)
    if agreement:
        console.print(f"\nDo the attacks agree? Correlation over {len(competing)} models:")
        for part in agreement:
            console.print(part)
    if save_reference is not None:
        tables = {unmarked(name): run.accuracies for name, run in zip(shared.names, seen, strict=True)}
        _save(save_reference, runs, tables, leading)
        console.print(f"Reference: {safe(save_reference)}", highlight=False, soft_wrap=True)
    if explain:
        _explain(console, told, bool(volumes), bool(agreement))


@dataclass(frozen=True)
class _Seen:
    """What is kept of a run for the tables of all."""

    intervals: Mapping[str, Interval]
    accuracies: AccuracyTable
    masked: Mapping[str, Mapping[str, float]]
    why: str

    @classmethod
    def of(cls, run: Compared, held: Held | None, union: Mapping[str, float]) -> _Seen:
        intervals, void = run.intervals(held, union), masked(run.table)
        why = why_masked(void) if void else ""
        return cls(intervals, run.table.accuracies(), run.masked(intervals, held, union), why)

    def shown(self, name: str) -> str:
        """A number in a cell, and below it what it is where it is masked."""
        return f"{shown(self.intervals[name])}\n{MASKED}" if name in self.masked else shown(self.intervals[name])


def _save(file: Path, runs: Sequence[Path], tables: Mapping[str, AccuracyTable], leading: Result) -> None:
    """Write the best accuracies as a reference."""
    source = "best of the runs " + some(map(str, runs), at_most=_NAMED)
    data = leading.identity.data if leading.identity else None
    Reference.from_models(file.stem, source, tables, data).to_json(file)


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
    short = shortened_apart(names, min(LONGEST_NAME, max(console.width - 24, 16)))
    console.print(_heading(shared, data), highlight=False)
    for name, whole in zip(short, names, strict=True):
        if name != whole:
            console.print(f"{safe(name)} is {safe(whole)}.", highlight=False)
    for note in held.notes() if held else ():
        console.print(safe(note), highlight=False)
    return short


def _print_pair(
    console: Console,
    runs: tuple[Compared, Compared],
    statistics: tuple[dict[str, SampleStatistic], dict[str, SampleStatistic]],
    barred: Collection[str],
    pair: tuple[str, str],
) -> None:
    """The first model against another one, without the numbers that are ``barred`` as one of them is masked."""
    void = {**masked(runs[0].table), **masked(runs[1].table)}
    grid = {attack: runs[0].table.strengths(attack) for attack in runs[0].table.attacks if attack not in void}
    tables = (runs[0].table.restrict(grid), runs[1].table.restrict(grid))
    volumes = (runs[0].with_volumes_of(grid).volumes, runs[1].with_volumes_of(grid).volumes)
    console.print(f"\n[bold]{safe(pair[0])}[/bold] against [bold]{safe(pair[1])}[/bold]")
    first, second = ({name: one for name, one in each.items() if name not in barred} for each in statistics)
    differences = paired_differences(first, second)
    console.print(_difference_table(differences))
    if void:
        console.print(f"- Not held against each other under {safe(listed([*void]))}: {MASKED}.", highlight=False)
    for sentence in [
        *_verdicts(differences, pair),
        *_at_strengths(*tables, pair),
        *_crossings(*tables, pair),
        *_hypervolume_tests(*volumes, pair),
        *_hypervolume_bounds(tables, pair, volumes[0]),
    ]:
        console.print(f"- {safe(sentence)}", highlight=False)


def _explain(console: Console, statistics: Iterable[str], volumes: bool, agreement: bool) -> None:
    explained = ["clean accuracy", "average accuracy", "interval", "difference", "McNemar", "crossing"]
    others = ("union accuracy", *(metric.name for metric in against_reference()))
    explained += [name for name in others if name in statistics]
    explained += ["AH", "Wilcoxon"] if volumes else []
    print_definitions(console, [*explained, *(["agreement"] if agreement else [])])


def _heading(shared: Shared, data: str) -> str:
    points = sum(len(grid) for grid in shared.grid.values())
    attacks = safe(", ".join(shared.grid))
    text = (
        f"{shared.samples} shared samples of {safe(data)}, "
        f"{counted(len(shared.grid), 'shared attack')} at {counted(points, 'strength')}: {attacks}."
    )
    if not shared.left_out:
        return text
    return f"{text}\n[yellow]Left out[/yellow], not evaluated alike: {safe(some(shared.left_out))}."


def _side_by_side(models: Sequence[str], numbers: Iterable[str], seen: Sequence[_Seen], width: int) -> list[Table]:
    """These numbers of all models, in as many tables as the width asks for."""
    rows = [[safe(name), *(each.shown(name) for each in seen)] for name in numbers]
    return tables_that_fit(["95 % intervals", *map(safe, models)], rows, width)


def _agreement(models: Sequence[AccuracyTable], width: int) -> list[Table]:
    """Correlation of the attacks over the models; nothing for fewer than three models or two attacks."""
    attacks = models[0].attacks
    if len(models) < 3 or len(attacks) < 2:
        return []
    scores = [[average_accuracy(model, [attack]) for attack in attacks] for model in models]
    correlation = attack_correlation(scores)
    tables = []
    for group in in_groups([5] * len(attacks), width - max(map(len, attacks)) - 6):
        part = table("", *(str(column + 1) for column in group))
        for row, attack in enumerate(attacks):
            cells = ["" if column > row else f"{correlation[row, column]:.2f}".replace("nan", "-") for column in group]
            part.add_row(f"{row + 1} {safe(attack)}", *cells)
        tables.append(part)
    return tables


def _difference_table(differences: dict[str, Interval]) -> Table:
    part = table("difference", "95 % interval, paired", "")
    for name, difference in differences.items():
        part.add_row(safe(name), shown(difference, "+z.2f"), "" if not difference.excludes(0) else "differs")
    return part


def _verdicts(differences: dict[str, Interval], names: tuple[str, str]) -> list[str]:
    sentences = []
    for name, words in (
        ("clean accuracy", "more accurate on clean samples"),
        ("average accuracy", "more robust on average"),
    ):
        difference = differences.get(name)
        if difference is None:
            continue
        if difference.excludes(0):
            better = names[0] if difference.value > 0 else names[1]
            sentences.append(f"{better} is {words}, by {abs(difference.value):.1f} points.")
        else:
            sentences.append(f"Neither is shown to be {words}.")
    return sentences


def _at_strengths(first: OutcomeTable, second: OutcomeTable, names: tuple[str, str]) -> list[str]:
    """McNemar's test in words, for each attack."""
    sentences = []
    for attack, test in mcnemar_at_strengths(first, second).items():
        significant = test.p_values <= _SIGNIFICANT
        total = len(test.p_values)
        wins = (
            (names[0], significant & (test.only_first > test.only_second)),
            (names[1], significant & (test.only_first < test.only_second)),
        )
        for name, won in wins:
            if won.any():
                where = _range(attack, first.strengths(attack)[won])
                sentences.append(
                    f"{attack}: {name} is right more often at {won.sum()} of {total} strengths, {where} "
                    "(McNemar, corrected)."
                )
        if not significant.any():
            sentences.append(
                f"{attack}: no significant difference at any of {total} strength"
                f"{'s' * (total > 1)} (McNemar, corrected)."
            )
    return sentences


def _crossings(first: OutcomeTable, second: OutcomeTable, names: tuple[str, str]) -> list[str]:
    sentences = []
    for attack in first.attacks:
        curves = [RobustnessCurve.of(model.outcome(attack)) for model in (first, second)]
        found = curves[0].crossings(curves[1])
        significant = [crossing for crossing in found if crossing.significant]
        for crossing in significant:
            before, after = names[crossing.better_before], names[crossing.better_after]
            sentences.append(
                f"{attack}: the curves cross at {crossing.start:.3g}; {before} is more robust below, {after} above "
                "(significant)."
            )
        if len(found) > len(significant):
            rest = len(found) - len(significant)
            sentences.append(
                f"{attack}: {rest} {'further ' if significant else ''}crossing{'s' * (rest > 1)} of the curves, "
                f"the first at {next(c.start for c in found if not c.significant):.3g}, not significant."
            )
    return sentences


def _hypervolume_tests(
    first: Mapping[str, AdversarialHypervolume], second: Mapping[str, AdversarialHypervolume], names: tuple[str, str]
) -> list[str]:
    attacks = [attack for attack in first if attack in second]
    if not attacks:
        return []
    pairs = [(first[attack].per_sample, second[attack].per_sample) for attack in attacks]
    signed = [signed_rank_test(*pair) for pair in pairs]
    summed = [rank_sum_test(*pair) for pair in pairs]
    corrected = holm([test.p_value for test in signed]), holm([test.p_value for test in summed])
    sentences = []
    for attack, test, paired, apart in zip(attacks, signed, *corrected, strict=True):
        better = names[0] if test.effect > 0 else names[1]
        gap = abs(float(np.mean(first[attack].per_sample - second[attack].per_sample)))
        bound = max(first[attack].error_bound, second[attack].error_bound)
        verdict = (
            f"{better} keeps more confidence" if paired <= _SIGNIFICANT else "no significant difference of hypervolume"
        )
        sentences.append(f"{attack}: {verdict} (Wilcoxon signed-rank p = {paired:.2g}, rank-sum p = {apart:.2g}).")
        if paired <= _SIGNIFICANT and gap < bound:
            sentences.append(
                f"{attack}: the hypervolumes are {gap:.3f} apart, nearer than {first[attack].levels} levels tell for "
                f"certain ({bound:.3f}); evaluate more strengths."
            )
    return sentences


def _hypervolume_bounds(
    tables: tuple[OutcomeTable, OutcomeTable], names: tuple[str, str], attacks: Iterable[str]
) -> list[str]:
    """Whose hypervolumes were not searched for: a sentence for the attacks of which the same is to be said."""
    bounds: dict[tuple[str, ...], list[str]] = {}
    for attack in attacks:
        unsearched = (name for name, one in zip(names, tables, strict=True) if not one.outcome(attack).frontier)
        bounds.setdefault(tuple(unsearched), []).append(attack)
    return [
        f"{listed(found)}: the hypervolume of {listed(of)} is an {UPPER_BOUND}, as its margins were not searched for; "
        "evaluate with search 'frontier' before models are compared by it."
        for of, found in bounds.items()
        if of
    ]


def _range(attack: str, strengths: NDArray[np.float64]) -> str:
    first, last = (strength(strengths[end], of=attack) for end in (0, -1))
    return first if strengths.size == 1 else f"between {first} and {last}"
