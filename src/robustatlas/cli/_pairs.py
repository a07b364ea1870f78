"""One model against another one, in words: differences, tests, crossings."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from robustatlas.cli._terminal import safe, shown, tables_that_fit
from robustatlas.common.latex import pvalue
from robustatlas.common.wording import MASKED, UPPER_BOUND, falls_from, listed, size, strength
from robustatlas.metrics import (
    AdversarialHypervolume,
    OutcomeTable,
    RobustnessCurve,
    holm,
    mcnemar_at_strengths,
    rank_sum_test,
    signed_rank_test,
)
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts.comparison import Compared
from robustatlas.report.facts.pairs import Pair

_SIGNIFICANT = 0.05

_TABLES = 3
"""Pairs that have a table each."""
_SHORT = 24
"""Letters of names that a column of a table has room for."""
_HEADINGS = ("difference", "p", "ahead")


def print_pairs(console: Console, names: Sequence[str], pairs: Sequence[Pair], leading: str, every: bool) -> None:
    """Print who is ahead: a table for each pair; for more than three pairs one table of the ``leading`` number."""
    if every or len(pairs) <= _TABLES:
        for pair in pairs:
            _print_pair(console, names, pair)
    else:
        rows = [
            [f"{safe(names[pair.first])} -\n{safe(names[pair.second])}", *_cells(pair, leading, names)]
            for pair in pairs
            if leading in pair.differences
        ]
        for part in tables_that_fit([safe(leading), *_HEADINGS], rows, console.width):
            console.print(part)
        console.print("[dim]Every number of each pair: --explain.[/dim]")
    several = f", for all {len(pairs)} pairs at once (Bonferroni; p: Holm), for each number by itself" * (
        len(pairs) > 1
    )
    console.print(
        f"[dim]Intervals of 95 %, on the same images{several}. p: McNemar's test of shares; of other numbers the share "
        "of swaps of the models on each image that give as much.[/dim]"
    )


def _print_pair(console: Console, names: Sequence[str], pair: Pair) -> None:
    first, second = names[pair.first], names[pair.second]
    console.print(f"\n[bold]{safe(first)}[/bold] minus [bold]{safe(second)}[/bold]")
    rows = [[safe(number), *_cells(pair, number, names)] for number in pair.differences]
    for part in tables_that_fit(["", *_HEADINGS], rows, console.width):
        console.print(part)


def _cells(pair: Pair, number: str, names: Sequence[str]) -> list[str]:
    ahead = pair.ahead(number)
    named = max(len(names[pair.first]), len(names[pair.second])) <= _SHORT
    who = "" if ahead is None else safe(names[ahead]) if named else "the first" if ahead == pair.first else "the second"
    return [shown(pair.differences[number], "+z.2f"), pvalue(pair.p_values[number]), who]


def print_details(console: Console, runs: tuple[Compared, Compared], pair: tuple[str, str], explain: bool) -> None:
    """Print where one of two models is ahead: strengths, crossings, hypervolumes; with ``explain`` their tests."""
    invalid = {**masked(runs[0].table), **masked(runs[1].table)}
    grid = {attack: runs[0].table.distances(attack) for attack in runs[0].table.attacks if attack not in invalid}
    tables = (runs[0].table.restrict_distances(grid), runs[1].table.restrict_distances(grid))
    volumes = (runs[0].with_volumes_of(grid).volumes, runs[1].with_volumes_of(grid).volumes)
    sentences = [
        *_strength_sentences(*tables, pair),
        *_crossing_sentences(*tables, pair),
        *(_hypervolume_tests(*volumes, pair) if explain else []),
    ]
    if invalid:
        sentences.insert(0, f"Not held against each other under {listed([*invalid])}: {MASKED}.")
    if sentences:
        console.print(f"\n[bold]{safe(pair[0])}[/bold] and [bold]{safe(pair[1])}[/bold]")
    for sentence in sentences:
        console.print(f"- {safe(sentence)}")


def _strength_sentences(first: OutcomeTable, second: OutcomeTable, names: tuple[str, str]) -> list[str]:
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
                where = _range(attack, first.distances(attack)[won])
                sentences.append(
                    f"{attack}: {name} is right more often at {won.sum()} of {total} strengths, {where} "
                    "(McNemar, corrected)."
                )
    return sentences


def _crossing_sentences(first: OutcomeTable, second: OutcomeTable, names: tuple[str, str]) -> list[str]:
    sentences = []
    for attack in first.attacks:
        curves = [RobustnessCurve.of(model.outcome(attack)).distance_curve for model in (first, second)]
        for crossing in (one for one in curves[0].crossings(curves[1]) if one.significant):
            sides = [names[crossing.better_before], names[crossing.better_after]]
            before, after = sides if falls_from(attack) is None else reversed(sides)
            sentences.append(
                f"{attack}: by the sizes found, the curves cross at {size(crossing.start, of=attack)}; {before} is "
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
            f"{better} keeps more confidence" if paired <= _SIGNIFICANT else "no significant difference of hypervolume"
        )
        sentences.append(f"{attack}: {verdict} (Wilcoxon signed-rank p = {paired:.2g}, rank-sum p = {apart:.2g}).")
        if paired <= _SIGNIFICANT and gap < bound:
            sentences.append(
                f"{attack}: the hypervolumes are {gap:.3f} apart, nearer than {first[attack].levels} levels tell for "
                f"certain ({bound:.3f}); evaluate more strengths."
            )
    return sentences


def print_bounds(console: Console, names: Sequence[str], runs: Sequence[Compared]) -> None:
    attacks = {attack: [not run.table.outcome(attack).frontier for run in runs] for attack in runs[0].volumes}
    unsearched = [attack for attack, lacking in attacks.items() if any(lacking)]
    if unsearched:
        of = [name for place, name in enumerate(names) if any(attacks[attack][place] for attack in unsearched)]
        console.print(
            f"The hypervolume of {safe(listed(of))} under {safe(listed(unsearched))} is an {UPPER_BOUND}, as its "
            "margins were not searched for; evaluate with --search frontier before models are compared by it."
        )


def _range(attack: str, strengths: NDArray[np.float64]) -> str:
    first, last = (strength(strengths[end], of=attack) for end in (0, -1))
    return first if strengths.size == 1 else f"between {first} and {last}"
