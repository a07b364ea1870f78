"""``robustatlas compare``: which model is more robust, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.cli._metrics_section import (
    Held,
    chosen_reference,
    hold_against,
    judged_everywhere,
    named_points,
    parse_strength_of,
    print_definitions,
    survivors,
    union_strengths,
)
from robustatlas.errors import UserError
from robustatlas.metrics import (
    AccuracyStatistics,
    AdversarialHypervolume,
    Interval,
    SampleOutcomes,
    SampleStatistic,
    accuracy_interval,
    adversarial_hypervolume,
    attack_correlation,
    average_accuracy,
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
from robustatlas.metrics.accuracies import same_strength
from robustatlas.metrics.matching import CLEAN, some
from robustatlas.references import Reference

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
    union: Annotated[
        str | None,
        typer.Option(help="Attacks and their largest strengths for the union accuracy: linf=8/255,l2=0.5."),
    ] = None,
    save_reference: Annotated[
        Path | None,
        typer.Option(help="Write the best run at each shared strength as a reference file, for --reference."),
    ] = None,
) -> None:
    """Compare runs on the samples, attacks and strengths that they share: intervals, differences, crossings, tests.

    robustatlas compare runs/a runs/b

    A reference of your own, from runs of models that were each trained against one of the attacks:

        robustatlas compare runs/adv-linf runs/adv-l2 --save-reference mine.json

        robustatlas show runs/mynet --reference mine.json
    """
    from robustatlas.outcomes import load_result

    if len(runs) < 2:
        raise UserError("One run is given; give two or more to compare.")
    if save_reference is not None and not save_reference.parent.is_dir():
        raise UserError(f"--save-reference {save_reference}: there is no folder {save_reference.parent}.")
    chosen_union = parse_strength_of(union, "--union") or None
    results = [load_result(run) for run in runs]
    names = _names(results, runs)
    _check_same_data(results, names)
    outcomes = shared_samples(
        [SampleOutcomes.from_result(result, name) for result, name in zip(results, names, strict=True)]
    )
    judged = [attack for attack in results[0].attacks if all(judged_everywhere(result, attack) for result in results)]
    common = {attack: grid for attack, grid in common_strengths(outcomes).items() if attack in judged}
    if not common:
        raise UserError(f"{' and '.join(names)} share no attack at the same strength; evaluate them alike to compare.")
    outcomes = [model.restrict(common) for model in outcomes]

    at = union_strengths(outcomes[0], chosen_union)
    console = Console()
    chosen = chosen_reference(reference, results[0])
    held = hold_against(outcomes[0], chosen) if chosen else None
    console.print(_heading(results, outcomes, common), highlight=False)
    for note in held.notes() if held else ():
        console.print(note, highlight=False)
    volumes = [_hypervolumes(result, model.index, common) for result, model in zip(results, outcomes, strict=True)]
    statistics = [
        _statistics(model, found, held, set.intersection(*(set(each) for each in volumes)), at)
        for model, found in zip(outcomes, volumes, strict=True)
    ]
    intervals = [bootstrap_intervals(each) for each in statistics]
    for table in _side_by_side(names, intervals, outcomes[0].samples, console.width):
        console.print(table)
    if "union accuracy" in statistics[0]:
        console.print(f"[dim]union: {named_points(at)}[/dim]", highlight=False)
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
    agreement = _agreement(outcomes)
    if agreement is not None:
        console.print(f"\nDo the attacks agree? Correlation over {len(outcomes)} models:")
        console.print(agreement)
    if save_reference is not None:
        source = "best of the runs " + ", ".join(map(str, runs))
        tables = {model.name: model.accuracies() for model in outcomes}
        Reference.from_models(save_reference.stem, source, tables).to_json(save_reference)
        console.print(f"Reference: {save_reference}", highlight=False, soft_wrap=True)
    if explain:
        shown = [
            "clean accuracy",
            "average accuracy",
            "interval",
            "difference",
            "McNemar",
            "crossing",
        ]
        shown += [name for name in ("union accuracy", "CR", "UAR") if any(name in row for row in statistics[0])]
        shown += ["AH", "Wilcoxon"] if any("AH" in row for row in statistics[0]) else []
        print_definitions(console, [*shown, *(["agreement"] if agreement else [])])


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


def _check_same_data(results: Sequence[Result], names: Sequence[str]) -> None:
    """Raise where the same positions of two runs are known to hold different images."""
    first, *others = (result.manifest.settings for result in results)
    for name, other in zip(names[1:], others, strict=True):
        same_positions = first.samples.indices_sha256 and first.samples.indices_sha256 == other.samples.indices_sha256
        hashes = first.data.images_sha256, other.data.images_sha256
        if same_positions and all(hashes) and hashes[0] != hashes[1]:
            raise UserError(
                f"{names[0]} was evaluated on {first.data.name} and {name} on {other.data.name}, which hold different "
                "images; evaluate the same data to compare."
            )


def _heading(results: Sequence[Result], outcomes: Sequence[SampleOutcomes], common: dict[str, list[float]]) -> str:
    left_out = sorted({attack for result in results for attack in result.attacks} - common.keys())
    points = sum(len(grid) for grid in common.values())
    alone = {
        f"{attack}@{strength:.4g}": None
        for result in results
        for attack in common
        for strength in result.strengths(attack)
        if not any(same_strength(strength, shared) for shared in common[attack])
    }
    text = (
        f"{outcomes[0].samples} shared samples of {results[0].manifest.settings.data.name}, "
        f"{len(common)} shared attack{'s' * (len(common) > 1)} at {points} strength{'s' * (points > 1)}: "
        f"{', '.join(common)}."
    )
    names = [*left_out, *alone]
    return f"{text}\n[yellow]Left out[/yellow], not evaluated alike: {some(names)}." if names else text


def _hypervolumes(
    result: Result, index: NDArray[np.int64], common: Mapping[str, Sequence[float]]
) -> dict[str, AdversarialHypervolume]:
    """Hypervolumes of the samples at `index` over the common strengths, where these are equal steps with margins."""
    order = np.argsort(result.index)
    rows = order[np.searchsorted(result.index, index, sorter=order)]
    clean = result.clean_margin[rows]
    found = {}
    for attack, strengths in common.items():
        if len(strengths) < 2:
            continue
        grid = result.strengths(attack)
        levels = [next(i for i, known in enumerate(grid) if same_strength(known, s)) for s in strengths]
        try:
            whole = adversarial_hypervolume(result.margins(attack)[rows], None if np.isnan(clean).any() else clean)
            found[attack] = adversarial_hypervolume(whole.frontier[:, levels], whole.clean, strengths)
        except UserError:
            continue
    return found


def _statistics(
    outcomes: SampleOutcomes,
    volumes: dict[str, AdversarialHypervolume],
    held: Held | None,
    with_volume: set[str],
    union: Mapping[str, float],
) -> dict[str, SampleStatistic]:
    accuracies = AccuracyStatistics(outcomes)
    found = {"clean accuracy": accuracies.accuracy(CLEAN, 0), "average accuracy": accuracies.average()}
    if len(union) > 1 or len(union) < len(outcomes.attacks):
        found["union accuracy"] = mean_statistic(100.0 * survivors(outcomes, union).astype(np.float64))
    if len(outcomes.attacks) > 1:
        found |= {f"average {attack}": accuracies.average([attack]) for attack in outcomes.attacks}
    found |= {f"100 AH {a}": mean_statistic(100 * volumes[a].per_sample) for a in outcomes.attacks if a in with_volume}
    if held is not None:
        accuracies = AccuracyStatistics(outcomes.restrict(held.shared))
        table = held.table
        if not np.isnan(table.clean):
            found |= {
                f"CR {kind}": accuracies.competitiveness(table, kind) for kind in ("ind-avg", "ind-worst", "exp", "max")
            }
        found["mUAR"] = accuracies.uar(table)
    return found


def _side_by_side(
    names: Sequence[str], intervals: Sequence[dict[str, Interval]], samples: int, width: int
) -> list[Table]:
    """The numbers of all models, in as many tables as the width asks for."""
    rows: dict[str, list[str]] = {}
    for name in intervals[0]:
        shown = [each[name] for each in intervals]
        if name in ("clean accuracy", "union accuracy"):
            shown = [accuracy_interval(interval.value, samples) for interval in shown]
        rows[name] = [_shown(interval, ".1f") for interval in shown]
    widths = [
        max(len(text.replace("\\", "")) for text in (name, *(cells[model] for cells in rows.values()))) + 3
        for model, name in enumerate(names)
    ]
    groups: list[list[int]] = [[]]
    room = width - max(len("95 % intervals"), *map(len, rows)) - 2
    for model, wide in enumerate(widths):
        if groups[-1] and sum(widths[other] for other in groups[-1]) + wide > room:
            groups.append([])
        groups[-1].append(model)
    tables = []
    for group in groups:
        table = _table("95 % intervals", *(names[model] for model in group))
        for name, cells in rows.items():
            table.add_row(name, *(cells[model] for model in group))
        tables.append(table)
    return tables


def _agreement(outcomes: Sequence[SampleOutcomes]) -> Table | None:
    """Correlation of the attacks over the models; None for fewer than three models or two attacks."""
    attacks = outcomes[0].attacks
    if len(outcomes) < 3 or len(attacks) < 2:
        return None
    scores = [[average_accuracy(model.accuracies(), [attack]) for attack in attacks] for model in outcomes]
    table = _table("", *map(str, range(1, len(attacks) + 1)))
    for number, (attack, row) in enumerate(zip(attacks, attack_correlation(scores), strict=True), start=1):
        table.add_row(f"{number} {attack}", *("-" if np.isnan(r) else f"{r:.2f}" for r in row[:number]))
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
            sentences.append(
                f"{attack}: no significant difference at any of {total} strength"
                f"{'s' * (total > 1)} (McNemar, corrected)."
            )
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
