"""Places on a board: by the ratio, ties by the stability constant, and the places that the intervals leave open."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.wording import ordinal
from robustatlas.metrics.competitiveness import weighted_ratios
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.matching import MatchedEntries, match_entries, point_weights, restrict_training
from robustatlas.metrics.references.reference import Reference
from robustatlas.metrics.stability import stability_constant
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.comparable import different_points
from robustatlas.report.facts.rows import Row, published_rows


def ranks(ratios: Sequence[float | None], constants: Sequence[float | None]) -> list[int | None]:
    """Places as the MultiRobustBench site gives them.

    By the ratio rounded to two decimals, ties by the lower stability constant; a constant that is not known comes after
    all that are, and what has no ratio has no place.
    """
    keys = [
        None if ratio is None else (-round(ratio, 2), math.inf if constant is None else constant)
        for ratio, constant in zip(ratios, constants, strict=True)
    ]
    ordered = sorted(key for key in keys if key is not None)
    return [None if key is None else ordered.index(key) + 1 for key in keys]


def rank_ranges(spans: Sequence[tuple[float, float] | None]) -> list[tuple[int, int] | None]:
    """The best and the worst place of each that its interval and those of the others leave open."""
    known = [span for span in spans if span is not None]
    found: list[tuple[int, int] | None] = []
    for span in spans:
        if span is None:
            found.append(None)
            continue
        low, high = span
        above = sum(other_low > high for other_low, _ in known)
        below = sum(other_high < low for _, other_high in known)
        found.append((above + 1, len(known) - below))
    return found


@dataclass(frozen=True)
class Place:
    """Place of a model among the published defenses: its rank, the ranks left open, and how many are ranked."""

    rank: int
    best: int
    worst: int
    of: int

    def words(self, about: bool = False) -> str:
        """The places that the intervals leave open, and "about" where threat models are not all the reference's.

        >>> Place(3, 2, 5, 21).words(), Place(1, 1, 1, 21).words(about=True)
        ('2nd to 5th of 21', 'about 1st of 21')
        """
        span = ordinal(self.best) if self.best == self.worst else f"{ordinal(self.best)} to {ordinal(self.worst)}"
        return f"{'about ' if about else ''}{span} of {self.of}"


def ranked_entries(row: Row, reference: Reference) -> tuple[AccuracyTable, AccuracyTable] | None:
    """The accuracies of a row and of the reference at all points that this ranks, that have a weight and at which it is
    above 0; None where the row lacks one."""
    reference = reference.drop_zeros()
    grids = {attack: reference.accuracies.distances(attack).tolist() for attack in reference.ranked}
    points = {attack: [s for s in grid if reference.counts(attack, s)] for attack, grid in grids.items()}
    missing, _ = different_points(row.accuracies.distance_entries, points, points)
    if missing:
        return None
    ours = row.accuracies.drop_doubts().restrict_distances(points)
    return ours, reference.accuracies.restrict_distances(points)


def score_of(row: Row, reference: Reference) -> tuple[float, float | None] | None:
    """The mean ratio of a row to the reference over all ranked entries, in percent, and the stability constant where
    the training is told and a pair of entries gives one; None where an entry is missing. It ranks the row unless some
    of these entries are masked. Of several trainings both are means.
    """
    if row.trainings:
        return _mean_score([score_of(training, reference) for training in row.trainings])
    entries = ranked_entries(row, reference)
    if entries is None:
        return None
    matched = match_entries(*entries, clean=not math.isnan(reference.clean))
    constant = None
    if row.about.tells_training and not math.isnan(reference.clean):
        found = stability_constant(*entries, restrict_training(row.about.trained_on, entries[1].attacks))
        constant = None if found.pair is None else found.value
    return float(_mean_ratio(matched.accuracy, matched, reference)), constant


def _mean_score(scores: Sequence[tuple[float, float | None] | None]) -> tuple[float, float | None] | None:
    known = [score for score in scores if score is not None]
    if len(known) < len(scores):
        return None
    constants = [constant for _, constant in known if constant is not None]
    return (
        statistics.fmean(ratio for ratio, _ in known),
        statistics.fmean(constants) if len(constants) == len(known) else None,
    )


def _mean_ratio(accuracy: NDArray[np.float64], entries: MatchedEntries, reference: Reference) -> NDArray[np.float64]:
    """Return the ratio of accuracies [K] at ``entries``, by the weights of the reference."""
    weight = point_weights(entries, reference.weights)
    return weighted_ratios(accuracy[weight > 0], entries.reference[weight > 0], "ind-avg", weight[weight > 0])


def place_among_published(ratio: Interval, constant: float | None, reference: Reference) -> Place | None:
    """The place of a model with every ranked entry among the complete published defenses; None where there are none."""
    ratios: list[float | None] = [ratio.value]
    constants = [constant]
    spans = [(ratio.low, ratio.high)]
    for row in published_rows(reference):
        entries, score = ranked_entries(row, reference), score_of(row, reference)
        if entries is None or score is None:
            continue
        matched = match_entries(*entries)
        bounds = row.bounds(matched.accuracy.tolist())
        ends = [float(_mean_ratio(np.array(end), matched, reference)) for end in bounds] if bounds else []
        ratios.append(score[0])
        constants.append(score[1])
        spans.append((ends[0], ends[1]) if ends else (score[0], score[0]))
    if len(ratios) == 1:
        return None
    rank, span = ranks(ratios, constants)[0], rank_ranges(spans)[0]
    return None if rank is None or span is None else Place(rank, *span, of=len(ratios))
