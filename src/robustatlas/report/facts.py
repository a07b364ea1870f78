"""What the report page says about one run, computed: every number with its interval where there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robustatlas.errors import UserError
from robustatlas.metrics.accuracies import AccuracyTable, same_strength
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic, bootstrap_intervals, mean_statistic
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.hypervolume import adversarial_hypervolume
from robustatlas.metrics.intervals import Interval, proportion_bounds
from robustatlas.metrics.matching import CLEAN, match_cells
from robustatlas.metrics.samples import SampleOutcomes
from robustatlas.metrics.stability import StabilityConstant, stability_constant
from robustatlas.references import Reference
from robustatlas.report.vocabulary import describe

if TYPE_CHECKING:
    from robustatlas.outcomes import Outcome, Result

CONFIDENCE = 0.95
REPLICATES = 1000


@dataclass(frozen=True)
class Frontier:
    """The margin that is left as the strength grows.

    Attributes:
        levels: [L] strengths, and 0 before them where the clean margins are known.
        mean: [L] mean over the samples of the margin left, in [0, 1].
        volume: adversarial hypervolume, its mean over the samples.
    """

    levels: NDArray[np.float64]
    mean: NDArray[np.float64]
    volume: Interval


@dataclass(frozen=True)
class AttackFacts:
    """One attack of a run.

    Attributes:
        attack: name.
        axis: what its strengths measure, with the unit.
        strengths: [S].
        accuracy: [S] robust accuracy in percent; None where not every strength was searched.
        average: their mean; None likewise.
        curve: robustness curve.
        quartiles: sizes at which a quarter, half and three quarters of all samples are misclassified; inf where never.
        never: number of samples without an adversarial example.
        clean_errors: number of samples misclassified clean.
        forward: mean forward passes for one sample.
        backward: mean backward passes for one sample.
        seconds: time of the attack on all samples.
        frontier: None where the margins were not recorded at every strength.
        ratio: competitiveness ratio on this attack and the clean input, in percent; None without a shared strength.
        uar: unforeseen attack robustness in percent; None likewise.
        shared: number of strengths that the reference has too.
    """

    attack: str
    axis: str
    strengths: NDArray[np.float64]
    accuracy: tuple[Interval, ...] | None
    average: Interval | None
    curve: RobustnessCurve
    quartiles: tuple[float, float, float]
    never: int
    clean_errors: int
    forward: float
    backward: float
    seconds: float
    frontier: Frontier | None
    ratio: Interval | None = None
    uar: Interval | None = None
    shared: int = 0


@dataclass(frozen=True)
class ReferenceFacts:
    """A run held against a reference, on the ranked cells that both have.

    Attributes:
        name: of the reference.
        ratios: kind of competitiveness ratio -> percent.
        uar: mean over the attacks, percent.
        stability: stability constant; None where the training attacks of the model are not stated.
        cells: number of (attack, strength) that both have, of the ranked attacks.
        ranked: number of (attack, strength) that the reference ranks.
    """

    name: str
    ratios: Mapping[str, Interval]
    uar: Interval
    stability: StabilityConstant | None
    cells: int
    ranked: int

    @property
    def complete(self) -> bool:
        """Whether the run has every ranked cell, so that its numbers are those of the leaderboard."""
        return self.cells == self.ranked


@dataclass(frozen=True)
class RunFacts:
    """A run: `clean` and `average` accuracy in percent, its attacks, and how it compares with a reference."""

    name: str
    data: str
    samples: int
    clean: Interval
    average: Interval | None
    attacks: tuple[AttackFacts, ...]
    reference: ReferenceFacts | None


def gather(result: Result, name: str, reference: Reference | None, trained_on: Mapping[str, float] | None) -> RunFacts:
    """The facts of a run.

    Args:
        result: the run.
        name: what the page calls it.
        reference: acc* to compare with; None for no comparison.
        trained_on: attack -> largest strength of the model's training; None where it is not known.
    """
    outcomes = SampleOutcomes.from_result(result, name)
    judged = [attack for attack in result.attacks if judged_everywhere(result.outcome(attack))]
    outcomes = _restricted(outcomes, {attack: outcomes.strengths[attack] for attack in judged})
    statistics = AccuracyStatistics(outcomes)
    wanted: dict[str, SampleStatistic] = {"clean": statistics.accuracy(CLEAN, 0)}
    if judged:
        wanted["average"] = statistics.average()
    wanted |= {f"average {attack}": statistics.average([attack]) for attack in judged}
    intervals = bootstrap_intervals(wanted, CONFIDENCE, REPLICATES)
    shared = _shared_strengths(outcomes, reference)
    against = _against(outcomes, reference, shared, trained_on) if reference and shared else None
    singles = _single(outcomes, reference, shared) if reference and shared else {}
    return RunFacts(
        name=name,
        data=result.manifest.settings.data.name,
        samples=len(result.index),
        clean=_proportion(int(outcomes.clean.sum()), len(result.index)),
        average=intervals.get("average"),
        attacks=tuple(
            _attack(
                result.outcome(attack), result, intervals.get(f"average {attack}"), singles, len(shared.get(attack, ()))
            )
            for attack in result.attacks
        ),
        reference=against,
    )


def _attack(
    outcome: Outcome, result: Result, average: Interval | None, singles: Mapping[str, Interval], shared: int
) -> AttackFacts:
    curve = RobustnessCurve(outcome.minimal_size, attack=outcome.attack)
    settings = result.manifest.settings.attacks.get(outcome.attack)
    samples = len(outcome.minimal_size)
    forward, backward = result.passes(outcome.attack)
    quarter, half, three = curve.quantile([0.25, 0.5, 0.75]).tolist()
    return AttackFacts(
        attack=outcome.attack,
        axis=describe(outcome.attack, settings.unit if settings else "").axis,
        strengths=outcome.strengths,
        accuracy=tuple(
            _proportion(round(percent * samples / 100), samples) for percent in outcome.accuracies().tolist()
        )
        if average
        else None,
        average=average,
        curve=curve,
        quartiles=(quarter, half, three),
        never=int(np.isinf(outcome.minimal_size).sum()),
        clean_errors=int((outcome.minimal_size == 0).sum()),
        forward=forward,
        backward=backward,
        seconds=outcome.seconds,
        frontier=_frontier(outcome, result.clean_margin),
        ratio=singles.get(f"ratio {outcome.attack}"),
        uar=singles.get(f"uar {outcome.attack}"),
        shared=shared,
    )


def _proportion(successes: int, samples: int) -> Interval:
    low, high = proportion_bounds(successes, samples, CONFIDENCE)
    return Interval(100 * successes / samples, 100 * float(low), 100 * float(high), CONFIDENCE)


def judged_everywhere(outcome: Outcome) -> bool:
    """Whether every sample has an outcome at every strength, so that the accuracies are known."""
    return outcome.monotone or not bool(np.any(outcome.fooled[outcome.minimal_strength > 0] < 0))


def _frontier(outcome: Outcome, clean_margin: NDArray[np.float32]) -> Frontier | None:
    known = not np.isnan(clean_margin).any()
    try:
        volume = adversarial_hypervolume(outcome.margins, clean_margin if known else None, outcome.strengths)
    except UserError:
        return None
    levels, mean = outcome.strengths, volume.frontier.mean(axis=0)
    if known:
        levels, mean = np.append(0.0, levels), np.append(volume.clean.mean(), mean)
    interval = bootstrap_intervals({"volume": mean_statistic(volume.per_sample)}, CONFIDENCE, REPLICATES)["volume"]
    return Frontier(levels, mean, interval)


def _shared_strengths(outcomes: SampleOutcomes, reference: Reference | None) -> dict[str, NDArray[np.float64]]:
    """Attack -> the strengths of the run that the reference has too."""
    if reference is None:
        return {}
    shared = {}
    for attack in outcomes.attacks:
        if attack in reference.accuracies.cells:
            known = reference.accuracies.strengths(attack)
            own = [s for s in outcomes.strengths[attack].tolist() if any(same_strength(s, other) for other in known)]
            if own:
                shared[attack] = np.array(own)
    return shared


def _restricted(outcomes: SampleOutcomes, strengths: Mapping[str, NDArray[np.float64]]) -> SampleOutcomes:
    return SampleOutcomes(
        outcomes.name,
        outcomes.index,
        outcomes.labels,
        outcomes.clean,
        dict(strengths),
        {
            attack: outcomes.correct[attack][:, np.isin(outcomes.strengths[attack], kept)]
            for attack, kept in strengths.items()
        },
        {attack: outcomes.minimal_sizes[attack] for attack in strengths},
    )


def _same_cells(
    outcomes: SampleOutcomes, reference: Reference, strengths: Mapping[str, NDArray[np.float64]]
) -> tuple[AccuracyStatistics, AccuracyTable]:
    grid = {attack: kept.tolist() for attack, kept in strengths.items()}
    return AccuracyStatistics(_restricted(outcomes, strengths)), reference.accuracies.restrict(grid, grid)


def _single(
    outcomes: SampleOutcomes, reference: Reference, shared: Mapping[str, NDArray[np.float64]]
) -> dict[str, Interval]:
    statistics, table = _same_cells(outcomes, reference, shared)
    wanted = {f"uar {attack}": statistics.uar(table, [attack]) for attack in shared}
    if not np.isnan(reference.clean):
        wanted |= {f"ratio {attack}": statistics.competitiveness(table, attacks=[attack]) for attack in shared}
    return bootstrap_intervals(wanted, CONFIDENCE, REPLICATES)


def _against(
    outcomes: SampleOutcomes,
    reference: Reference,
    shared: Mapping[str, NDArray[np.float64]],
    trained_on: Mapping[str, float] | None,
) -> ReferenceFacts | None:
    cells = {attack: kept for attack, kept in shared.items() if attack in reference.ranked}
    if not cells:
        return None
    statistics, table = _same_cells(outcomes, reference, cells)
    wanted = {"uar": statistics.uar(table)}
    stability = None
    if not np.isnan(reference.clean):
        for kind in ("ind-avg", "ind-worst", "exp", "max"):
            wanted[kind] = statistics.competitiveness(table, kind)
        if trained_on is not None:
            seen = {attack: strength for attack, strength in trained_on.items() if attack in table.cells}
            stability = stability_constant(statistics.table, table, seen)
    intervals = bootstrap_intervals(wanted, CONFIDENCE, REPLICATES)
    for kind in ("ind-worst", "max"):
        if kind in intervals and intervals[kind].low == intervals[kind].high:
            intervals[kind] = _interval_at_the_worst_cell(statistics.table, table, kind, outcomes.samples)
    return ReferenceFacts(
        name=reference.name,
        uar=intervals.pop("uar"),
        ratios=intervals,
        stability=stability,
        cells=sum(len(kept) for kept in cells.values()),
        ranked=sum(len(reference.accuracies.cells[attack]) for attack in reference.ranked),
    )


def _interval_at_the_worst_cell(accuracies: AccuracyTable, table: AccuracyTable, kind: str, samples: int) -> Interval:
    """Clopper-Pearson at the cell that decides a worst case; resampling sees no spread where no sample is correct."""
    cells = match_cells(accuracies, table)
    worst = int(np.argmin(cells.accuracy / cells.reference if kind == "ind-worst" else cells.accuracy))
    below = float(cells.reference[worst] if kind == "ind-worst" else cells.reference.min())
    cell = _proportion(round(cells.accuracy[worst] * samples / 100), samples)
    return Interval(100 * cell.value / below, 100 * cell.low / below, 100 * cell.high / below, CONFIDENCE)
