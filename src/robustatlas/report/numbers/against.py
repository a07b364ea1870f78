"""A result held against a reference: which one fits, what both have, and what is left out and why."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import join_words, list_names, pluralise
from robustatlas.metrics.references.reference import NAMED, ZERO, Points, Reference, select_shared_points
from robustatlas.metrics.references.shipped import available_fields, available_references, has_dataset, load_reference
from robustatlas.outcomes.accuracies import AccuracyTable
from robustatlas.outcomes.comparable import different_points, shared_points, threat_identities
from robustatlas.outcomes.identity import DataRecord, Identity
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.table import OutcomeTable


@dataclass(frozen=True)
class Held:
    """Points that a run and a reference have in common.

    Attributes:
        shared: attack, ranked or not -> the strengths that both have and at which the reference accuracy is not 0.
        missing, extra: names of the ranked points that the run lacks, and of the points that the reference lacks.
        zero: names of the points left out because the reference accuracy is 0 there.
        unlike: attack -> why the run's threat model is not the reference's, so that it is left out.
        own_threat: attacks that are compared although their threat model is our default one, not that as published, or
            is measured by the model's own features. What is said of them beside the reference is rough.
        other_data: a sentence where the reference is of other images than the run; else empty.
    """

    name: str
    reference: Reference
    shared: Mapping[str, list[float]]
    missing: tuple[str, ...]
    extra: tuple[str, ...]
    zero: tuple[str, ...]
    unlike: Mapping[str, str]
    own_threat: tuple[str, ...]
    other_data: str = ""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons why the reference is worth little for this run, one sentence each: said before any of its numbers."""
        return (*filter(None, [self.other_data]), *self.reference.marks)

    @property
    def ranked(self) -> dict[str, list[float]]:
        """The shared strengths of the attacks that the reference ranks, those that have a weight."""
        ranked = {attack: self.shared[attack] for attack in self.reference.ranked if attack in self.shared}
        counted = {attack: [s for s in grid if self.reference.counts(attack, s)] for attack, grid in ranked.items()}
        return {attack: grid for attack, grid in counted.items() if grid}

    @property
    def weights(self) -> Points | None:
        """Weight of each of the shared points in the expectations; None: all alike."""
        return (
            None
            if self.reference.weights is None
            else select_shared_points(self.reference.weights, self.table(self.ranked))
        )

    @property
    def approximate(self) -> bool:
        """True if some ranked attacks search other threat models than the reference: ratios and ranks hold about."""
        return any(attack in self.ranked for attack in self.own_threat)

    @property
    def relative(self) -> bool:
        """True if the reference is the best of some models of which this is one: no ratio to it exceeds 100."""
        return self.name in self.reference.models

    @property
    def points(self) -> int:
        """Number of shared (attack, strength) that the reference ranks."""
        return sum(map(len, self.ranked.values()))

    @property
    def complete(self) -> bool:
        """True if the run has every ranked entry, so that its numbers are those of the leaderboard."""
        return self.points == self.ranked_points

    @property
    def ranked_points(self) -> int:
        """Number of (attack, strength) that the reference ranks."""
        entries = self.reference.accuracies.distance_entries
        return sum(self.reference.counts(attack, s) for attack in self.reference.ranked for s in entries[attack])

    def table(self, points: Mapping[str, Sequence[float]]) -> AccuracyTable:
        """The reference's accuracies at some of the shared points."""
        return self.reference.accuracies.restrict_distances(points)

    def require(self) -> Held:
        """Return itself; raise a `UserError` if no ranked (attack, strength) is in both."""
        if not self.ranked:
            raise UserError(
                f"{self.name} and {self.reference.name} have no attack at the same strength with a reference accuracy "
                f"above 0; the reference ranks {list_names(self.reference.ranked)}. Evaluate at its strengths, or give "
                "--reference none."
            )
        return self

    def notes(self) -> list[str]:
        """Return sentences on what is compared, and by name what is not, or not quite."""
        numbers = "UAR" if math.isnan(self.reference.clean) else "CR and UAR"
        what = f" ({against_what(self.reference, [self.name])})" if self.reference.models else ""
        weighed = "" if self.reference.weights is None else ", CR by the given weights"
        lines = [
            f"{numbers} against {self.reference.name}{what}, on {self.points} of its {self.ranked_points} ranked "
            f"(attack, strength){weighed}."
        ]
        for what, points in (
            ("Missing in the run", self.missing),
            ("Not in the reference", self.extra),
            (ZERO, self.zero),
        ):
            if points:
                lines.append(f"{what}: {list_names(points, at_most=NAMED)}.")
        return lines + self.caveats()

    def caveats(self) -> list[str]:
        """Return sentences on other threat models, and on what makes the reference worth little."""
        lines = [*self.doubts, *self.reference.warnings]
        lines += [f"Left out: {attack}; {why}." for attack, why in self.unlike.items()]
        if self.own_threat:
            lines.append(
                f"The reference's numbers of {join_words(self.own_threat)} are of the threat models as published, "
                "which "
                "differ from the ones searched here; 'evaluate --protocol paper' searches those."
            )
        return lines


def against_what(reference: Reference, names: Iterable[str]) -> str:
    """Return what models a reference is of, in words; ``names``: of those that are held against it.

    >>> accuracies = AccuracyTable(90, {"linf": {0.1: 60}})
    >>> best = Reference("mine", "", accuracies, ("linf",), models=("a", "b"))
    >>> against_what(best, ["a", "b", "c"]), against_what(best, ["a"])
    ('the best of these models', 'the best of 2 models, a among them')
    >>> against_what(Reference("mine", "", accuracies, ("linf",)), ["a"])
    'models trained against each attack'
    """
    if not reference.models:
        return "models trained against each attack"
    known = {*names}
    if known.issuperset(reference.models):
        return "the best of these models" if len(known) > 1 else "the model itself"
    among = [name for name in reference.models if name in known]
    said = f"the best of {pluralise(len(reference.models), 'model')}"
    return f"{said}, {join_words(among)} among them" if among else said


def hold_against(
    table: OutcomeTable,
    reference: Reference,
    records: Iterable[AttackRecord] = (),
    identity: Identity | None = None,
) -> Held:
    """Pair outcomes with a reference. Only attacks of ``table`` that are known at every strength take part. ``records``
    say whether threat models are those as published, ``identity`` on what images the run was measured."""
    known = reference.accuracies
    records = list(records)
    unlike = {**reference.unlike, **_other_threats(reference, records)}
    ours = {a: grid for a, grid in _grids(table).items() if a not in unlike}
    both = shared_points(ours, known.distance_entries, ours)
    zero = {attack: [s for s in grid if known.accuracy_at_distance(attack, s) == 0] for attack, grid in both.items()}
    positive = {attack: [s for s in grid if s not in zero[attack]] for attack, grid in both.items()}
    shared = {attack: grid for attack, grid in positive.items() if grid}
    attacks = [*reference.ranked, *(attack for attack in ours if attack not in reference.ranked)]
    ranked = {
        attack: [s for s in known.distance_entries[attack] if reference.counts(attack, s)]
        for attack in reference.ranked
    }
    missing, _ = different_points(ours, {**known.distance_entries, **ranked}, attacks)
    extra = different_points(ours, known.distance_entries, attacks)[1]
    published = _published(records)
    return Held(
        name=table.name,
        reference=reference,
        shared=shared,
        missing=tuple(point for point in missing if point.partition("@")[0] in ranked),
        extra=tuple(extra),
        zero=tuple(f"{attack}@{format_strength(s, attack=attack)}" for attack, grid in zero.items() for s in grid),
        unlike={attack: why for attack, why in unlike.items() if attack in table.attacks},
        own_threat=tuple(attack for attack in reference.historical if attack in shared and attack not in published),
        other_data=_other_data(reference, table.data, identity.data if identity else None),
    )


def _other_threats(reference: Reference, records: Iterable[AttackRecord]) -> dict[str, str]:
    """Return the attacks whose threat model in the run is known not to be the reference's, each with the reason."""
    searched, known = threat_identities(records), reference.threats
    other = [attack for attack in searched if known.get(attack, searched[attack]) != searched[attack]]
    return dict.fromkeys(other, f"the threat model of {reference.name} has other parameters than the run's")


def _other_data(reference: Reference, name: str, data: DataRecord | None) -> str:
    """A sentence where a reference and a run are known to be of different images, or a shipped one has another name."""
    if reference.data is not None:
        if data is None or not reference.data.differences(data):
            return ""
        of = f"was measured on other images ({reference.data.name})"
    elif reference.name in available_references() and not has_dataset(reference.name, name):
        of = f"is about {reference.name.split('-')[1]}"
    else:
        return ""
    return f"The reference {reference.name} {of}, this run on {name}: ratios between them say little of the model."


def fitting_reference(tables: Sequence[OutcomeTable]) -> Reference | None:
    """The shipped reference about the data set of all the runs that shares most ranked points with them, if any does.

    It is the one that `show`, `compare`, the report and the leaderboard take unless another one is asked for.
    """
    loaded = cache(load_reference)
    shared = {name: 0 for name in available_references() if name not in available_fields()}
    for table in tables:
        shared = {name: points for name, points in shared.items() if has_dataset(name, table.data)}
        if not shared:
            break
        for name in shared:
            shared[name] += hold_against(table, loaded(name)).points
    best = max(shared, key=shared.__getitem__, default=None)
    return loaded(best) if best is not None and shared[best] else None


def choose_reference(
    given: str | None, tables: Sequence[OutcomeTable], weights: Points | str | Path | None = None
) -> Reference | None:
    """The reference that is asked for, by name or file; the fitting one where none is, and no one for ``none``; by the
    ``weights`` of its points, where they are given. Raises :class:`UserError`: weights without a reference, or as of
    :meth:`Reference.weighted`."""
    found = fitting_reference(tables) if given is None else None if given == "none" else load_reference(given)
    if weights is None:
        return found
    if found is None:
        raise UserError("--weights are of the points of a reference, and there is none; give one with --reference.")
    return found.weighted(weights)


def _published(records: Iterable[AttackRecord]) -> Collection[str]:
    """Names of the attacks whose threat model, in every search of the run, was that as published."""
    searched: dict[str, list[bool]] = {}
    for record in records:
        published = str(record.threat.get("kind", "")).startswith("Historical") and not record.is_measured_by_its_model
        searched.setdefault(record.name, []).append(published)
    return [name for name, published in searched.items() if all(published)]


def _grids(table: OutcomeTable) -> dict[str, list[float]]:
    judged = table.select_judged()
    return {attack: judged.distances(attack).tolist() for attack in judged.attacks}
