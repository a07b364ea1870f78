"""Numbers by their names, such as ``linf@8/255``, ``CR ind-avg``, ``UAR elastic`` or ``AH linf``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength
from robustatlas.metrics.bootstrap import AccuracyStatistics, SampleStatistic, mean_statistic
from robustatlas.metrics.hypervolume import AdversarialHypervolume
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references import Reference
from robustatlas.metrics.references.matching import restrict_training
from robustatlas.metrics.references.reference import CLEAN
from robustatlas.metrics.stability import stability_constant
from robustatlas.metrics.trainings import OverTrainings, combine_trainings
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.bounds import describe_unsearched
from robustatlas.outcomes.comparable import check_distinct_trainings
from robustatlas.outcomes.strengths import listed_strengths, read_strength, strength_position
from robustatlas.report.numbers import definitions, statistics
from robustatlas.report.numbers.against import Held, hold_against
from robustatlas.report.numbers.shared import subject_of
from robustatlas.results.result import Result

KINDS = (
    "clean, average, average ATTACK, ATTACK@STRENGTH, AH ATTACK, std AH ATTACK, CR ind-avg, CR ind-worst, CR exp, "
    "CR max, mUAR, UAR ATTACK, CR ATTACK, CR ind-worst ATTACK, SC, SC floor 1"
)


NO_PAIR = "no pair"
"""Reason for a missing stability constant: no two points, one seen in training, are of about the same difficulty."""


class NotComputableError(UserError):
    """A number that cannot be computed; its text says why, as the cell of a table."""


@dataclass(frozen=True, eq=False)
class StudyNumber:
    """A number of a model as a cell of a table.

    Attributes:
        over: of its trainings.
        digits: after the point.
        masked: whether it is an upper bound only.
        resampled: whether it has an interval over images.
        why: it cannot be computed, in a few words; then its mean is NaN.

    Example:
        >>> result = Result.from_arrays([0, 1], [0, 0], {"linf": [0.15, 0.0]}, {"linf": [0.1, 0.2]})
        >>> number_of("linf@0.1", [result, result], None, {}).text
        '50.0 ± 0.0'
    """

    over: OverTrainings
    digits: int = 1
    masked: bool = False
    resampled: bool = True
    why: str = ""

    @classmethod
    def unavailable(cls, why: str, trainings: int) -> StudyNumber:
        """Return what stands in place of a number of so many trainings that cannot be computed.

        Example:
            >>> StudyNumber.unavailable("no pair", 2).text
            'no pair'
        """
        nothing = Interval(math.nan, math.nan, math.nan, definitions.CONFIDENCE)
        return cls(OverTrainings(np.full(trainings, math.nan), nothing, nothing), resampled=False, why=why)

    @property
    def mean(self) -> float:
        """Mean over the trainings."""
        return self.over.mean

    @property
    def std(self) -> float | None:
        """Standard deviation over the trainings, None for a single one."""
        return None if math.isnan(self.over.std) else self.over.std

    @property
    def intervals(self) -> dict[str, Interval]:
        """The intervals over images and, for several trainings, over trainings."""
        several = {} if self.std is None else {"trainings": self.over.trainings}
        return several | ({"images": self.over.images} if self.resampled else {})

    @property
    def text(self) -> str:
        """The mean and its deviation over trainings as text, or why it cannot be computed."""
        if self.why:
            return self.why
        deviation = "" if self.std is None else f" ± {self.std:.{self.digits}f}"
        return f"{self.mean:.{self.digits}f}{deviation}"


def number_of(
    name: str, results: Sequence[Result], reference: Reference | None, trained_on: Mapping[str, float]
) -> StudyNumber:
    """A number over the trainings of a model.

    Args:
        name: see :data:`KINDS`.
        results: a run of each training, on the same images.
        reference: for those that need one.
        trained_on: attack -> strength, as people type it, for SC.

    Returns:
        its values, and their mean with its interval over the images.

    Raises:
        UserError: there is no such number, the runs or the reference lack what it needs, or two runs are of one
            training.
    """
    check_distinct_trainings([subject_of(each, f"{each.name} ({n})") for n, each in enumerate(results, 1)])
    try:
        found = [statistic_of(name, result, reference, trained_on) for result in results]
    except NotComputableError as error:
        return StudyNumber.unavailable(str(error), len(results))
    over = combine_trainings([{name: each} for each in found], definitions.CONFIDENCE, definitions.REPLICATES)[name]
    over = replace(over, trainings=clip_interval(over.trainings, name))
    named = (name.partition("@")[0], name.rpartition(" ")[2])
    attacks = [attack for attack in results[0].attacks if attack in named] or None
    invalid = name != "clean" and any(masked_shares(result, attacks) for result in results)
    return StudyNumber(over, digits_of(name), invalid, resampled=not name.startswith("std "))


def clip_interval(interval: Interval, name: str) -> Interval:
    """Clip an interval to the range of its number: shares end at 100, hypervolumes at 1, and nothing is below 0."""
    share = name in ("clean", "average") or "@" in name or name.startswith("average ")
    most = 100.0 if share else 1.0 if name.startswith("AH ") else math.inf
    return replace(interval, low=max(interval.low, 0.0), high=min(interval.high, most))


def digits_of(name: str) -> int:
    """Return the number of digits after the point: hypervolumes lie in [0, 1], all others are percentages."""
    return 4 if name.startswith(("AH ", "std AH ")) else 1


def label_of(name: str) -> str:
    """Return the heading of a number in a table.

    Example:
        >>> label_of("linf@8/255"), label_of("resolution@80"), label_of("UAR jpeg-linf"), label_of("clean")
        ('L∞ 8/255', 'Resolution 80', 'UAR JPEG L∞', 'clean')
    """
    attack, at, strength = name.partition("@")
    if at:
        return f"{attack_label(attack).label} {format_strength(read_strength(strength, attack), attack=attack)}"
    *before, last = name.split(" ")
    return " ".join([*before, attack_label(last).label]) if before else name


def statistic_of(
    name: str, result: Result, reference: Reference | None, trained_on: Mapping[str, float]
) -> SampleStatistic:
    """One number of one run, as a function of its samples; see :func:`number_of`."""
    judged = result.select_judged()
    accuracies = AccuracyStatistics(judged)
    attack, at, strength = name.partition("@")
    _check_searched(name, judged)
    if name == "clean":
        return accuracies.accuracy(CLEAN, 0)
    if at:
        return _accuracy_at_strength(judged, accuracies, attack, strength)
    kind, _, last = name.rpartition(" ")
    if name == "average":
        return accuracies.average()
    if kind == "average":
        return accuracies.average([last])
    if kind in ("AH", "std AH"):
        volume = hypervolume_of(result, last)
        return mean_statistic(volume.per_sample, 1.0) if kind == "AH" else _deviation(volume.per_sample)
    if reference is None:
        raise UserError(f"{name!r} is not a number, or needs a reference; there are {KINDS}.")
    held = hold_against(judged, reference, result.records.values(), result.identity)
    return _ratio_statistic(name, kind, last, held, judged, trained_on)


def _check_searched(name: str, judged: Result) -> None:
    """Raise where a number rests on strengths at which sizes alone were searched."""
    kind, _, last = name.rpartition(" ")
    named = {name.partition("@")[0], last} & {*judged.attacks} or {*judged.attacks}
    alone = tuple(point for point in judged.unsearched if point[0] in named)
    if alone and name != "clean" and kind not in ("AH", "std AH"):
        raise UserError(f"{name!r} of {judged.name}: {describe_unsearched(alone)}; give its evaluation another search.")


def hypervolume_of(result: Result, attack: str) -> AdversarialHypervolume:
    """The hypervolume of a run under an attack.

    Raises:
        UserError: it has no margins for one.
    """
    found = statistics.hypervolume_of(result, attack)
    if found is None:
        raise UserError(f"{result.name} has no margins of {attack} at equal steps; evaluate by the search frontier.")
    return found


def _deviation(values: NDArray[np.float64]) -> SampleStatistic:
    """The standard deviation of a number over the samples, divided by their number."""
    columns = np.stack([values, values**2], axis=1).astype(np.float32)
    return SampleStatistic(columns, lambda means: np.sqrt(np.maximum(means[..., 1] - means[..., 0] ** 2, 0.0)))


def _accuracy_at_strength(
    judged: Result, accuracies: AccuracyStatistics, attack: str, strength: str
) -> SampleStatistic:
    if attack not in judged.attacks:
        raise UserError(f"{judged.name} was not evaluated with {attack}; it has {', '.join(judged.attacks)}.")
    grid = judged.distances(attack).tolist()
    place = strength_position(read_strength(strength, attack), grid)
    if place is None:
        known = listed_strengths(grid, attack)
        raise UserError(f"{judged.name} was not evaluated with {attack} at {strength}; its strengths are {known}.")
    return accuracies.accuracy(attack, place)


def _ratio_statistic(
    name: str, kind: str, last: str, held: Held, judged: Result, trained_on: Mapping[str, float]
) -> SampleStatistic:
    overall = statistics.reference_statistics(judged, held.require())
    if name in overall:
        return overall[name]
    if name == "SC" or kind == "SC floor":
        ours, ranked = AccuracyStatistics(judged.restrict_distances(held.ranked)), held.table(held.ranked)
        seen = restrict_training(trained_on, held.ranked)
        floor = float(last) if kind else 0.0
        if stability_constant(ours.table, ranked, seen, floor=floor).pair is None:
            raise NotComputableError(NO_PAIR)
        return ours.stability(ranked, seen, floor=floor)
    if last in held.shared and kind in ("UAR", "CR", "CR ind-worst"):
        grid = {last: held.shared[last]}
        ours, one = AccuracyStatistics(judged.restrict_distances(grid)), held.table(grid)
        if kind == "UAR":
            return ours.uar(one, [last])
        return ours.competitiveness(one, "ind-worst" if kind == "CR ind-worst" else "ind-avg", [last])
    why = f"; {held.unlike[last]}" if last in held.unlike else ""
    raise UserError(f"{name!r} is not a number of {judged.name} against {held.reference.name}{why}; there are {KINDS}.")
