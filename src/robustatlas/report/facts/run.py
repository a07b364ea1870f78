"""Facts of one run: every number with its interval where there is one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from robustatlas.checks.diagnosis import Diagnosis
from robustatlas.common.wording import add_mark
from robustatlas.metrics.competitiveness import InOut, competitiveness_in_out, percent_seen
from robustatlas.metrics.intervals import Interval
from robustatlas.metrics.references.matching import restrict_training
from robustatlas.metrics.references.reference import Reference
from robustatlas.metrics.registry import reference_metrics
from robustatlas.metrics.stability import StabilityConstant
from robustatlas.outcomes.accuracies import masked_shares
from robustatlas.report.facts.attack import AttackFacts, attack_facts
from robustatlas.report.facts.certified import CertifiedFacts, certified_of
from robustatlas.report.facts.field import Beside, field_places
from robustatlas.report.facts.grids import GridAdvice, extended
from robustatlas.report.facts.ranks import Place, place_among_published
from robustatlas.report.facts.rows import model_facts
from robustatlas.report.numbers import number as kinds
from robustatlas.report.numbers import statistics
from robustatlas.report.numbers.against import Held, against_what, hold_against
from robustatlas.report.numbers.definitions import worst_case_points
from robustatlas.report.numbers.headline import Headline, HeadlineChoice, choose_headline, headline_of
from robustatlas.report.numbers.number import Number, Numbers
from robustatlas.report.numbers.of_run import numbers_against, numbers_of_run
from robustatlas.report.numbers.steadiness import Steadiness, stability
from robustatlas.report.numbers.units import calibrations_of
from robustatlas.results.result import Result


@dataclass(frozen=True)
class TrainingFacts:
    """Numbers that depend on the training: share of points seen, CR in and out, stability constants by floor."""

    seen: float
    ratios: InOut
    stability: Mapping[float, StabilityConstant]
    steadiness: Mapping[float, Interval]


@dataclass(frozen=True)
class ReferenceFacts:
    """A run held against a reference, on the ranked entries that both have. ``training``: None where it is not stated,
    or the reference has no clean accuracy. ``place``: among the published defenses; None without any, and where ranked
    entries are missing or masked. ``masked``: why these numbers may not compete, as of
    :func:`robustatlas.outcomes.accuracies.masked_shares`."""

    held: Held
    numbers: Mapping[str, Number]
    training: TrainingFacts | None
    place: Place | None
    masked: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the reference."""
        return self.held.reference.name

    @property
    def what(self) -> str:
        """Models that the reference is of, in words."""
        return against_what(self.held.reference, [self.held.name])

    @property
    def complete(self) -> bool:
        """See :attr:`Held.complete`."""
        return self.held.complete


@dataclass(frozen=True)
class RunFacts:
    """A run: accuracies in percent, its attacks, how it compares with a reference, and what to beware of.

    Attributes:
        model: its name.
        is_suspect: True if some numbers are invalid, or the diagnosis speaks against them.
        numbers: table of all numbers of the run, and of those that the reference gives.
        weakest: median size under the attack that leaves fewest images correct; None without any attack.
        reference: None without one, or without a shared strength.
        warnings: of the checks before the work, and what makes the reference worth little.
        missing: attack -> number of samples that are not evaluated yet.
        provenance: of the model: source, home of the weights, licence and library, as far as they are known.
        diagnosis: whether the numbers can be trusted; None where the run was not diagnosed.
        invalid: attack -> share of the samples at which the model gave it no gradient, or one that misleads.
        beside: the run beside published models, at the point that a benchmark asks for; empty where none fits.
        certified: the other side of each attack that has one: what robust accuracy is at least.
        calibrations: a sentence on the attacks whose strengths are not those of a source.
        headline: the numbers that come first; None where no attack is known at every strength.
        command: that made the run, as it was typed; empty where that is not known.
    """

    model: str
    is_suspect: bool
    data: str
    samples: int
    numbers: Numbers
    weakest: Number | None
    attacks: tuple[AttackFacts, ...]
    reference: ReferenceFacts | None
    warnings: tuple[str, ...]
    missing: Mapping[str, int]
    provenance: Mapping[str, str] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    invalid: Mapping[str, float] = field(default_factory=dict)
    beside: tuple[Beside, ...] = ()
    certified: tuple[CertifiedFacts, ...] = ()
    own_names: tuple[str, ...] = ()
    calibrations: tuple[str, ...] = ()
    headline: Headline | None = None
    command: str = ""

    @property
    def name(self) -> str:
        """Name of the model as people read it, with a mark if the run is suspect."""
        return add_mark(self.model, self.is_suspect)

    @property
    def clean(self) -> Number:
        """Clean accuracy."""
        return self.numbers.select(kinds.CLEAN)[0]

    @property
    def rejected(self) -> Number | None:
        """Share of the clean inputs that the model refuses to answer, which is no error; None where it never may."""
        return self.numbers.find(kinds.REJECTED)

    @property
    def average(self) -> Number | None:
        """Mean over all attacks and their strengths; None where no attack is known at every strength."""
        return self.numbers.find(kinds.MEAN)

    @property
    def worst(self) -> Number | None:
        """Worst case over several attacks, at their usual strengths or as asked; None for a single attack."""
        return self.numbers.find(kinds.WORST)

    @property
    def own(self) -> dict[str, Number]:
        """Name -> number of the registry that the outcomes give by themselves, such as UA2."""
        return {number.what: number for number in self.numbers if number.what in self.own_names}

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


def facts_of(
    result: Result,
    name: str = "",
    reference: Reference | None = None,
    trained_on: Mapping[str, float] | None = None,
    union: Mapping[str, float] | None = None,
    steadiness: Steadiness | None = None,
    headline: Mapping[str, float] | HeadlineChoice | None = None,
) -> RunFacts:
    """The facts of a run, called ``name``, or like its model where that is empty. ``reference``: acc* to compare with.

    ``trained_on``, ``union`` and ``headline`` are attack -> strength, of the model's training, of the worst case over
    attacks and of the numbers that come first. None: what the run keeps, as of :func:`worst_case_points`, and as of
    :func:`choose_headline`; ``headline`` may be chosen already. ``steadiness``: which stability constants;
    None: those of the paper.
    """
    if trained_on is None and (kept := model_facts(result, {})).tells_training:
        trained_on = kept.trained_on
    judged = result.select_judged()
    worst_at = worst_case_points(judged, union)
    held = hold_against(result, reference, result.records.values(), result.identity) if reference else None
    numbers = numbers_of_run(result, worst_at)
    choice = choose_headline([judged], headline) if not isinstance(headline, HeadlineChoice) else headline
    table = numbers + numbers_against(result, held) if held else numbers
    return RunFacts(
        model=name or result.name,
        is_suspect=result.is_suspect,
        data=result.data,
        samples=result.samples,
        numbers=table,
        weakest=table.weakest_attack(held.own_threat if held else ()),
        attacks=tuple(attack_facts(result, attack, table, held) for attack in result.attacks),
        reference=_against(judged, held, table, trained_on, steadiness) if held and held.ranked else None,
        warnings=(*result.warnings, *(held.doubts if held and held.ranked else ())),
        missing=result.missing,
        provenance=_provenance(result),
        diagnosis=result.diagnosis,
        invalid=result.invalid,
        beside=field_places(result),
        own_names=tuple(statistics.own_statistics(judged)),
        certified=tuple(certified_of(result, numbers)),
        calibrations=calibrations_of(result.records.values()),
        headline=headline_of(table, choice),
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
    judged: Result,
    held: Held,
    table: Numbers,
    trained_on: Mapping[str, float] | None,
    steadiness: Steadiness | None,
) -> ReferenceFacts:
    training = None
    if trained_on is not None and not math.isnan(held.reference.clean):
        ours, reference = judged.restrict_distances(held.ranked).accuracies().drop_doubts(), held.table(held.ranked)
        seen = restrict_training(trained_on, held.ranked)
        training = TrainingFacts(
            percent_seen(ours, reference, seen),
            competitiveness_in_out(ours, reference, seen, weights=held.weights),
            *stability(judged, held, seen, steadiness),
        )
    known = ((metric.name, table.find(metric.name)) for metric in reference_metrics())
    found = {name: number for name, number in known if number is not None}
    place, why = None, masked_shares(judged, held.ranked)
    if "CR ind-avg" in found and held.complete and not why and not held.other_data and not judged.unproven:
        constant = training.stability[0.0].value if training and steadiness is None else None
        place = place_among_published(found["CR ind-avg"], constant, held.reference)
    return ReferenceFacts(held, found, training, place, why)
