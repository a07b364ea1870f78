"""What can be said of one run: every number with its interval where there is one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.common.wording import marked
from robustatlas.metrics.competitiveness import InOut, competitiveness_in_out, percent_seen
from robustatlas.metrics.intervals import Interval, proportion_interval
from robustatlas.metrics.references.matching import compared
from robustatlas.metrics.references.reference import Reference
from robustatlas.metrics.stability import StabilityConstant
from robustatlas.outcomes.masked import masked
from robustatlas.report.facts import numbers
from robustatlas.report.facts.against import Held, against_what, hold_against
from robustatlas.report.facts.attack import AttackFacts, attack_facts
from robustatlas.report.facts.breaking import BreakingPoint, breaking_point
from robustatlas.report.facts.certified import CertifiedFacts, certified_of
from robustatlas.report.facts.field import Beside, beside_the_field
from robustatlas.report.facts.grids import GridAdvice, extended
from robustatlas.report.facts.headline import Headline, headline_of, worst_case_of
from robustatlas.report.facts.numbers import CONFIDENCE, intervals, union_strengths
from robustatlas.report.facts.plain import plain_run
from robustatlas.report.facts.ranks import Place, place_among_published
from robustatlas.report.facts.rows import about_of
from robustatlas.report.facts.steadiness import Steadiness, stability
from robustatlas.report.facts.units import calibrations_of
from robustatlas.results.result import Result


@dataclass(frozen=True)
class TrainingFacts:
    """What depends on the training: share of the points seen, CR in and out, and the stability constants by floor."""

    seen: float
    ratios: InOut
    stability: Mapping[float, StabilityConstant]
    steadiness: Mapping[float, Interval]


@dataclass(frozen=True)
class ReferenceFacts:
    """A run held against a reference, on the ranked entries that both have. ``training``: None where it is not stated,
    or the reference has no clean accuracy. ``place``: among the published defenses; None without any, and where ranked
    entries are missing or masked. ``masked``: why these numbers may not compete, as of
    :func:`robustatlas.outcomes.masked.masked`."""

    held: Held
    numbers: Mapping[str, Interval]
    training: TrainingFacts | None
    place: Place | None
    masked: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the reference."""
        return self.held.reference.name

    @property
    def what(self) -> str:
        """What models the reference is of."""
        return against_what(self.held.reference, [self.held.name])

    @property
    def complete(self) -> bool:
        """See :attr:`Held.complete`."""
        return self.held.complete


@dataclass(frozen=True)
class RunFacts:
    """A run: accuracies in percent, its attacks, how it compares with a reference, and what to beware of.

    Attributes:
        average: mean accuracy over every (attack, strength); None where no attack is known at every strength.
        union: accuracy under all attacks of `union_at` at once; None for a single attack.
        union_at: attack -> strength up to which it counts there.
        own: name -> what the outcomes give beside these, such as UA2.
        breaking: where it breaks; None without any attack.
        reference: None without one, or without a shared strength.
        warnings: of the checks before the work, and what makes the reference worth little.
        missing: attack -> number of samples that are not evaluated yet.
        provenance: of the model: source, home of the weights, licence and library, as far as they are known.
        rejected: clean inputs that the model refuses to answer; None where it never may. They count as no error.
        diagnosis: whether the numbers can be trusted; None where the run was not diagnosed.
        invalid: attack -> share of the samples at which the model gave it no gradient, or one that misleads; every name
            of such a run and of such an attack carries a mark, and a warning says what it means.
        beside: the run beside published models, at the point that a benchmark asks for; empty where none fits.
        certified: the other side of each attack that has one: what robust accuracy is at least.
        calibrations: a sentence on the attacks whose strengths are not those of a source.
        headline: the number that comes first; None where no attack is known at every strength.
        worst: the worst case over several attacks, at their usual strengths or as asked; None of one attack.
        command: that made the run, as it was typed; empty where that is not known.
    """

    name: str
    data: str
    samples: int
    clean: Interval
    average: Interval | None
    union: Interval | None
    union_at: Mapping[str, float]
    breaking: BreakingPoint | None
    attacks: tuple[AttackFacts, ...]
    reference: ReferenceFacts | None
    warnings: tuple[str, ...]
    missing: Mapping[str, int]
    provenance: Mapping[str, str] = field(default_factory=dict)
    rejected: Interval | None = None
    diagnosis: Diagnosis | None = None
    invalid: Mapping[str, float] = field(default_factory=dict)
    beside: tuple[Beside, ...] = ()
    own: Mapping[str, Interval] = field(default_factory=dict)
    certified: tuple[CertifiedFacts, ...] = ()
    calibrations: tuple[str, ...] = ()
    headline: Headline | None = None
    worst: Headline | None = None
    command: str = ""

    @property
    def advice(self) -> list[GridAdvice]:
        """Better strengths of the attacks whose own tell little."""
        return [attack.advice for attack in self.attacks if attack.advice]

    @property
    def extended(self) -> str:
        """The command that extends the run to better strengths."""
        return extended(self.command, self.advice)

    def certified_under(self, attack: str) -> CertifiedFacts | None:
        """The other side of an attack that was run, of this very model; None where nothing is certified."""
        return next((held for held in self.certified if held.row == attack and held.both is not None), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; a number with an interval is `{"value", "low", "high"}`, what never happens is None."""
        return plain_run(self)


def facts_of(
    result: Result,
    name: str = "",
    reference: Reference | None = None,
    trained_on: Mapping[str, float] | None = None,
    union: Mapping[str, float] | None = None,
    steadiness: Steadiness | None = None,
    headline: Mapping[str, float] | None = None,
) -> RunFacts:
    """The facts of a run, called ``name``, or like its model where that is empty. ``reference``: acc* to compare with.

    ``trained_on``, ``union`` and ``headline`` are attack -> strength, of the model's training, of the union accuracy
    and of the number that comes first. None: what the run keeps, the middle strength of each attack, and as of
    :func:`headline_of`. ``steadiness``: which stability constants; None: those of the paper.
    """
    if trained_on is None and (kept := about_of(result, {})).tells_training:
        trained_on = kept.trained_on
    judged, rejected = result.judged(), result.clean_rejected
    union_at = union_strengths(judged, union)
    found = numbers.with_doubt(judged, lambda table: intervals(numbers.overall(table, union_at)))
    averages = numbers.with_doubt(judged, lambda table: intervals(numbers.averages(table)))
    held = hold_against(result, reference, result.records.values(), result.identity) if reference else None
    return RunFacts(
        name=marked(name or result.name, result.suspect),
        data=result.data,
        samples=result.samples,
        clean=found["clean accuracy"],
        average=found.get("average accuracy"),
        union=found.get("union accuracy"),
        union_at=union_at,
        breaking=breaking_point(result, held.own_threat if held else ()),
        attacks=tuple(attack_facts(result, attack, averages.get(attack), held) for attack in result.attacks),
        reference=_against(judged, held, trained_on, steadiness) if held and held.ranked else None,
        warnings=(*result.warnings, *(held.doubts if held and held.ranked else ())),
        missing=result.missing,
        provenance=_provenance(result),
        rejected=None if rejected is None else proportion_interval(int(rejected.sum()), result.samples, CONFIDENCE),
        diagnosis=result.diagnosis,
        invalid=result.invalid,
        beside=beside_the_field(result),
        own={name: found[name] for name in numbers.own(judged)},
        certified=tuple(certified_of(result)),
        calibrations=calibrations_of(result.records.values()),
        headline=headline_of(judged, headline),
        worst=headline_of(judged, union_at) if union else worst_case_of(judged),
        command=next((plan.command for plan in reversed(result.plans) if plan.command), ""),
    )


def _provenance(result: Result) -> dict[str, str]:
    if result.identity is None:
        return {}
    model = result.identity.model
    known = {
        "source": model.source,
        "home": model.home or "",
        "licence": model.licence,
        "library": model.library,
    }
    return {what: text for what, text in known.items() if text}


def _against(
    judged: Result, held: Held, trained_on: Mapping[str, float] | None, steadiness: Steadiness | None
) -> ReferenceFacts:
    training = None
    if trained_on is not None and not math.isnan(held.reference.clean):
        ours, reference = judged.restrict_distances(held.ranked).accuracies().sound(), held.table(held.ranked)
        seen = compared(trained_on, held.ranked)
        training = TrainingFacts(
            percent_seen(ours, reference, seen),
            competitiveness_in_out(ours, reference, seen, weights=held.weights),
            *stability(judged, held, seen, steadiness),
        )
    found = numbers.intervals_against(judged, held)
    place, why = None, masked(judged, held.ranked)
    if "CR ind-avg" in found and held.complete and not why and not held.other_data and not judged.unproven:
        constant = training.stability[0.0].value if training and steadiness is None else None
        place = place_among_published(found["CR ind-avg"], constant, held.reference)
    return ReferenceFacts(held, found, training, place, why)
