"""One model against another one, in words: differences, tests, crossings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from robustatlas.cli._terminal import safe, shown, table
from robustatlas.common.wording import MASKED, UPPER_BOUND, listed, strength
from robustatlas.metrics import (
    AdversarialHypervolume,
    Interval,
    OutcomeTable,
    RobustnessCurve,
    SampleStatistic,
    holm,
    mcnemar_at_strengths,
    paired_differences,
    rank_sum_test,
    signed_rank_test,
)
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts.comparison import Compared

_SIGNIFICANT = 0.05


def print_pair(
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
                where = _range(first.strengths(attack)[won])
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


def _range(strengths: NDArray[np.float64]) -> str:
    if strengths.size == 1:
        return strength(strengths[0])
    return f"between {strength(strengths[0])} and {strength(strengths[-1])}"
