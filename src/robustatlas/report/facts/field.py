"""A run beside the field: published models at the one point a benchmark asks for, and what that point hides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robustatlas.common.attack_labels import attack_label
from robustatlas.common.typed_strengths import STANDARD_STRENGTHS, format_strength
from robustatlas.common.wording import MASKED, join_words, label_masked, masked_reason, ordinal, pluralise
from robustatlas.metrics.bootstrap import AccuracyStatistics
from robustatlas.metrics.curves import RobustnessCurve
from robustatlas.metrics.intervals import Interval, proportion_bounds, proportion_interval
from robustatlas.metrics.references.shipped import (
    CORRUPTIONS,
    Field,
    FieldEntry,
    available_fields,
    has_dataset,
    load_field,
)
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.outcomes.outcome import Outcome, percent
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.report.facts.ranks import rank_ranges, ranks
from robustatlas.report.numbers.definitions import CONFIDENCE
from robustatlas.report.numbers.plain import number_json
from robustatlas.report.numbers.points import searched_from
from robustatlas.report.numbers.statistics import intervals
from robustatlas.results.result import Result

NEIGHBOURS = 2
"""Entries shown right above and right below the run."""

BENCHMARKED = (
    "gaussian-noise", "shot-noise", "impulse-noise", "defocus-blur", "glass-blur", "motion-blur", "zoom-blur", "snow",
    "frost", "fog", "brightness", "contrast", "elastic-transform", "pixelate", "jpeg-compression",
)  # fmt: skip
"""The corruptions that a field of corruptions is the mean of (Hendrycks and Dietterich 2019), at severities 1 to 5."""

_SETS = {"Linf": "linf", "L2": "l2"}

_IMAGES = 10_000
"""Behind each number of a field that does not say it."""


@dataclass(frozen=True)
class Elsewhere:
    """The run's own robust accuracy where no entry has one: attack, strength, percent, and whether it is masked.
    ``accuracy``: what it is at least; ``at_most``: another number where the strength was not searched."""

    attack: str
    strength: float
    accuracy: float
    at_most: float
    masked: bool

    @property
    def words(self) -> str:
        """Such as "L2 0.5: 61.0 %"."""
        where = format_strength(self.strength, attack=self.attack)
        most = f" to {self.at_most:.1f}" if self.at_most > self.accuracy else ""
        return label_masked(f"{attack_label(self.attack).label} {where}: {self.accuracy:.1f}{most} %", self.masked)


@dataclass(frozen=True)
class Beside:
    """A run beside a field.

    Attributes:
        accuracy: of the run at the field's point, under all of `attacks` at once; where it was not `searched`, what it
            is at least, and its interval reaches to what it is at most.
        attacks: of the run that search the field's threat model.
        rank: place by the number alone, among the entries and the run; it means nothing where the run is masked.
        best: the best place that the intervals leave open; likewise.
        worst: the worst one; likewise.
        curve: of the run under these attacks at once, over distances; None of corruptions.
        masked: why the run has no place, as :func:`robustatlas.outcomes.accuracies.masked_shares` says it.
    """

    field: Field
    accuracy: Interval
    clean: Interval
    samples: int
    attacks: tuple[str, ...]
    rank: int
    best: int
    worst: int
    elsewhere: tuple[Elsewhere, ...]
    curve: RobustnessCurve | None
    masked: Mapping[str, float]
    searched: bool = True

    @property
    def places_count(self) -> int:
        """Number of places."""
        return len(self.field.entries) + 1

    @property
    def place(self) -> str:
        """The places that the intervals leave open."""
        span = ordinal(self.best) if self.best == self.worst else f"{ordinal(self.best)} to {ordinal(self.worst)}"
        return f"{span} of {self.places_count}"

    @property
    def point(self) -> str:
        """Point at which all entries are: "L∞ 8/255", "common corruptions"."""
        if self.field.attack == CORRUPTIONS:
            return "common corruptions"
        return f"{attack_label(self.field.attack).label} {self.field.strength}"

    @property
    def neighbours(self) -> list[FieldEntry]:
        """The best entry, and those right above and right below the run."""
        above = [entry for entry in self.field.entries if entry.accuracy >= self.accuracy.value]
        below = [entry for entry in self.field.entries if entry.accuracy < self.accuracy.value]
        return list(dict.fromkeys([*above[:1], *above[-NEIGHBOURS:], *below[:NEIGHBOURS]]))

    @property
    def sentence(self) -> str:
        """Sentence on the place of the run."""
        few = f", on {pluralise(self.samples, 'image')}" if self.samples < (self.field.images or _IMAGES) else ""
        union = (
            f" under {join_words([attack_label(attack).label for attack in self.attacks])} at once"
            if self.is_union
            else ""
        )
        number = self.accuracy
        least = "" if self.searched else ", which was not searched, at least"
        said = f"At {self.point}{union}{least} {number.value:.1f} % ({number.low:.1f} to {number.high:.1f}){few}"
        whose = f"{len(self.field.entries)} entries of {self.field.name}, as of {self.field.date}"
        if self.masked:
            return f"{said}: {MASKED}, so it has no place beside the {whose}. {masked_reason(self.masked)}"
        return f"{said}: {self.place} beside the {whose}."

    @property
    def is_union(self) -> bool:
        """True if it is the worst case over several attacks."""
        return self.field.attack != CORRUPTIONS and len(self.attacks) > 1

    @property
    def hidden(self) -> str:
        """Sentence on what the one point does not say."""
        if not self.elsewhere:
            return ""
        return f"What the point hides: {'; '.join(one.words for one in self.elsewhere)}. No entry tells these."

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "source": self.field.source,
            "date": self.field.date,
            "attack": self.field.attack,
            "strength": self.field.strength,
            "accuracy": number_json(self.accuracy),
            "searched": self.searched,
            "union of": list(self.attacks),
            "place": None
            if self.masked
            else {"rank": self.rank, "best": self.best, "worst": self.worst, "of": self.places_count},
            "entries": [
                {"name": entry.name, "accuracy": entry.accuracy, "clean": entry.clean, "notes": list(entry.notes)}
                for entry in self.neighbours
            ],
            "elsewhere": [vars(one) for one in self.elsewhere],
        }


def field_places(result: Result) -> tuple[Beside, ...]:
    """The run beside every shipped field about its data set at whose point it has been searched."""
    fields = [load_field(name) for name in available_fields() if has_dataset(name, result.data)]
    found = [_corrupted(result, field) if field.attack == CORRUPTIONS else _attacked(result, field) for field in fields]
    return tuple(beside for beside in found if beside is not None)


def _attacked(result: Result, field: Field) -> Beside | None:
    attacks, size = _searching(result, field.attack), field.epsilon
    reaching = [attack for attack in attacks if _reaches(result.outcome(attack), size)]
    if not reaching:
        return None
    sizes = np.min([result.outcome(attack).minimal_size for attack in attacks], axis=0)
    curve = RobustnessCurve(sizes, unit=result.outcome(attacks[0]).unit)
    searched = result.bounds_at_distances(dict.fromkeys(reaching, size)).searched
    certain, possible = _count_standing(result, attacks, reaching, size)
    sure, _ = _count_standing(result.with_possible_examples() or result, attacks, reaching, size)
    low, high = (proportion_interval(count, result.samples, CONFIDENCE) for count in (sure, possible))
    accuracy = Interval(float(percent(certain, result.samples)), low.low, high.high, CONFIDENCE)
    reach = max(float(result.distances(attack)[-1]) for attack in reaching)
    return _place_text(result, field, accuracy, attacks, _other_points(result, field, reaching, reach), curve, searched)


def _reaches(outcome: Outcome, size: float) -> bool:
    return outcome.monotone and searched_from(outcome, size) is not None


def _count_standing(
    table: OutcomeTable, attacks: Sequence[str], reaching: Sequence[str], size: float
) -> tuple[int, int]:
    """Count the samples that certainly, and possibly, withstand several attacks on the same sets at a size.

    Attacks that are ``reaching`` the size say what is certain; the examples of all attacks count.
    """
    bounds = table.bounds_at_distances(dict.fromkeys(reaching, size))
    standing = table.survivors_at_distances(dict.fromkeys(attacks, size))
    return int((bounds.certain & standing).sum()), int(standing.sum())


def _corrupted(result: Result, field: Field) -> Beside | None:
    attacks = tuple(f"corruption-{name}" for name in BENCHMARKED)
    judged = result.select_judged()
    severities = [1.0, 2.0, 3.0, 4.0, 5.0]
    if any(attack not in judged.attacks or list(judged.distances(attack)) != severities for attack in attacks):
        return None
    statistic = AccuracyStatistics(judged.restrict_distances(dict.fromkeys(attacks, severities))).average()
    return _place_text(result, field, intervals({"": statistic})[""], attacks, (), None)


def _place_text(
    result: Result,
    field: Field,
    accuracy: Interval,
    attacks: tuple[str, ...],
    elsewhere: tuple[Elsewhere, ...],
    curve: RobustnessCurve | None,
    searched: bool = True,
) -> Beside:
    values = [entry.accuracy for entry in field.entries]
    spans: list[tuple[float, float] | None] = [(accuracy.low, accuracy.high)]
    if field.images:
        low, high = proportion_bounds([round(v * field.images / 100) for v in values], field.images, CONFIDENCE)
        spans += zip(low.tolist(), high.tolist(), strict=True)
    else:
        spans += [(value, value) for value in values]
    span, rank = rank_ranges(spans)[0], ranks([accuracy.value, *values], [None] * (len(values) + 1))[0]
    assert span is not None and rank is not None
    clean = proportion_interval(int(result.clean.sum()), result.samples, CONFIDENCE)
    why = masked_shares(result, attacks)
    return Beside(field, accuracy, clean, result.samples, attacks, rank, *span, elsewhere, curve, why, searched)


def _searching(result: Result, norm: str) -> tuple[str, ...]:
    """The attacks of a run that search the balls of a norm, by their records, or by name where there are none."""
    kinds: dict[str, set[str]] = {}
    for record in result.records.values():
        kinds.setdefault(record.name, set()).add(_norm_of(record))
    return tuple(
        attack for attack in result.attacks
        if result.outcome(attack).monotone and (kinds.get(attack) == {norm} if attack in kinds else attack == norm)
    )  # fmt: skip


def _norm_of(record: AttackRecord) -> str:
    kind = str(record.threat.get("kind", ""))
    return _SETS.get(kind, record.name if not kind and record.name in _SETS.values() else "")


def _other_points(result: Result, field: Field, reaching: Sequence[str], reach: float) -> tuple[Elsewhere, ...]:
    """Half and twice the field's strength, and the strengths at which papers give accuracies under other norms."""
    at = [(field.attack, reaching, size) for size in (field.epsilon / 2, 2 * field.epsilon) if size <= reach]
    at += [
        (name, [name], size)
        for name, (size, _) in STANDARD_STRENGTHS.items()
        if name != field.attack and name in result.attacks and _reaches(result.outcome(name), size)
    ]
    found = [(name, size, _count_standing(result, attacks, attacks, size)) for name, attacks, size in at]
    return tuple(
        Elsewhere(name, size, float(low), float(high), bool(masked_shares(result, [name])))
        for name, size, counts in found
        for low, high in [percent(counts, result.samples)]
    )
