"""Published accuracies, shipped as data, and the references that users make of their own models.

A reference says how accurate models are that were trained against the very attack they are evaluated with: the
denominator of the competitiveness ratio (acc*) and of UAR (ATA).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from robustatlas.errors import UserError
from robustatlas.metrics.accuracies import AccuracyTable, read_json
from robustatlas.metrics.matching import different_points, some


@dataclass(frozen=True)
class Defense:
    """A published defense and its accuracies.

    Attributes:
        name: short name in the source.
        title: title of the paper.
        paper_url: where the paper is.
        architecture: of the network.
        extra_data: whether it was trained with more than the data set's own training images.
        trained_on: attack -> largest strength it was trained against; empty for none.
        accuracies: measured accuracies in percent; may lack attacks that the source did not evaluate.
        notes: what the source says about the training, and every correction made to the source's data.
        train_petaflops: cost of the training in 10^15 floating point operations, None where unknown.
    """

    name: str
    title: str
    paper_url: str
    architecture: str
    extra_data: bool
    trained_on: Mapping[str, float]
    accuracies: AccuracyTable
    notes: tuple[str, ...] = ()
    train_petaflops: float | None = None

    def missing(self, attacks: tuple[str, ...]) -> tuple[str, ...]:
        """Those of `attacks` that this defense has no accuracies for."""
        return tuple(attack for attack in attacks if attack not in self.accuracies.cells)


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
    """

    name: str
    source: str
    accuracies: AccuracyTable
    ranked: tuple[str, ...]
    defenses: tuple[Defense, ...] = ()
    source_names: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> float:
        """Clean accuracy in percent, NaN where the source gives none."""
        return self.accuracies.clean

    def defense(self, name: str) -> Defense:
        """The published defense of that name."""
        for defense in self.defenses:
            if defense.name == name:
                return defense
        known = ", ".join(defense.name for defense in self.defenses) or "none"
        raise UserError(f"{self.name} has no defense {name!r}; it has {known}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; `load_reference` reads a file of it."""
        return {
            "name": self.name,
            "source": self.source,
            "ranked": list(self.ranked),
            "source_names": dict(self.source_names),
            "notes": list(self.notes),
            "accuracies": self.accuracies.to_dict(),
            "defenses": [
                {
                    "name": defense.name,
                    "title": defense.title,
                    "paper_url": defense.paper_url,
                    "architecture": defense.architecture,
                    "extra_data": defense.extra_data,
                    "train_petaflops": defense.train_petaflops,
                    "trained_on": dict(defense.trained_on),
                    "notes": list(defense.notes),
                    "accuracies": defense.accuracies.to_dict(),
                }
                for defense in self.defenses
            ],
        }

    def to_json(self, path: str | Path) -> None:
        """Write the reference as a JSON file that `load_reference` reads."""
        try:
            Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror or error}") from error

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Reference:
        """The reference of plain data, as `to_dict` gives it; only `name`, `source` and `accuracies` are required."""
        if not isinstance(data, Mapping):
            raise UserError(f"a reference is an object with name, source and accuracies; given: {type(data).__name__}")
        missing = [key for key in ("name", "source", "accuracies") if key not in data]
        if missing:
            hint = "; this is an accuracy table, wrap it as accuracies" if {"clean", "cells"} <= data.keys() else ""
            raise UserError(
                f"a reference needs the entries name, source and accuracies; missing: {', '.join(missing)}{hint}"
            )
        accuracies = AccuracyTable.from_dict(data["accuracies"])
        ranked = tuple(_entry(data, "ranked", list, "the reference", list(accuracies.attacks)))
        if not ranked:
            raise UserError("the reference ranks no attack; at least one is expected")
        unknown = [attack for attack in ranked if attack not in accuracies.cells]
        if unknown:
            raise UserError(f"the reference ranks {', '.join(unknown)} but has no accuracies for it")
        return cls(
            name=_entry(data, "name", str, "the reference"),
            source=_entry(data, "source", str, "the reference"),
            accuracies=accuracies,
            ranked=ranked,
            defenses=tuple(_defense(entry) for entry in _entry(data, "defenses", list, "the reference", [])),
            source_names=dict(_entry(data, "source_names", dict, "the reference", {})),
            notes=tuple(_entry(data, "notes", list, "the reference", [])),
        )

    @classmethod
    def from_models(cls, name: str, source: str, tables: Mapping[str, AccuracyTable]) -> Reference:
        """A reference of one's own, from models adversarially trained against each attack.

        The reference accuracy under an attack is the best that any of the models reaches at that strength (the
        adversarial training accuracy of Kang et al. 2019, "Testing Robustness Against Unforeseen Adversaries"); the
        clean one is the best clean accuracy.

        Args:
            name: of the new reference.
            source: how it was made.
            tables: model -> its accuracies; all with the same attacks and strengths.

        Example:
            >>> weak = AccuracyTable(95.0, {"linf": {0.01: 70.0, 0.02: 40.0}})
            >>> strong = AccuracyTable(90.0, {"linf": {0.01: 65.0, 0.02: 50.0}})
            >>> mine = Reference.from_models("mine", "two models", {"a": weak, "b": strong})
            >>> mine.accuracies.values("linf")
            array([70., 50.])
            >>> mine.to_json("mine.json")  # doctest: +SKIP
        """
        if not tables:
            raise UserError("no accuracy table is given; a reference is made from at least one model")
        first_model, first = next(iter(tables.items()))
        if not first.attacks:
            raise UserError(f"{first_model} has no attacks; a reference is made of accuracies under attacks")
        for model, table in tables.items():
            table.require_percent()
            for attack in {*first.attacks, *table.attacks}:
                if attack not in table.cells or attack not in first.cells:
                    raise UserError(f"{model} and {first_model} were not evaluated with the same attacks: see {attack}")
            missing, extra = different_points(table.cells, first.cells, first.attacks)
            if missing or extra:
                attack = (missing or extra)[0].partition("@")[0]
                raise UserError(
                    f"{model} and {first_model} were evaluated at different strengths of {attack}: only one of them at "
                    f"{some([*missing, *extra])}"
                )
        cells = {
            attack: {
                strength: max(table.at(attack, strength) for table in tables.values())
                for strength in first.strengths(attack).tolist()
            }
            for attack in first.attacks
        }
        clean = max((t.clean for t in tables.values() if not math.isnan(t.clean)), default=math.nan)
        return cls(name, source, AccuracyTable(clean, cells), ranked=first.attacks)


def available_references() -> tuple[str, ...]:
    """Names of the references that come with robustatlas.

    Example:
        >>> available_references()
        ('multirobustbench-cifar10', 'uar-cifar10', 'uar-imagenet100')
    """
    return tuple(sorted(entry.name.removesuffix(".json") for entry in _data().iterdir()))


def load_reference(name_or_path: str | Path) -> Reference:
    """A reference by its name, or from a JSON file of your own.

    Args:
        name_or_path: one of `available_references()`, or the path of a file that holds `Reference.to_dict()` as JSON.

    Example:
        >>> reference = load_reference("multirobustbench-cifar10")
        >>> reference.ranked
        ('linf', 'l2', 'l1', 'stadv', 'recolor', 'elastic', 'jpeg-linf', 'jpeg-l1', 'lpips')
        >>> len(reference.defenses)
        21
    """
    shipped = _data() / f"{name_or_path}.json"
    if str(name_or_path) in available_references():
        return Reference.from_dict(read_json(Path(str(shipped))))
    if not Path(name_or_path).is_file():
        raise UserError(
            f"there is no reference {str(name_or_path)!r}; give one of {', '.join(available_references())} "
            "or the path of a reference file"
        )
    return Reference.from_dict(read_json(name_or_path))


def _data() -> Path:
    return Path(str(files("robustatlas.references"))) / "data"


def _defense(entry: Any) -> Defense:
    if not isinstance(entry, Mapping):
        raise UserError(f"a defense of a reference is an object; given: {type(entry).__name__}")
    name = _entry(entry, "name", str, "a defense of the reference")
    petaflops = entry.get("train_petaflops")
    trained_on = _entry(entry, "trained_on", dict, name, {})
    for attack, strength in trained_on.items():
        if isinstance(strength, bool) or not isinstance(strength, int | float) or not strength > 0:
            raise UserError(f"{name} is trained on {attack} at {strength!r}; a positive number is expected")
    return Defense(
        name=name,
        title=_entry(entry, "title", str, name, ""),
        paper_url=_entry(entry, "paper_url", str, name, ""),
        architecture=_entry(entry, "architecture", str, name, ""),
        extra_data=_entry(entry, "extra_data", bool, name, False),
        train_petaflops=None if petaflops is None else float(_entry(entry, "train_petaflops", (int, float), name)),
        trained_on=dict(trained_on),
        notes=tuple(_entry(entry, "notes", list, name, [])),
        accuracies=AccuracyTable.from_dict(entry.get("accuracies")),  # type: ignore[arg-type]
    )


def _entry(data: Mapping[str, Any], key: str, kind: Any, owner: str, default: Any = None) -> Any:
    """The entry of an object of a JSON file, which must be of a kind; without a default it must be there."""
    value = data.get(key, default)
    if not isinstance(value, kind):
        expected = {str: "text", list: "a list", dict: "an object", bool: "true or false"}.get(kind, "a number")
        raise UserError(f"{key} of {owner} is {value!r}; {expected} is expected")
    return value
