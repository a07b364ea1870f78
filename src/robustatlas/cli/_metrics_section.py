"""What ``show`` and ``compare`` say about metrics: the numbers, and what each of them means."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table

from robustatlas.errors import UserError
from robustatlas.metrics import (
    AccuracyTable,
    Interval,
    SampleOutcomes,
    accuracy_interval,
    adversarial_hypervolume,
    competitiveness_in_out,
    percent_seen,
    stability_constant,
)
from robustatlas.metrics.accuracies import same_strength
from robustatlas.metrics.matching import different_points, some
from robustatlas.references import Reference, available_references, load_reference
from robustatlas.report.facts import ReferenceFacts, RunFacts, gather

if TYPE_CHECKING:
    from robustatlas.outcomes import Result

DEFINITIONS: Mapping[str, str] = {
    "clean accuracy": "Share of samples classified correctly without any perturbation.",
    "average accuracy": "Mean robust accuracy over every (attack, strength), all counting alike.",
    "union accuracy": "Share of samples that no attack breaks, each attack up to the strength that is named, by "
    "default the middle one of its strengths: the worst case for every sample. --union linf=0.1,l2=0.5 chooses.",
    "median size": "Size of perturbation at which half of all samples are misclassified; 'never' where an attack does "
    "not get that far. From the robustness curve R(size): the share of samples with an adversarial example no larger.",
    "curve area": "Area under the robustness curve up to the attack's largest strength, in percent: the mean robust "
    "error over all sizes up to there.",
    "AH": "Adversarial hypervolume: mean over samples and equal steps of the strength of max(0, lowest margin p_y "
    "- max p_k found so far). 1 would be full confidence at every strength. std: over the samples. too low by: the "
    "integral that it approximates with its number of levels is at most this much larger. weak: share of samples where "
    "the attack found a larger margin in a larger set. Guo et al. 2024.",
    "CR": "Competitiveness ratio to models trained against each very attack (acc*), in percent. CR ind-avg: mean of "
    "acc / acc* over the clean input and every (attack, strength). CR ind-worst: the smallest of them. CR exp: sum of "
    "acc over sum of acc*. CR max: smallest acc over smallest acc*. Of one attack: over its strengths and the "
    "clean input. Dai et al. 2023 (MultiRobustBench).",
    "UAR": "Unforeseen attack robustness: 100 * sum of accuracies over the strengths of an attack / sum of those of "
    "models trained against it; the clean input takes no part. mUAR: mean over attacks. Kang et al. 2019.",
    "seen": "Seen in training are the clean input and the attacks of the training up to their strengths. seen: their "
    "share of the points. CR in, CR out: CR ind-avg over those, and over all others.",
    "SC": "Stability constant: largest change of accuracy per change of difficulty (100 - acc*), from a point seen in "
    "training to any other at most 3 points easier or harder. Divides by differences of a few images, so it is shown "
    "with the pair of points that decides it, and with a floor: only pairs at least so many points apart. Dai et al. "
    "2023 (MultiRobustBench).",
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
    "agreement": "Pearson correlation over the models of their average accuracies under two attacks: near 1 they rank "
    "and space the models alike. With few models it is rough. Kang et al. 2019 (Figure 6b).",
}
"""Every number that is printed, and its definition."""

_FLOORS = (0.0, 0.5, 1.0)
"""Smallest differences of difficulty, in percentage points, of the stability constants that are shown."""


def print_metrics(
    result: Result,
    console: Console,
    *,
    explain: bool = False,
    reference: Reference | Literal["fitting"] | None = "fitting",
    trained_on: Mapping[str, float] | None = None,
    union: Mapping[str, float] | None = None,
    before: RenderableType | None = None,
) -> None:
    """Print every metric that a run supports, with intervals.

    Args:
        result: the run.
        console: where to print.
        explain: whether to print the definitions of the numbers below them.
        reference: acc* to compare with; `fitting` for the shipped one that fits, if any, None for no comparison.
        trained_on: attack -> largest strength of the model's training; None where it is not known.
        union: attack -> strength up to which it counts for the union accuracy; None for the middle one of each.
        before: printed first, once nothing is found wrong with what is asked for.
    """
    outcomes = judged_outcomes(result)
    if reference == "fitting":
        reference = fitting_reference(result)
    held = hold_against(outcomes, reference) if reference else None
    if trained_on is not None:
        _check_trained_on(trained_on, reference)
    facts = gather(result, outcomes.name, held.usable if held else None, None)
    shown = ["clean accuracy", "average accuracy", "median size", "curve area", "interval"]
    strengths = union_strengths(outcomes, union)
    if before is not None:
        console.print(before)
    console.print(_overall(outcomes, facts, strengths))
    if len(strengths) > 1 or union:
        shown.append("union accuracy")
        console.print(f"[dim]union: {named_points(strengths)}[/dim]", highlight=False)
    console.print(_by_attack(facts))
    volumes = {attack.attack: attack.frontier.volume for attack in facts.attacks if attack.frontier}
    if volumes:
        shown.append("AH")
        console.print(_hypervolume_table(result, volumes))
    uneven = sorted(attack for attack in result.attacks if not equal_steps(result.strengths(attack)))
    if uneven:
        console.print(f"No adversarial hypervolume of {some(uneven)}: the strengths are not equal steps.")
    if held:
        for note in held.notes():
            console.print(note, highlight=False)
    if held and facts.reference:
        console.print(_against(facts.reference, _seen_rows(outcomes, held, trained_on)))
        shown += ["CR"] if facts.reference.ratios else []
        shown += ["UAR", *(["seen", "SC"] if trained_on is not None and facts.reference.ratios else [])]
        unused = [attack for attack in trained_on or () if attack not in held.shared]
        if unused:
            console.print(f"Trained on {some(unused)}, of which no point is compared here.")
        if trained_on is None and facts.reference.ratios:
            console.print("Say what the model was trained on, such as --trained-on linf=0.03, for SC, CR in and out.")
    if explain:
        print_definitions(console, shown)


@dataclass(frozen=True)
class Held:
    """What a run and a reference have in common.

    Attributes:
        reference: as it is.
        shared: ranked attack -> the strengths that both have and at which the reference accuracy is not 0.
        missing: names of the ranked points that the run lacks.
        extra: names of the points that the reference lacks.
        zero: names of the points left out because the reference accuracy is 0 there.
    """

    reference: Reference
    shared: Mapping[str, list[float]]
    missing: list[str]
    extra: list[str]
    zero: list[str]

    @property
    def table(self) -> AccuracyTable:
        """The reference's accuracies at the shared points."""
        return self.reference.accuracies.restrict(self.shared, self.shared)

    @property
    def usable(self) -> Reference:
        """The reference with only the shared points."""
        return replace(self.reference, accuracies=self.table, ranked=tuple(self.shared))

    @property
    def points(self) -> int:
        """Number of shared (attack, strength)."""
        return sum(map(len, self.shared.values()))

    def notes(self) -> list[str]:
        """What is compared, and by name what is not."""
        ranked = sum(len(self.reference.accuracies.cells[attack]) for attack in self.reference.ranked)
        numbers = "UAR" if math.isnan(self.reference.clean) else "CR and UAR"
        lines = [
            f"{numbers} against {self.reference.name}, on {self.points} of its {ranked} ranked (attack, strength)."
        ]
        for what, points in (
            ("Missing in the run", self.missing),
            ("Not in the reference", self.extra),
            ("Left out, as the reference accuracy is 0", self.zero),
        ):
            if points:
                lines.append(f"{what}: {some(points, at_most=12)}.")
        return lines


def hold_against(outcomes: SampleOutcomes, reference: Reference) -> Held:
    """Pair outcomes with a reference.

    Raises:
        UserError: where no ranked (attack, strength) is in both.
    """
    cells = reference.accuracies.cells
    known = shared_with_reference(outcomes, reference)
    positive = {attack: [s for s in grid if reference.accuracies.at(attack, s) > 0] for attack, grid in known.items()}
    shared = {attack: grid for attack, grid in positive.items() if grid}
    attacks = [*reference.ranked, *(attack for attack in outcomes.attacks if attack not in reference.ranked)]
    ranked = {attack: cells[attack] for attack in reference.ranked}
    missing, extra = different_points(outcomes.strengths, ranked, attacks)
    if not shared:
        raise UserError(
            f"{outcomes.name} and {reference.name} have no attack at the same strength with a reference accuracy above "
            f"0; the reference ranks {some(reference.ranked)} and the run has {some(outcomes.attacks) or 'none'}. "
            "Evaluate at its strengths, or give --reference none."
        )
    zero = [f"{attack}@{s:g}" for attack, grid in known.items() for s in grid if s not in positive[attack]]
    return Held(reference, shared, missing, extra, zero)


def judged_outcomes(result: Result, name: str = "") -> SampleOutcomes:
    """The outcomes of a run under the attacks that say of every sample whether it is correct at every strength."""
    outcomes = SampleOutcomes.from_result(result, name)
    return outcomes.restrict({a: outcomes.strengths[a] for a in result.attacks if judged_everywhere(result, a)})


def judged_everywhere(result: Result, attack: str) -> bool:
    """Whether the run says of every sample whether it is correct at every strength of the attack."""
    if attack not in result.attacks:
        return False
    outcome = result.outcome(attack)
    return outcome.monotone or not bool(np.any(outcome.fooled[outcome.minimal_strength > 0] < 0))


def union_strengths(outcomes: SampleOutcomes, given: Mapping[str, float] | None) -> dict[str, float]:
    """Attack -> the strength of its grid up to which it counts for the union; those asked for, or all middle ones."""
    if given is None:
        return {attack: float(grid[(len(grid) - 1) // 2]) for attack, grid in outcomes.strengths.items()}
    chosen = {}
    for attack, strength in given.items():
        if attack not in outcomes.attacks:
            raise UserError(
                f"--union names {attack!r}, which is not evaluated; give one of {some(outcomes.attacks) or 'none'}."
            )
        below = [s for s in outcomes.strengths[attack].tolist() if s < strength or same_strength(s, strength)]
        if not below:
            raise UserError(
                f"--union {attack}={strength:g} is below the smallest strength of {attack} that was evaluated, "
                f"{outcomes.strengths[attack][0]:g}."
            )
        chosen[attack] = below[-1]
    return chosen


def survivors(outcomes: SampleOutcomes, strengths: Mapping[str, float]) -> NDArray[np.bool_]:
    """Whether each sample [N] is correct under every attack at every strength up to the one that is named."""
    alive = outcomes.clean.copy()
    for attack, largest in strengths.items():
        alive &= outcomes.correct[attack][:, outcomes.strengths[attack] <= largest].all(axis=1)
    return alive


def named_points(strengths: Mapping[str, float]) -> str:
    """Such as `linf@0.1, l2@0.5`."""
    return ", ".join(f"{attack}@{strength:.4g}" for attack, strength in strengths.items())


def equal_steps(strengths: NDArray[np.float64]) -> bool:
    """Whether strengths are equal steps from 0, as the hypervolume asks for."""
    count = len(strengths)
    return bool(np.allclose(strengths, strengths[-1] * np.arange(1, count + 1) / count, rtol=1e-4, atol=0))


def parse_strength_of(given: str | None, option: str) -> dict[str, float] | None:
    """``linf=0.03,l2=0.5`` (a strength may be a fraction such as 8/255) by attack; {} for ``none``.

    Example:
        >>> parse_strength_of("linf=8/256,l2=0.5", "--union")
        {'linf': 0.03125, 'l2': 0.5}
    """
    if given is None:
        return None
    found: dict[str, float] = {}
    if given.strip() == "none":
        return found
    for item in given.split(","):
        name, _, value = (part.strip() for part in item.partition("="))
        above, slash, below = value.partition("/")
        try:
            strength = float(above) / (float(below) if slash else 1.0)
        except (ValueError, ZeroDivisionError):
            strength = math.nan
        if not name or name in found or not 0 < strength < math.inf:
            raise UserError(
                f"{option} {given!r} is not understood at {item.strip()!r}; expected each attack once with a strength, "
                "such as linf=8/255,l2=0.5."
            )
        found[name] = strength
    return found


def chosen_reference(given: str | None, result: Result) -> Reference | None:
    """The reference that is asked for; when None the shipped one that fits, and no one for ``none``."""
    if given is None:
        return fitting_reference(result)
    return None if given == "none" else load_reference(given)


def print_definitions(console: Console, names: Iterable[str]) -> None:
    """Print what the numbers mean."""
    chosen = set(names)
    console.print("\n[bold]What the numbers mean[/bold]")
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in DEFINITIONS.items():
        if name in chosen:
            table.add_row(name, text)
    console.print(table)


def fitting_reference(result: Result) -> Reference | None:
    """The shipped reference for the run's data set that has most of its strengths; None where none has any."""
    data = re.sub("[^a-z0-9]", "", result.manifest.settings.data.name.lower())
    outcomes = judged_outcomes(result)
    best, most = None, 0
    for name in available_references():
        if re.search(rf"{name.rpartition('-')[2]}(?!\d)", data):
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


def percent(interval: Interval | None) -> str:
    """An interval in percent for a cell of a table."""
    return "-" if interval is None else f"{interval.value:.1f} [{interval.low:.1f}, {interval.high:.1f}]"


def _overall(outcomes: SampleOutcomes, facts: RunFacts, union: Mapping[str, float]) -> Table:
    table = _table("", "% of samples, with 95 % interval")
    table.add_row("clean accuracy", _escaped(percent(facts.clean)))
    if facts.average:
        table.add_row("average accuracy", _escaped(percent(facts.average)))
    if len(union) > 1 or (union and len(union) < len(outcomes.attacks)):
        share = 100.0 * float(survivors(outcomes, union).mean())
        table.add_row("union accuracy", _escaped(percent(accuracy_interval(share, outcomes.samples))))
    return table


def _by_attack(facts: RunFacts) -> Table:
    table = _table("attack", "average accuracy", "median size", "curve area")
    ratios = any(attack.ratio for attack in facts.attacks)
    uars = any(attack.uar for attack in facts.attacks)
    for column, present in (("CR", ratios), ("UAR", uars)):
        if present:
            table.add_column(column, justify="right")
    for attack in facts.attacks:
        median = attack.quartiles[1]
        cells = [
            percent(attack.average),
            "never" if math.isinf(median) else f"{median:.3g}",
            f"{100 * attack.curve.area(float(attack.strengths[-1])):.1f}",
        ]
        for number, present in ((attack.ratio, ratios), (attack.uar, uars)):
            if present:
                cells.append(f"{number.value:.1f}" if number else "-")
        table.add_row(attack.attack, *map(_escaped, cells))
    return table


def _hypervolume_table(result: Result, intervals: Mapping[str, Interval]) -> Table:
    table = _table("AH", "mean, with 95 % interval", "std", "levels", "too low by", "weak")
    clean = result.clean_margin
    for attack, interval in intervals.items():
        volume = adversarial_hypervolume(
            result.margins(attack), None if np.isnan(clean).any() else clean, result.strengths(attack)
        )
        shown = f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]"
        table.add_row(
            attack,
            _escaped(shown),
            f"{volume.std:.3f}",
            str(volume.levels),
            f"<= {volume.error_bound:.3f}",
            f"{100 * volume.corrected:.1f} %",
        )
    return table


def _against(facts: ReferenceFacts, more: Mapping[str, str]) -> Table:
    table = _table(f"against {facts.name}", "")
    for kind, ratio in facts.ratios.items():
        table.add_row(f"CR {kind}", _escaped(percent(ratio)))
    table.add_row("mUAR", _escaped(percent(facts.uar)))
    for name, text in more.items():
        table.add_row(name, text)
    return table


def _seen_rows(outcomes: SampleOutcomes, held: Held, trained_on: Mapping[str, float] | None) -> dict[str, str]:
    """What depends on the training: share seen, CR in and out, and the stability constants with their pairs."""
    if trained_on is None or math.isnan(held.reference.clean):
        return {}
    table, ours = held.table, outcomes.restrict(held.shared).accuracies()
    here = {attack: strength for attack, strength in trained_on.items() if attack in held.shared}
    split = competitiveness_in_out(ours, table, here)
    rows = {
        "seen": f"{percent_seen(ours, table, here):.1f}",
        "CR in": f"{split.inside:.1f}",
        "CR out": "-" if math.isnan(split.outside) else f"{split.outside:.1f}",
    }
    for floor in _FLOORS:
        constant = stability_constant(ours, table, here, floor=floor)
        name = f"SC, floor {floor:g}" if floor else "SC"
        rows[name] = f"{constant.value:.2f} ({' and '.join(constant.pair)})" if constant.pair else "- (no pair)"
    return rows


def _check_trained_on(trained_on: Mapping[str, float], reference: Reference | None) -> None:
    if reference is None:
        raise UserError("--trained-on needs a reference to judge the training by; give one with --reference.")
    for attack in trained_on:
        if attack not in reference.accuracies.cells:
            raise UserError(
                f"--trained-on names {attack!r}, which {reference.name} does not have; it has "
                f"{some(reference.accuracies.attacks)}."
            )


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        table.add_column(column, style="bold" if position == 0 else "", justify="right" if position else "left")
    return table


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")
