"""What ``show`` and ``compare`` say about metrics: the numbers, and what each of them means."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from robustatlas.metrics import SampleOutcomes, union_accuracy
from robustatlas.metrics.accuracies import same_strength
from robustatlas.metrics.intervals import Interval, accuracy_interval
from robustatlas.references import Reference, available_references, load_reference
from robustatlas.report.facts import AttackFacts, ReferenceFacts, RunFacts, gather

if TYPE_CHECKING:
    from robustatlas.outcomes import Result

DEFINITIONS: Mapping[str, str] = {
    "clean accuracy": "Share of samples classified correctly without any perturbation.",
    "average accuracy": "Mean robust accuracy over every (attack, strength), all counting alike.",
    "union accuracy": "Share of samples that no attack breaks, each attack up to the middle one of its strengths: the "
    "worst case for every sample.",
    "median size": "Size of perturbation at which half of all samples are misclassified; 'never' where an attack does "
    "not get that far. From the robustness curve R(size): the share of samples with an adversarial example no larger.",
    "AH": "Adversarial hypervolume: mean over samples and equal steps of the strength of max(0, lowest margin p_y "
    "- max p_k found so far). 1 would be full confidence at every strength. Guo et al. 2024.",
    "CR": "Competitiveness ratio to models trained against each very attack (acc*), in percent. CR ind-avg: mean of "
    "acc / acc* over the clean input and every (attack, strength). CR ind-worst: the smallest of them. CR exp: sum of "
    "acc over sum of acc*. CR max: smallest acc over smallest acc*. Of one attack: over its strengths and the "
    "clean input. Dai et al. 2023 (MultiRobustBench).",
    "UAR": "Unforeseen attack robustness: 100 * sum of accuracies over the strengths of an attack / sum of those of "
    "models trained against it; the clean input takes no part. mUAR: mean over attacks. Kang et al. 2019.",
    "SC": "Stability constant: largest change of accuracy per change of difficulty (100 - acc*), from a point seen in "
    "training to any other at most 3 points easier or harder. Divides by differences of a few images, so it is shown "
    "with the pair of points that decides it. Dai et al. 2023 (MultiRobustBench).",
    "interval": "In brackets the 95 % confidence interval over the choice of test samples: Clopper-Pearson for single "
    "accuracies, percentile bootstrap (1000 resamples) for all other numbers. It does not cover a weak attack.",
    "difference": "First model minus the other on the same samples, with a paired bootstrap interval: one that "
    "excludes 0 shows a difference.",
    "McNemar": "Exact test of the samples that only one of two models gets right at a strength; p-values are corrected "
    "(Holm) over all attacks and strengths of the comparison.",
    "crossing": "A strength at which the robustness curves of two models change order. Significant where the "
    "simultaneous (DKW) bands of both curves are apart on either side.",
    "Wilcoxon": "Signed-rank test of the hypervolumes of the same samples; rank-sum, as Guo et al. 2024 do, as if the "
    "samples were different ones. Corrected (Holm) over the attacks.",
}
"""Every number that is printed, and its definition."""


def print_metrics(
    result: Result,
    console: Console,
    *,
    explain: bool = False,
    reference: Reference | None = None,
    trained_on: Mapping[str, float] | None = None,
) -> None:
    """Print every metric that a run supports, with intervals.

    Args:
        result: the run.
        console: where to print.
        explain: whether to print the definitions of the numbers below them.
        reference: acc* to compare with; when None the shipped one that fits the data and the strengths, if any.
        trained_on: attack -> largest strength of the model's training; None where it is not known.
    """
    facts = gather(result, result.manifest.settings.model.name, reference or fitting_reference(result), trained_on)
    shown = ["clean accuracy", "average accuracy", "union accuracy", "median size", "interval"]
    console.print(_overall(result, facts))
    console.print(_by_attack(facts))
    if any(attack.frontier for attack in facts.attacks):
        shown.append("AH")
    if facts.reference:
        console.print(_against(facts.reference))
        shown += ["CR", "UAR", *(["SC"] if facts.reference.stability else [])]
    if explain:
        print_definitions(console, shown)


def print_definitions(console: Console, names: Iterable[str]) -> None:
    """Print what the numbers mean."""
    chosen = set(names)
    table = Table(box=None, show_header=False, pad_edge=False, title="What the numbers mean", title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in DEFINITIONS.items():
        if name in chosen:
            table.add_row(name, text)
    console.print(table)


def fitting_reference(result: Result) -> Reference | None:
    """The shipped reference for the run's data set that has most of its strengths; None where none has any."""
    data = re.sub("[^a-z0-9]", "", result.manifest.settings.data.name.lower())
    outcomes = SampleOutcomes.from_result(result)
    best, most = None, 0
    for name in available_references():
        if name.rpartition("-")[2] in data:
            reference = load_reference(name)
            shared = sum(len(grid) for grid in shared_with_reference(outcomes, reference).values())
            if shared > most:
                best, most = reference, shared
    return best


def shared_with_reference(outcomes: SampleOutcomes, reference: Reference) -> dict[str, list[float]]:
    """Ranked attack -> the strengths that both the outcomes and the reference have."""
    shared = {}
    for attack in outcomes.attacks:
        if attack in reference.ranked:
            known = reference.accuracies.cells[attack]
            grid = outcomes.strengths[attack].tolist()
            kept = [strength for strength in grid if any(same_strength(strength, other) for other in known)]
            if kept:
                shared[attack] = kept
    return shared


def middle_strengths(outcomes: SampleOutcomes) -> dict[str, float]:
    """The middle one of each attack's strengths."""
    return {attack: float(grid[(len(grid) - 1) // 2]) for attack, grid in outcomes.strengths.items()}


def percent(interval: Interval | None) -> str:
    """An interval in percent for a cell of a table."""
    return "-" if interval is None else f"{interval.value:.1f} [{interval.low:.1f}, {interval.high:.1f}]"


def _overall(result: Result, facts: RunFacts) -> Table:
    table = _table("", "% of samples, with 95 % interval")
    table.add_row("clean accuracy", _escaped(percent(facts.clean)))
    if facts.average:
        table.add_row("average accuracy", _escaped(percent(facts.average)))
    monotone = [attack for attack in result.attacks if result.outcome(attack).monotone]
    if len(monotone) > 1:
        outcomes = SampleOutcomes.from_result(result)
        outcomes = outcomes.restrict({attack: outcomes.strengths[attack] for attack in monotone})
        minimal = {attack: result.minimal_strength(attack) for attack in monotone}
        union = accuracy_interval(union_accuracy(minimal, middle_strengths(outcomes)), len(result.index))
        table.add_row("union accuracy", _escaped(percent(union)))
    return table


def _by_attack(facts: RunFacts) -> Table:
    table = _table("attack", "average accuracy", "median size")
    volumes = any(attack.frontier for attack in facts.attacks)
    ratios = any(attack.uar for attack in facts.attacks)
    if volumes:
        table.add_column("AH", justify="right")
    if ratios:
        table.add_column("CR", justify="right")
        table.add_column("UAR", justify="right")
    for attack in facts.attacks:
        median = attack.quartiles[1]
        cells = [percent(attack.average), "never" if math.isinf(median) else f"{median:.3g}"]
        if volumes:
            cells.append(_volume(attack))
        if ratios:
            cells += [f"{number.value:.1f}" if number else "-" for number in (attack.ratio, attack.uar)]
        table.add_row(attack.attack, *map(_escaped, cells))
    return table


def _volume(attack: AttackFacts) -> str:
    if attack.frontier is None:
        return "-"
    volume = attack.frontier.volume
    return f"{volume.value:.3f} [{volume.low:.3f}, {volume.high:.3f}]"


def _against(facts: ReferenceFacts) -> Table:
    share = "" if facts.complete else f", on {facts.cells} of its {facts.ranked} ranked (attack, strength)"
    table = _table(f"against {facts.name}{share}", "")
    for kind, ratio in facts.ratios.items():
        table.add_row(f"CR {kind}", _escaped(percent(ratio)))
    table.add_row("mUAR", _escaped(percent(facts.uar)))
    if facts.stability:
        pair = f" ({' and '.join(facts.stability.pair)})" if facts.stability.pair else ""
        table.add_row("SC", f"{facts.stability.value:.2f}{pair}")
    return table


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, style="bold" if position == 0 else "", justify="right" if position else "left")
    return table


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
