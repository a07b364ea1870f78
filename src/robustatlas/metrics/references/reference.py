"""Published or own accuracies of models trained against each attack, and numbers of their points such as weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, PlainSerializer, PlainValidator, TypeAdapter

from robustatlas.common.documents import read_json, validate
from robustatlas.common.errors import UserError, shorten
from robustatlas.common.files import parse_path, write_text
from robustatlas.common.scalars import real_or_nan
from robustatlas.common.typed_strengths import format_strength, value_as_typed
from robustatlas.common.wording import MASKED, list_names, masked_reason
from robustatlas.outcomes.accuracies import AccuracyTable, masked_shares
from robustatlas.outcomes.comparable import different_points
from robustatlas.outcomes.identity import DataRecord
from robustatlas.outcomes.strengths import listed_strengths, read_strength, strength_position

CLEAN = "clean"
"""Name of the unperturbed input among the attacks; its strength is 0."""

Points = Mapping[str, float | Mapping[float, float]]
"""Attack -> a number for each of its points, or strength (as people type it) -> number; ``"clean"`` is the unperturbed
input."""


def read_points(given: Points | str | Path, what: str, known: AccuracyTable) -> dict[str, float | dict[float, float]]:
    """Return numbers of points, checked.

    ``given``: attack -> number, or strength -> number; or a JSON file of that. ``what``: what they are called in
    messages, such as "weights". ``known``: whose points they may be of. Raises :class:`UserError`: a point that is not
    known, or a number that is negative or not finite.

    >>> read_points({"clean": 1, "p": {"2": 3}}, "weights", AccuracyTable(90, {"p": {1: 80, 2: 60}}))
    {'clean': 1.0, 'p': {2.0: 3.0}}
    """
    read: Any = read_json(given) if isinstance(given, str | Path) else given
    if not isinstance(read, Mapping) or not read:
        expected = "{attack: number} or {attack: {strength: number}}"
        raise UserError(f"{what} are expected as {expected}; given {shorten(repr(read))}.")
    if strange := [attack for attack in read if attack != CLEAN and attack not in known.entries]:
        raise UserError(
            f"{what} name {list_names(map(str, strange))}, which is not there; there are {list_names(known.attacks)}."
        )
    return {str(attack): _row(attack, value, what, known) for attack, value in read.items()}


def _row(attack: str, given: Any, what: str, known: AccuracyTable) -> float | dict[float, float]:
    if attack == CLEAN or not isinstance(given, Mapping):
        return _number(given, f"{what} of {attack}")
    strengths: list[float] = known.distances(attack).tolist()
    row: dict[float, float] = {}
    for strength, value in given.items():
        place = strength_position(read_strength(strength, attack), strengths)
        if place is None:
            raise UserError(
                f"{what} name {attack}@{strength}, which is not there; {attack} is at "
                f"{list_names([listed_strengths([each], attack) for each in strengths])}."
            )
        row[value_as_typed(attack, strengths[place])] = _number(value, f"{what} of {attack}@{strength}")
    return row


def _number(given: Any, what: str) -> float:
    number = real_or_nan(given)
    if not 0 <= number < math.inf:
        raise UserError(f"The {what} are {shorten(repr(given))}; a finite number from 0 on is expected.")
    return float(number)


def point_value(points: Points, attack: str, strength: float) -> float:
    """Return the number of one point; NaN where there is none.

    >>> point_value({"p": 2, "q": {0.5: 3}}, "q", 0.5), point_value({"p": 2}, "p", 0.1)
    (3, 2)
    """
    row = points.get(attack, math.nan)
    if not isinstance(row, Mapping):
        return row
    place = strength_position(strength, [read_strength(known, attack) for known in row])
    return math.nan if place is None else list(row.values())[place]


def attacks_that_count(weights: Points, known: AccuracyTable) -> tuple[str, ...]:
    """Return attacks of which some point has a positive weight, in the order of ``known``."""
    rows = {attack: weights.get(attack, 0.0) for attack in known.attacks}
    most = {a: max(row.values(), default=0.0) if isinstance(row, Mapping) else row for a, row in rows.items()}
    return tuple(attack for attack in known.attacks if most[attack] > 0)


def select_shared_points(points: Points, known: AccuracyTable) -> dict[str, float | dict[float, float]]:
    """Return the points that ``known`` has as well, and the clean one.

    >>> select_shared_points({"clean": 1, "p": {1: 2, 2: 3}, "q": 4}, AccuracyTable(90, {"p": {1: 80}}))
    {'clean': 1, 'p': {1: 2}}
    """
    kept: dict[str, float | dict[float, float]] = {}
    for attack, row in points.items():
        if isinstance(row, Mapping):
            grid = list(known.distance_entries.get(attack, ()))
            kept[attack] = {
                strength: value
                for strength, value in row.items()
                if strength_position(read_strength(strength, attack), grid) is not None
            }
        elif attack == CLEAN or attack in known.entries:
            kept[attack] = row
    return {attack: row for attack, row in kept.items() if row != {}}


def _table(value: Any) -> AccuracyTable:
    return value if isinstance(value, AccuracyTable) else AccuracyTable.from_dict(value)


ZERO = "Left out, as the reference accuracy is 0"
"""Said before the points to which there is no ratio."""
NAMED = 12
"""Points that are named one by one where they are left out."""

Table = Annotated[AccuracyTable, PlainValidator(_table), PlainSerializer(AccuracyTable.to_dict)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


@dataclass(frozen=True)
class Defense:
    """A published defense and its accuracies.

    Attributes:
        name: short name in the source.
        accuracies: measured accuracies in percent; may lack attacks that the source did not evaluate.
        title: of the paper.
        paper_url: where the paper is.
        architecture: of the network.
        extra_data: whether it was trained with more than the data set's own training images.
        trained_on: attack -> largest strength it was trained against, as people type it; empty for none.
        notes: what the source says about the training, and every correction made to the source's data.
        train_petaflops: cost of the training in 10^15 floating point operations, None where unknown.

    Example:
        >>> from robustatlas.metrics.references import load_reference
        >>> defense = load_reference("multirobustbench-cifar10").defenses[0]
        >>> isinstance(defense, Defense), 0 < defense.accuracies.clean <= 100
        (True, True)
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    accuracies: Table
    title: str = ""
    paper_url: str = ""
    architecture: str = ""
    extra_data: bool = False
    trained_on: Mapping[str, Positive] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    train_petaflops: float | None = None

    def missing_attacks(self, attacks: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of `attacks` for which this defense has no accuracies."""
        return tuple(attack for attack in attacks if attack not in self.accuracies.entries)


@dataclass(frozen=True)
class Reference:
    """Accuracies of models that were trained against the attack they are evaluated with.

    Attributes:
        name: of the reference.
        source: where the numbers come from.
        accuracies: acc*, or ATA, in percent; its `clean` is NaN where the source gives none.
        ranked: the attacks over which metrics go unless others are asked for.
        defenses: published defenses evaluated with the same attacks and strengths.
        source_names: attack -> the attack's name in the source.
        notes: what a user has to know about the numbers.
        historical: attacks whose numbers are of the threat model as published, which differs from our default one:
            evaluate them by the protocol "paper" to compare.
        unlike: attack -> why no threat model of ours is the source's, so that a run is not compared under it.
        marks: what makes some of the numbers worth little, one sentence each; said wherever a run is compared.
        data: the images that the accuracies were measured on; None where the file does not say.
        warnings: what the trainings and evaluations behind the numbers warned of, one sentence each.
        models: names of those whose best accuracies these are; empty where they were trained against the very attack.
        threats: attack -> the identity of its threat model
            (:attr:`robustatlas.outcomes.records.AttackRecord.threat_identity`), where it is known: a run with another
            one is not compared under that attack.
        weights: how often an attacker chooses each point, see :meth:`weighted`; None: all that are ranked alike.

    Example:
        >>> from robustatlas.metrics.references import load_reference
        >>> load_reference("uar-cifar10").ranked[:2]
        ('linf', 'l2')
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    source: str
    accuracies: Table
    ranked: tuple[str, ...]
    defenses: tuple[Defense, ...] = ()
    source_names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    historical: tuple[str, ...] = ()
    unlike: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    data: DataRecord | None = None
    warnings: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    threats: Mapping[str, str] = field(default_factory=dict)
    weights: Annotated[Mapping[str, Any] | None, Field(exclude=True)] = None

    @property
    def clean(self) -> float:
        """Clean accuracy in percent, NaN where the source gives none."""
        return self.accuracies.clean

    def weighted(self, weights: Points | str | Path) -> Reference:
        """Return the reference with weights of its points, over which competitiveness ratios are expectations.

        What has a weight is ranked, and nothing else; UAR and the stability constant go over these attacks.

        Args:
            weights: attack -> the weight of each of its points, or strength -> weight; ``"clean"`` is that of the clean
                input, and what is not named has weight 0. Or a JSON file of that.

        Raises:
            UserError: as of :func:`robustatlas.metrics.competitiveness_ratio`; no attack has a weight.

        Example:
            >>> accuracies = AccuracyTable(90, {"linf": {0.1: 60}, "l2": {0.5: 80}})
            >>> Reference("small", "made up", accuracies, ("linf", "l2")).weighted({"clean": 1, "l2": 2}).ranked
            ('l2',)
        """
        found = read_points(weights, "weights", self.accuracies)
        ranked = attacks_that_count(found, self.accuracies)
        if not ranked:
            raise UserError("The weights leave no attack; give one at least a positive weight.")
        return replace(self, ranked=ranked, weights=found)

    def counts(self, attack: str, strength: float) -> bool:
        """Return True if a point of a ranked attack has a positive weight."""
        return self.weights is None or point_value(self.weights, attack, strength) > 0

    def drop_zeros(self) -> Reference:
        """Return the reference without points where it is 0, which allow no ratio; a mark names them.

        Raises:
            UserError: it is 0 at every point that it ranks.

        Example:
            >>> accuracies = AccuracyTable(90, {"linf": {0.1: 60, 0.9: 0}})
            >>> shorter = Reference("small", "made up", accuracies, ("linf",)).drop_zeros()
            >>> shorter.accuracies.values("linf"), shorter.marks
            (array([60.]), ('Left out, as the reference accuracy is 0: linf@0.9.',))
        """
        entries = self.accuracies.distance_entries
        zero = [
            f"{attack}@{format_strength(s, attack=attack)}"
            for attack, grid in entries.items()
            for s, value in grid.items()
            if value == 0
        ]
        if not zero:
            return self
        kept = {attack: [s for s, value in grid.items() if value != 0] for attack, grid in entries.items()}
        kept = {attack: grid for attack, grid in kept.items() if grid}
        ranked = tuple(attack for attack in self.ranked if attack in kept)
        if not ranked:
            raise UserError(
                f"{self.name} is 0 at every (attack, strength) that it ranks, so there is no ratio to it; give a "
                "reference with smaller strengths, or of models that learned more."
            )
        marks = (*self.marks, f"{ZERO}: {list_names(zero, at_most=NAMED)}.")
        return replace(self, accuracies=self.accuracies.restrict_distances(kept), ranked=ranked, marks=marks)

    def defense(self, name: str) -> Defense:
        """Return the published defense of that name.

        Raises:
            UserError: there is no defense of that name.
        """
        for defense in self.defenses:
            if defense.name == name:
                return defense
        known = ", ".join(defense.name for defense in self.defenses) or "none"
        raise UserError(f"{self.name} has no defense {name!r}; it has {known}.")

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON; `load_reference` reads a file of it."""
        data: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return data

    def to_json(self, path: str | Path) -> None:
        """Write the reference as a JSON file that `load_reference` reads.

        Raises:
            UserError: there is no folder to write to.
        """
        file = parse_path(path)
        if not file.parent.is_dir():
            raise UserError(f"Cannot write {path}: there is no folder {file.parent}.")
        write_text(file, json.dumps(self.to_dict(), indent=1) + "\n")

    @classmethod
    def from_dict(cls, data: Any, what: str = "the reference") -> Reference:
        """Return the reference of plain data, as `to_dict` gives it; `name`, `source` and `accuracies` are required.

        Args:
            data: of a JSON file.
            what: whose data it is, for error messages.

        Raises:
            UserError: entries that are missing, of another kind, or contradict each other.
        """
        if not isinstance(data, Mapping):
            raise UserError(f"A reference is an object with name, source and accuracies; given: {type(data).__name__}.")
        missing = [key for key in ("name", "source", "accuracies") if key not in data]
        if missing:
            hint = "; this is an accuracy table, wrap it as accuracies" if {"clean", "entries"} <= data.keys() else ""
            raise UserError(
                f"A reference needs the entries name, source and accuracies; missing: {', '.join(missing)}{hint}."
            )
        accuracies = AccuracyTable.from_dict(data["accuracies"])
        reference = validate(_adapter(), {"ranked": accuracies.attacks, **data, "accuracies": accuracies}, what)
        if not reference.ranked:
            raise UserError("The reference ranks no attack; at least one is expected.")
        unknown = [attack for attack in reference.ranked if attack not in accuracies.entries]
        if unknown:
            raise UserError(f"The reference ranks {', '.join(unknown)} but has no accuracies for it.")
        return reference

    @classmethod
    def from_models(
        cls,
        name: str,
        source: str,
        tables: Mapping[str, AccuracyTable],
        data: DataRecord | None = None,
        threats: Mapping[str, str] | None = None,
    ) -> Reference:
        """Return a reference of one's own: the best that any of some models reaches.

        Where these were adversarially trained against each attack it is the adversarial training accuracy of Kang et
        al. 2019, "Testing Robustness Against Unforeseen Adversaries"; otherwise a ratio to it is relative to the best
        of these models. The clean accuracy is the best clean one. Accuracies that are masked
        (:attr:`AccuracyTable.invalid`) are upper bounds only, and no reference, and so are those at strengths that were
        not searched (:attr:`AccuracyTable.unsearched`).

        Args:
            name: of the new reference.
            source: how it was made.
            tables: model -> its accuracies; all with the same attacks and strengths.
            data: what they were measured on, where it is known.
            threats: attack -> identity of its threat model, where it is known.

        Raises:
            UserError: no table, tables of other attacks or strengths, an attack under which all are masked, or a
                strength that was not searched.

        Example:
            >>> weak = AccuracyTable(95.0, {"linf": {0.01: 70.0, 0.02: 40.0}})
            >>> strong = AccuracyTable(90.0, {"linf": {0.01: 65.0, 0.02: 50.0}})
            >>> mine = Reference.from_models("mine", "two models", {"a": weak, "b": strong})
            >>> mine.accuracies.values("linf")
            array([70., 50.])
            >>> mine.to_json("mine.json")  # doctest: +SKIP
        """
        if not tables:
            raise UserError("No accuracy table is given; a reference is made from at least one model.")
        first_model, first = next(iter(tables.items()))
        if not first.attacks:
            raise UserError(f"{first_model} has no attacks; a reference is made of accuracies under attacks.")
        for model, table in tables.items():
            table.require_percent()
            table.require_searched(f"A reference made of {model}")
            for attack in {*first.attacks, *table.attacks}:
                if attack not in table.entries or attack not in first.entries:
                    raise UserError(
                        f"{model} and {first_model} were not evaluated with the same attacks: see {attack}."
                    )
            missing, extra = different_points(table.distance_entries, first.distance_entries, first.attacks)
            if missing or extra:
                attack = (missing or extra)[0].partition("@")[0]
                raise UserError(
                    f"{model} and {first_model} were evaluated at different strengths of {attack}: only one of them at "
                    f"{list_names([*missing, *extra])}."
                )
        entries = {}
        for attack in first.attacks:
            sound = [table for table in tables.values() if not masked_shares(table, [attack])]
            if not sound:
                why = masked_reason(masked_shares(first, [attack]))
                raise UserError(f"No reference can be made under {attack}: every model is {MASKED}. {why}")
            strengths = first.distances(attack).tolist()
            entries[attack] = {
                strength: max(table.accuracy_at_distance(attack, strength) for table in sound) for strength in strengths
            }
        clean = max((t.clean for t in tables.values() if not math.isnan(t.clean)), default=math.nan)
        return cls(
            name,
            source,
            AccuracyTable.from_distances(clean, entries),
            ranked=first.attacks,
            data=data,
            models=tuple(tables),
            threats=threats or {},
        )


@cache
def _adapter() -> TypeAdapter[Reference]:
    return TypeAdapter(Reference)
