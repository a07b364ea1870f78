"""``robustatlas compare``: which model is more robust, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._metrics_section import fitting_reference, print_definitions, shared_with_reference
from robustatlas.errors import UserError
from robustatlas.metrics import (
    AccuracyStatistics,
    AdversarialHypervolume,
    Interval,
    SampleOutcomes,
    SampleStatistic,
    accuracy_interval,
    adversarial_hypervolume,
    bootstrap_intervals,
    common_strengths,
    holm,
    mcnemar_at_strengths,
    mean_statistic,
    paired_differences,
    rank_sum_test,
    shared_samples,
    signed_rank_test,
)
from robustatlas.metrics.matching import CLEAN
from robustatlas.references import Reference, load_reference

if TYPE_CHECKING:
    from robustatlas.outcomes import Result

_SIGNIFICANT = 0.05


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run directories, two or more; the first is compared with each.")],
    reference: Annotated[
        str | None,
        typer.Option(help="Reference by name or file; by default the shipped one that fits, 'none' for no reference."),
    ] = None,
    explain: Annotated[bool, typer.Option(help="Define each number.")] = False,
) -> None:
    """Compare runs on the samples, attacks and strengths that they share: intervals, differences, crossings, tests.

    robustatlas compare runs/a runs/b
    """
    from robustatlas.outcomes import load_result

    if len(runs) < 2:
        raise UserError("One run is given; give two or more to compare.")
    results = [load_result(run) for run in runs]
    names = _names(results, runs)
    outcomes = shared_samples(
        [SampleOutcomes.from_result(result, name) for result, name in zip(results, names, strict=True)]
    )
    judged = [attack for attack in results[0].attacks if all(_judged_everywhere(result, attack) for result in results)]
    common = {attack: grid for attack, grid in common_strengths(outcomes).items() if attack in judged}
    if not common:
        raise UserError(f"{' and '.join(names)} share no attack at the same strength; evaluate them alike to compare.")
    outcomes = [model.restrict(common) for model in outcomes]

    console = Console()
    chosen = _reference(reference, results)
    console.print(_heading(results, outcomes, common))
    if chosen is not None:
        console.print(_reference_note(chosen, outcomes[0]))
    volumes = [
        _hypervolumes(result, model.index, list(common)) for result, model in zip(results, outcomes, strict=True)
    ]
    statistics = [
        _statistics(model, found, chosen, set.intersection(*(set(each) for each in volumes)))
        for model, found in zip(outcomes, volumes, strict=True)
    ]
    console.print(_side_by_side(names, [bootstrap_intervals(each) for each in statistics], outcomes[0].samples))
    for other in range(1, len(outcomes)):
        console.print(f"\n[bold]{names[0]}[/bold] against [bold]{names[other]}[/bold]")
        differences = paired_differences(statistics[0], statistics[other])
        console.print(_difference_table(differences))
        for sentence in [
            *_verdicts(differences, names[0], names[other]),
            *_at_strengths(outcomes[0], outcomes[other]),
            *_crossings(outcomes[0], outcomes[other]),
            *_hypervolume_tests(volumes[0], volumes[other], names[0], names[other]),
        ]:
            console.print(f"- {sentence}", highlight=False)
    if explain:
        shown = [
            "clean accuracy",
            "average accuracy",
            "union accuracy",
            "interval",
            "difference",
            "McNemar",
            "crossing",
        ]
        print_definitions(
            console, [*shown, *(["AH", "Wilcoxon"] if any(volumes) else []), *(["CR", "UAR"] if chosen else [])]
        )


def _names(results: Sequence[Result], runs: Sequence[Path]) -> list[str]:
    """Names of the models; where they are the same, names of the run directories, or the whole paths."""
    candidates = (
        [result.manifest.settings.model.name for result in results],
        [run.name for run in runs],
        [str(run) for run in runs],
    )
    for names in candidates:
        if len(set(names)) == len(names) and all(names):
            return names
    raise UserError("The same run is given twice; give different runs to compare.")


def _judged_everywhere(result: Result, attack: str) -> bool:
    """Whether the run says of every sample whether it is correct at every strength."""
    if attack not in result.attacks:
        return False
    outcome = result.outcome(attack)
    return outcome.monotone or not bool(np.any(outcome.fooled[outcome.minimal_strength > 0] < 0))


def _reference(given: str | None, results: Sequence[Result]) -> Reference | None:
    if given is None:
        return fitting_reference(results[0])
    return None if given == "none" else load_reference(given)


def _heading(results: Sequence[Result], outcomes: Sequence[SampleOutcomes], common: dict[str, list[float]]) -> str:
    left_out = sorted({attack for result in results for attack in result.attacks} - common.keys())
    points = sum(len(grid) for grid in common.values())
    text = (
        f"{outcomes[0].samples} shared samples of {results[0].manifest.settings.data.name}, "
        f"{len(common)} shared attack{'s' * (len(common) > 1)} at {points} strengths: {', '.join(common)}."
    )
    return f"{text}\n[yellow]Left out[/yellow], not evaluated alike: {', '.join(left_out)}." if left_out else text


def _reference_note(reference: Reference, outcomes: SampleOutcomes) -> str:
    points = sum(len(grid) for grid in shared_with_reference(outcomes, reference).values())
    ranked = sum(len(reference.accuracies.cells[attack]) for attack in reference.ranked)
    return f"CR and UAR against {reference.name}, on {points} of its {ranked} ranked (attack, strength)."


def _hypervolumes(
    result: Result, index: NDArray[np.int64], attacks: Sequence[str]
) -> dict[str, AdversarialHypervolume]:
    """Hypervolumes of the samples at `index`, of the attacks whose margins were recorded at equal steps."""
    order = np.argsort(result.index)
    rows = order[np.searchsorted(result.index, index, sorter=order)]
    clean = result.clean_margin[rows]
    found = {}
    for attack in attacks:
        try:
            found[attack] = adversarial_hypervolume(
                result.margins(attack)[rows], None if np.isnan(clean).any() else clean, result.strengths(attack)
            )
        except UserError:
            continue
    return found


def _statistics(
    outcomes: SampleOutcomes,
    volumes: dict[str, AdversarialHypervolume],
    reference: Reference | None,
    with_volume: set[str],
) -> dict[str, SampleStatistic]:
    accuracies = AccuracyStatistics(outcomes)
    found = {"clean accuracy": accuracies.accuracy(CLEAN, 0), "average accuracy": accuracies.average()}
    if len(outcomes.attacks) > 1:
        middle = [correct[:, (correct.shape[1] - 1) // 2] for correct in outcomes.correct.values()]
        found["union accuracy"] = mean_statistic(100.0 * np.logical_and.reduce(middle))
        found |= {f"average {attack}": accuracies.average([attack]) for attack in outcomes.attacks}
    found |= {f"100 AH {a}": mean_statistic(100 * volumes[a].per_sample) for a in outcomes.attacks if a in with_volume}
    if reference is None:
        return found
    shared = shared_with_reference(outcomes, reference)
    if shared:
        accuracies = AccuracyStatistics(outcomes.restrict(shared))
        table = reference.accuracies.restrict(shared, shared)
        if not np.isnan(table.clean):
            found |= {
                f"CR {kind}": accuracies.competitiveness(table, kind) for kind in ("ind-avg", "ind-worst", "exp", "max")
            }
        found["mUAR"] = accuracies.uar(table)
    return found


def _side_by_side(names: Sequence[str], intervals: Sequence[dict[str, Interval]], samples: int) -> Table:
    table = _table("95 % intervals", *names)
    for name in intervals[0]:
        shown = [each[name] for each in intervals]
        if name in ("clean accuracy", "union accuracy"):
            shown = [accuracy_interval(interval.value, samples) for interval in shown]
        table.add_row(name, *map(_shown, shown))
    return table


def _difference_table(differences: dict[str, Interval]) -> Table:
    table = _table("difference", "95 % interval, paired", "")
    for name, difference in differences.items():
        table.add_row(name, _shown(difference, "+.2f"), "" if not difference.excludes(0) else "differs")
    return table


def _verdicts(differences: dict[str, Interval], first: str, second: str) -> list[str]:
    sentences = []
    for name, words in (
        ("clean accuracy", "more accurate on clean samples"),
        ("average accuracy", "more robust on average"),
    ):
        difference = differences[name]
        if difference.excludes(0):
            better = first if difference.value > 0 else second
            sentences.append(f"{better} is {words}, by {abs(difference.value):.1f} points.")
        else:
            sentences.append(f"Neither is shown to be {words}.")
    return sentences


def _at_strengths(first: SampleOutcomes, second: SampleOutcomes) -> list[str]:
    """McNemar's test in words, for each attack."""
    sentences = []
    for attack, test in mcnemar_at_strengths(first, second).items():
        significant = test.p_values <= _SIGNIFICANT
        total = len(test.p_values)
        wins = (
            (first.name, significant & (test.only_first > test.only_second)),
            (second.name, significant & (test.only_first < test.only_second)),
        )
        for name, won in wins:
            if won.any():
                where = _range(first.strengths[attack][won])
                sentences.append(
                    f"{attack}: {name} is right more often at {won.sum()} of {total} strengths, {where} "
                    "(McNemar, corrected)."
                )
        if not significant.any():
            sentences.append(f"{attack}: no significant difference at any of {total} strengths (McNemar, corrected).")
    return sentences


def _crossings(first: SampleOutcomes, second: SampleOutcomes) -> list[str]:
    sentences = []
    for attack in first.attacks:
        found = first.curve(attack).crossings(second.curve(attack))
        significant = [crossing for crossing in found if crossing.significant]
        for crossing in significant:
            before, after = (
                (first.name, second.name)[better] for better in (crossing.better_before, crossing.better_after)
            )
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
    first: dict[str, AdversarialHypervolume], second: dict[str, AdversarialHypervolume], ours: str, theirs: str
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
        better = ours if test.effect > 0 else theirs
        verdict = (
            f"{better} keeps more confidence" if paired <= _SIGNIFICANT else "no significant difference of hypervolume"
        )
        sentences.append(f"{attack}: {verdict} (Wilcoxon signed-rank p = {paired:.2g}, rank-sum p = {apart:.2g}).")
    return sentences


def _range(strengths: NDArray[np.float64]) -> str:
    if strengths.size == 1:
        return f"{strengths[0]:.4g}"
    return f"between {strengths[0]:.4g} and {strengths[-1]:.4g}"


def _shown(interval: Interval, form: str = ".2f") -> str:
    return f"{interval.value:{form}} \\[{interval.low:{form}}, {interval.high:{form}}]"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, style="bold" if position == 0 else "", justify="right" if position else "left")
    return table
