"""One model against another one, in words: differences, tests, crossings."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from robustatlas.cli._terminal import safe, tables_of_numbers
from robustatlas.common.typed_strengths import falling_scale_start, format_size, format_strength
from robustatlas.common.wording import MASKED, UPPER_BOUND, format_p_value, join_words
from robustatlas.metrics import (
    AdversarialHypervolume,
    Interval,
    OutcomeTable,
    RobustnessCurve,
    holm,
    mcnemar_at_strengths,
    rank_sum_test,
    signed_rank_test,
)
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.numbers.definitions import SIGNIFICANCE
from robustatlas.report.numbers.of_several import ModelNumbers, SharedNumbers
from robustatlas.report.numbers.pairs import Pair
from robustatlas.report.words import rule_of_differences

_TABLES = 3
"""Number of pairs up to which each has a table."""

_HEADINGS = ("difference", "p", "ahead")


def print_pairs(
    console: Console, names: Sequence[str], numbers: SharedNumbers, labels: Sequence[str], every: bool
) -> None:
    """Print who is ahead of whom: a table for each pair, or for more than three one table of the headline."""
    if every or len(numbers.pairs) <= _TABLES:
        for pair in numbers.pairs:
            _print_pair(console, names, pair, labels)
    else:
        label = numbers.leading_label
        rows = [
            [safe(_pair_name(pair, names)), *_cells(pair, label)] for pair in numbers.pairs if label in pair.differences
        ]
        for part in tables_of_numbers([safe(label), *_HEADINGS], rows, console.width, sign=True):
            console.print(part)
        console.print("[dim]Every number of each pair: --explain.[/dim]")
    console.print(f"[dim]{safe(rule_of_differences(len(numbers.pairs)))}[/dim]")


def _print_pair(console: Console, names: Sequence[str], pair: Pair, labels: Sequence[str]) -> None:
    first, second = names[pair.first], names[pair.second]
    console.print(f"\n[bold]{safe(first)}[/bold] minus [bold]{safe(second)}[/bold]")
    rows = [[safe(label), *_cells(pair, label)] for label in labels if label in pair.differences]
    for part in tables_of_numbers(["", *_HEADINGS], rows, console.width, sign=True):
        console.print(part)


def _pair_name(pair: Pair, names: Sequence[str]) -> str:
    return f"{names[pair.first]} -\n{names[pair.second]}"


def _cells(pair: Pair, label: str) -> list[str | Interval]:
    leader = pair.leader(label)
    ahead = "" if leader is None else "first" if leader == pair.first else "second"
    return [pair.differences[label], format_p_value(pair.p_values[label]), ahead]


def print_details(
    console: Console, runs: tuple[ModelNumbers, ModelNumbers], pair: tuple[str, str], explain: bool
) -> None:
    """Print where one of two models is ahead: strengths and crossings; with `explain` the tests of hypervolumes."""
    invalid = {**masked_shares(runs[0].table), **masked_shares(runs[1].table)}
    grid = {attack: runs[0].table.distances(attack) for attack in runs[0].table.attacks if attack not in invalid}
    tables = (runs[0].table.restrict_distances(grid), runs[1].table.restrict_distances(grid))
    first, second = ({attack: one for attack, one in run.volumes.items() if attack in grid} for run in runs)
    sentences = [
        *_strength_sentences(*tables, pair),
        *_crossing_sentences(*tables, pair),
        *(_hypervolume_tests(first, second, pair) if explain else []),
    ]
    if invalid:
        sentences.insert(0, f"Not held against each other under {join_words([*invalid])}: {MASKED}.")
    if sentences:
        console.print(f"\n[bold]{safe(pair[0])}[/bold] and [bold]{safe(pair[1])}[/bold]")
    for sentence in sentences:
        console.print(f"- {safe(sentence)}")


def _strength_sentences(first: OutcomeTable, second: OutcomeTable, names: tuple[str, str]) -> list[str]:
    sentences = []
    for attack, test in mcnemar_at_strengths(first, second).items():
        significant = test.p_values < SIGNIFICANCE
        total = len(test.p_values)
        wins = (
            (names[0], significant & (test.only_first > test.only_second)),
            (names[1], significant & (test.only_first < test.only_second)),
        )
        for name, won in wins:
            if won.any():
                where = _range(attack, first.distances(attack)[won])
                sentences.append(
                    f"{attack}: {name} is right more often at {won.sum()} of {total} strengths, {where} "
                    "(McNemar, corrected)."
                )
    return sentences


def _crossing_sentences(first: OutcomeTable, second: OutcomeTable, names: tuple[str, str]) -> list[str]:
    sentences = []
    for attack in first.attacks:
        curves = [RobustnessCurve.from_outcome(model.outcome(attack)).distance_curve for model in (first, second)]
        for crossing in (one for one in curves[0].crossings(curves[1]) if one.significant):
            sides = [names[crossing.better_before], names[crossing.better_after]]
            before, after = sides if falling_scale_start(attack) is None else reversed(sides)
            sentences.append(
                f"{attack}: by the sizes found, the curves cross at {format_size(crossing.start, attack=attack)}; "
                f"{before} is "
                f"more robust below, {after} above (significant)."
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
            f"{better} keeps more confidence" if paired < SIGNIFICANCE else "no significant difference of hypervolume"
        )
        sentences.append(f"{attack}: {verdict} (Wilcoxon signed-rank p = {paired:.2g}, rank-sum p = {apart:.2g}).")
        if paired < SIGNIFICANCE and gap < bound:
            sentences.append(
                f"{attack}: the hypervolumes are {gap:.3f} apart, nearer than {first[attack].levels} levels tell for "
                f"certain ({bound:.3f}); evaluate more strengths."
            )
    return sentences


def print_bounds(console: Console, names: Sequence[str], runs: Sequence[ModelNumbers]) -> None:
    attacks = {attack: [not run.table.outcome(attack).frontier for run in runs] for attack in runs[0].volumes}
    unsearched = [attack for attack, lacking in attacks.items() if any(lacking)]
    if unsearched:
        of = [name for place, name in enumerate(names) if any(attacks[attack][place] for attack in unsearched)]
        console.print(
            f"The hypervolume of {safe(join_words(of))} under {safe(join_words(unsearched))} is an {UPPER_BOUND}, as "
            "its "
            "margins were not searched for; evaluate with --search frontier before models are compared by it."
        )


def _range(attack: str, strengths: NDArray[np.float64]) -> str:
    first, last = (format_strength(strengths[end], attack=attack) for end in (0, -1))
    return first if strengths.size == 1 else f"between {first} and {last}"
