"""The table that metrics over many attacks read: accuracy on clean inputs and under (attack, strength), in percent."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.documents import read_json
from robustatlas.common.errors import UserError, warn
from robustatlas.common.files import parse_path
from robustatlas.common.tabular import Grid, Tabular, object_column
from robustatlas.common.typed_strengths import format_strength, text_as_typed, value_as_typed
from robustatlas.common.wording import add_mark, masked_warning
from robustatlas.outcomes.bounds import (
    UPPER_BOUND_ONLY,
    Point,
    command_to_search,
    describe_unsearched,
    strengths_by_attack,
    upper_bound_status,
)
from robustatlas.outcomes.strengths import (
    check_strengths,
    is_same_strength,
    listed_strengths,
    read_strength,
    strength_position,
)


class AccuracyTable(Tabular):
    """Clean accuracy and accuracy under every (attack, strength), in percent.

    Attributes:
        clean: accuracy on the unperturbed inputs in [0, 100]; NaN where it was not measured.
        entries: attack -> strength, as people type it -> accuracy in [0, 100]. Strengths are in the order of harm.
        invalid: attack -> share of the samples at which the model gave it no gradient to follow; its accuracies are too
            high. Metrics that count them warn (:class:`~robustatlas.common.errors.RobustnessWarning`).
        unsearched: attack -> strengths at which sizes alone were searched, as by the search ``minimum``; its accuracies
            there are upper bounds only. Metrics that count them warn, and no reference is made of them.

    ``to_pandas``, ``to_polars`` and ``to_arrow`` give one row for each entry: attack, strength (as people type it),
    accuracy, status ("upper bound only" or empty); first the clean accuracy, as that at strength 0 of an attack
    "clean".

    Raises:
        UserError: where a value is not a percentage, or strengths change nothing, are given twice or not in order.

    Example:
        >>> table = AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}, "resolution": {80: 70.0, 20: 30.0}})
        >>> table.attacks, table.at("linf", 0.02), table.at("resolution", 80), table.strengths("resolution")
        (('linf', 'resolution'), 60.0, 70.0, array([80., 20.]))
    """

    def __init__(
        self,
        clean: float,
        entries: Mapping[str, Mapping[float, float]],
        invalid: Mapping[str, float] | None = None,
        unsearched: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        rows = {attack: _read_row(row, attack) for attack, row in _mapping(entries, "the entries").items()}
        alone = {attack: _shared_strengths((unsearched or {}).get(attack, ()), row) for attack, row in rows.items()}
        self.clean: Final = _read_clean(clean)
        self.entries: Final[Mapping[str, Mapping[float, float]]] = MappingProxyType(rows)
        self.invalid: Final = MappingProxyType({a: share for a, share in (invalid or {}).items() if a in rows})
        self.unsearched: Final = MappingProxyType({attack: kept for attack, kept in alone.items() if kept})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AccuracyTable):
            return NotImplemented
        return (self.clean, self.entries) == (other.clean, other.entries)

    @classmethod
    def from_distances(
        cls,
        clean: float,
        entries: Mapping[str, Mapping[float, float]],
        invalid: Mapping[str, float] | None = None,
        unsearched: Sequence[Point] = (),
    ) -> AccuracyTable:
        """Return the table of accuracies whose strengths are given as distances from the unchanged image."""
        typed = {
            attack: {value_as_typed(attack, distance): value for distance, value in row.items()}
            for attack, row in entries.items()
        }
        return cls(clean, typed, invalid, strengths_by_attack(unsearched))

    @cached_property
    def distance_entries(self) -> Mapping[str, Mapping[float, float]]:
        """The entries with strengths as distances from the unchanged image: attack -> distance -> accuracy."""
        return {
            attack: MappingProxyType({read_strength(strength, attack): value for strength, value in row.items()})
            for attack, row in self.entries.items()
        }

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by value: read-only views cannot be pickled."""
        return AccuracyTable, (
            self.clean,
            {attack: dict(row) for attack, row in self.entries.items()},
            dict(self.invalid),
            dict(self.unsearched),
        )

    def _grid(self) -> Grid:
        rows = []
        for attack in self.attacks:
            strengths, values = self.strengths(attack), self.values(attack)
            span, found = text_as_typed(strengths[0]), f"{values[0]:.1f}"
            if len(strengths) > 1:
                span, found = (
                    f"{span} to {text_as_typed(strengths[-1])} ({len(strengths)})",
                    f"{found} to {values[-1]:.1f}",
                )
            rows.append((add_mark(attack, attack in self.invalid), span, found, f"{values.mean():.1f}"))
        clean = "no clean accuracy" if math.isnan(self.clean) else f"{self.clean:.1f} % clean accuracy"
        if self.invalid:
            clean = f"{clean}\n{masked_warning(self.invalid)}"
        if status := upper_bound_status(self.unsearched_points()):
            clean = f"{clean}\n{status}"
        return Grid(clean, ("attack", "strengths", "accuracy, %", "mean"), rows, numbers=(3,))

    def _columns(self) -> dict[str, NDArray[Any]]:
        entries = [("clean", 0.0, self.clean), *((a, s, v) for a, row in self.entries.items() for s, v in row.items())]
        attacks, strengths, values = zip(*entries, strict=True)
        status = [self.status(attack, strength) for attack, strength in zip(attacks, strengths, strict=True)]
        return {
            "attack": object_column(attacks),
            "strength": np.array(strengths),
            "accuracy": np.array(values),
            "status": object_column(status),
        }

    @property
    def attacks(self) -> tuple[str, ...]:
        """Names of the attacks, in the table's order."""
        return tuple(self.entries)

    def strengths(self, attack: str) -> NDArray[np.float64]:
        """Return the strengths [S] of an attack as people type them, in the order of harm."""
        return np.fromiter(self._row(attack), dtype=np.float64)

    def distances(self, attack: str) -> NDArray[np.float64]:
        """Return the strengths [S] of an attack as distances from the unchanged image, increasing."""
        self._row(attack)
        return np.fromiter(self.distance_entries[attack], dtype=np.float64)

    def values(self, attack: str) -> NDArray[np.float64]:
        """Return the accuracies [S] under an attack in percent, in the order of `strengths`."""
        return np.fromiter(self._row(attack).values(), dtype=np.float64)

    def at(self, attack: str, strength: float) -> float:
        """Return the accuracy in percent under an attack at one of the strengths of the table, as people type it.

        Raises:
            UserError: an attack or a strength that the table does not have.
        """
        return self.accuracy_at_distance(attack, read_strength(strength, attack))

    def accuracy_at_distance(self, attack: str, distance: float) -> float:
        """Return the accuracy in percent under an attack at a strength that is given as a distance.

        Raises:
            UserError: an attack or a strength that the table does not have.
        """
        self._row(attack)
        row = self.distance_entries[attack]
        if distance in row:
            return row[distance]
        for known, value in row.items():
            if is_same_strength(known, distance):
                return value
        raise UserError(
            f"The table has no accuracy under {attack} at strength {format_strength(distance, attack=attack)}; it has "
            "the "
            f"strengths {listed_strengths(row, attack)}."
        )

    def restrict(
        self,
        attacks: Iterable[str] | None = None,
        strengths: Mapping[str, Sequence[float]] | None = None,
    ) -> AccuracyTable:
        """Return the table with only some attacks, or only some strengths of some attacks.

        Args:
            attacks: the attacks to keep, in this order; all when None.
            strengths: attack -> the strengths to keep of it, as people type them; attacks that are not named here keep
                all of theirs.

        Raises:
            UserError: for an attack or a strength that the table does not have.

        Example:
            >>> table = AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}, "l2": {0.5: 70.0}})
            >>> dict(table.restrict(["linf"], {"linf": [0.02]}).entries["linf"])
            {0.02: 60.0}
        """
        chosen = self.attacks if attacks is None else tuple(attacks)
        entries = {attack: dict(self._row(attack)) for attack in chosen}
        for attack, kept in (strengths or {}).items():
            if attack not in entries:
                raise UserError(
                    f"Strengths are given for {attack!r}, which is not among the attacks {_names(entries)}."
                )
            entries[attack] = {float(strength): self.at(attack, strength) for strength in kept}
        return AccuracyTable(self.clean, entries, self.invalid, self.unsearched)

    def restrict_distances(self, distances: Mapping[str, Iterable[float]]) -> AccuracyTable:
        """Return the table of these attacks alone, at strengths that are given as distances."""
        typed = {attack: [value_as_typed(attack, each) for each in kept] for attack, kept in distances.items()}
        return self.restrict(typed, typed)

    def drop_doubts(self) -> AccuracyTable:
        """Return the table without its doubts, for whoever has told them already."""
        return AccuracyTable(self.clean, self.entries)

    def status(self, attack: str, strength: float) -> str:
        """Return "upper bound only" for a strength, as people type it, at which sizes alone were searched, else "".

        >>> table = AccuracyTable(90.0, {"linf": {0.01: 80.0, 0.02: 60.0}}, unsearched={"linf": [0.02]})
        >>> table.status("linf", 0.01), table.status("linf", 0.02)
        ('', 'upper bound only')
        """
        return UPPER_BOUND_ONLY if _shared_strengths([strength], self.unsearched.get(attack, ())) else ""

    def unsearched_points(self, attacks: Iterable[str] | None = None) -> tuple[Point, ...]:
        """Return the attacks and strengths at which sizes alone were searched, of some `attacks` or of all."""
        chosen = self.attacks if attacks is None else attacks
        return tuple((a, strength) for a in chosen for strength in self.unsearched.get(a, ()))

    def warn_of_doubts(self, attacks: Iterable[str]) -> None:
        """Warn that a number rests on accuracies under some of the `attacks` that are invalid or upper bounds only."""
        counted = list(attacks)
        if shares := {attack: self.invalid[attack] for attack in counted if attack in self.invalid}:
            warn(masked_warning(shares))
        if alone := self.unsearched_points(counted):
            warn(f"The number is an {upper_bound_status(alone)}; run: {command_to_search(alone)}")

    def require_searched(self, purpose: str, attacks: Iterable[str] | None = None) -> None:
        """Refuse accuracies that are upper bounds only; `purpose` is the beginning of a sentence.

        Raises:
            UserError: sizes alone were searched at some strength of the `attacks`, or of all.
        """
        if alone := self.unsearched_points(attacks):
            raise UserError(
                f"{purpose} stands on searched strengths, and {describe_unsearched(alone)}; "
                f"run: {command_to_search(alone)}"
            )

    def to_dict(self) -> dict[str, Any]:
        """Return plain data for JSON: `{"clean": percent or None, "entries": {attack: {"strength": percent}}}`.

        Strengths are as people type them. Where some were not searched, `"unsearched"` lists them by attack.
        """
        alone = {attack: list(strengths) for attack, strengths in self.unsearched.items()}
        return {
            "clean": None if math.isnan(self.clean) else self.clean,
            "entries": {
                attack: {repr(strength): value for strength, value in row.items()}
                for attack, row in self.entries.items()
            },
            **({"unsearched": alone} if alone else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AccuracyTable:
        """Return the table of plain data, as `to_dict` gives it.

        Strengths are as people type them, and may be numbers or their text.

        Raises:
            UserError: also where every accuracy is at most 1, because percent are expected and not fractions.

        Example:
            >>> AccuracyTable.from_dict({"clean": 90, "entries": {"linf": {"0.01": 80}}}).at("linf", 0.01)
            80.0
            >>> AccuracyTable.from_dict({"clean": 0.9, "entries": {"linf": {"0.01": 0.8}}})
            Traceback (most recent call last):
            robustatlas.common.errors.UserError: Every accuracy is at most 1: these look like fractions, and percent \
are expected; multiply them by 100.
        """
        if not isinstance(data, Mapping) or not {"clean", "entries"} <= data.keys():
            raise UserError(
                'An accuracy table is {"clean": percent, "entries": {attack: {strength: percent}}}; '
                f"given: {_names(data) if isinstance(data, Mapping) else type(data).__name__}."
            )
        entries = {attack: _parse_row(row, attack) for attack, row in _mapping(data["entries"], "the entries").items()}
        alone = _mapping(data.get("unsearched", {}), "the strengths that were not searched")
        table = cls(math.nan if data["clean"] is None else data["clean"], entries, unsearched=alone)
        table.require_percent()
        return table

    def to_json(self, path: str | Path) -> None:
        """Write the table as a JSON file."""
        parse_path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def from_json(cls, path: str | Path) -> AccuracyTable:
        """Read a table that `to_json` wrote."""
        return cls.from_dict(read_json(path))

    def require_percent(self) -> None:
        """Refuse values that look like fractions: all at most 1 and not all 0, or the clean one alone.

        Raises:
            UserError: values that do.
        """
        values = [value for row in self.entries.values() for value in row.values()]
        highest = max([*values, 0.0 if math.isnan(self.clean) else self.clean])
        if 0 < self.clean <= 1 and highest > 10:
            raise UserError(
                f"The clean accuracy is {self.clean:g} and one under attack {highest:g}: the clean one looks like a "
                "fraction, and percent are expected; multiply it by 100."
            )
        if 0 < highest <= 1:
            raise UserError(
                "Every accuracy is at most 1: these look like fractions, and percent are expected; multiply them by "
                "100."
            )

    def _row(self, attack: str) -> Mapping[float, float]:
        if attack not in self.entries:
            raise UserError(f"The table has no attack {attack!r}; it has {_names(self.entries)}.")
        return self.entries[attack]


def _shared_strengths(strengths: Iterable[float], known: Iterable[float]) -> tuple[float, ...]:
    """Return those of the `known` strengths that are among `strengths`."""
    wanted = [float(strength) for strength in strengths]
    return tuple(strength for strength in known if strength_position(strength, wanted) is not None)


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise UserError(
            f"{what} of an accuracy table must be a mapping (attack -> strength -> percent); given: "
            f"{type(value).__name__}."
        )
    return value


def _read_clean(given: Any) -> float:
    clean = _number(given, "clean")
    if not math.isnan(clean):
        _check_percent(clean, "the clean accuracy")
    return clean


def _read_row(row: Any, attack: str) -> Mapping[float, float]:
    """Return strength -> accuracy, checked and read-only."""
    strengths = [_number(strength, attack) for strength in _mapping(row, f"the row of {attack}")]
    check_strengths([read_strength(strength, attack) for strength in strengths], attack)
    values = [_number(value, attack) for value in row.values()]
    for strength, value in zip(strengths, values, strict=True):
        _check_percent(value, f"the accuracy under {attack} at strength {text_as_typed(strength)}")
    return MappingProxyType(dict(zip(strengths, values, strict=True)))


def _parse_row(row: Any, attack: str) -> dict[float, Any]:
    """Return strength -> accuracy of a row whose strengths may be texts."""
    found: dict[float, Any] = {}
    for given, value in _mapping(row, f"the row of {attack}").items():
        strength = value_as_typed(attack, read_strength(given, attack))
        if math.isnan(strength):
            raise UserError(f"{given!r} in {attack} of the accuracy table is not a number.")
        if strength in found:
            raise UserError(f"The strength {given} of {attack} is given twice; give each strength once.")
        found[strength] = value
    return found


def _number(value: Any, where: str) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise UserError(f"{value!r} in {where} of the accuracy table is not a number.") from None


def _check_percent(value: float, what: str) -> None:
    if not 0.0 <= value <= 100.0:
        raise UserError(f"{what} is {value:g}; a percentage in [0, 100] is expected.")


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(str, names)) or "none"


class HasInvalidAttacks(Protocol):
    """Results, accuracies, facts or rows that record the attacks whose robust accuracies are masked."""

    @property
    def invalid(self) -> Mapping[str, float]:
        """Attack -> share of the samples at which its gradient is missing or misleads, if there are any."""


def masked_shares(numbers: HasInvalidAttacks, attacks: Iterable[str] | None = None) -> dict[str, float]:
    """Return the attacks because of which a number is an upper bound only and may not compete.

    Every surface asks here before it gives a number a badge, a rank, a verdict, a test or a leading place.

    Args:
        numbers: what holds the number.
        attacks: those that the number rests on; default: all.

    Returns:
        attack -> share of the samples at which its gradient is missing or misleads; empty where the number may compete.
    """
    chosen = None if attacks is None else set(attacks)
    return {attack: share for attack, share in numbers.invalid.items() if chosen is None or attack in chosen}
