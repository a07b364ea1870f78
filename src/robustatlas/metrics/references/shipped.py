"""The references and fields that come with robustatlas, and those in files of one's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from robustatlas.common.documents import read_json, validate
from robustatlas.common.errors import UserError
from robustatlas.common.files import parse_path
from robustatlas.metrics.references.reference import Defense, Reference
from robustatlas.outcomes.accuracies import AccuracyTable

CORRUPTIONS = "corruptions"
"""The attack of fields that are about common corruptions: the mean over 15 of them at five severities."""


@dataclass(frozen=True)
class FieldEntry:
    """One model of a field.

    Attributes:
        name: as the benchmark has it.
        accuracy: best known robust accuracy in percent; of corruptions the mean accuracy.
        clean: clean accuracy in percent.
        title: of the paper.
        venue: where it appeared.
        url: of the paper.
        architecture: of the network.
        extra_data: whether it was trained with more than the data set's own images.
        autoattack: accuracy under AutoAttack in percent; None of corruptions.
        unreliable: whether the benchmark marks AutoAttack's verdict as unreliable; None where nobody says.
        evaluated_at: its strength where that is not the field's.
        mce: mean corruption error in percent; None where it is not known.
        footnote: of the benchmark.

    Example:
        >>> from robustatlas.metrics.references import load_field
        >>> best = load_field("robustbench-cifar10-linf").entries[0]
        >>> best.accuracy, best.venue
        (73.71, 'ICML 2024')
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    accuracy: float
    clean: float
    title: str = ""
    venue: str = ""
    url: str = ""
    architecture: str = ""
    extra_data: bool = False
    autoattack: float | None = None
    unreliable: bool | None = None
    evaluated_at: float | None = None
    mce: float | None = None
    footnote: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about its numbers, one sentence each."""
        sentences = [
            f"Evaluated at {self.evaluated_at:g}." if self.evaluated_at is not None else "",
            "AutoAttack's verdict is marked as unreliable." if self.unreliable else "",
            f"AutoAttack alone: {self.autoattack:g} %." if self.autoattack not in (None, self.accuracy) else "",
            f"Mean corruption error: {self.mce:g} %." if self.mce is not None else "",
            self.footnote,
        ]
        return tuple(sentence for sentence in sentences if sentence)


@dataclass(frozen=True)
class Field:
    """Published models at one point, best first.

    Attributes:
        name: such as ``robustbench-cifar10-linf``.
        source: where the numbers come from.
        date: as of when.
        dataset: name of the data set.
        attack: whose threat model is searched, or ``corruptions``.
        strength: as the benchmark writes it; None for corruptions.
        entries: the models.
        images: test images behind every accuracy; None where that is not known.

    Example:
        >>> from robustatlas.metrics.references import load_field
        >>> field = load_field("robustbench-imagenet-linf")
        >>> field.strength, field.epsilon, len(field.entries)
        ('4/255', 0.01568..., 30)
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    name: str
    source: str
    date: str
    dataset: str
    attack: str
    entries: tuple[FieldEntry, ...]
    strength: str | None = None
    images: int | None = None

    @property
    def epsilon(self) -> float:
        """The strength as a number; 1 for corruptions, which have none."""
        above, _, below = ("1" if self.strength is None else self.strength).partition("/")
        return float(above) / float(below or 1)

    @classmethod
    def from_dict(cls, data: Any, what: str = "the field") -> Field:
        """Return the field of plain data.

        Args:
            data: of a JSON file.
            what: whose data it is, for error messages.

        Raises:
            UserError: an entry that is missing or of another kind.
        """
        return validate(TypeAdapter(cls), data, what)

    def as_reference(self) -> Reference:
        """Return the field as a reference of one point: its best model is the reference, its entries are the
        defenses.
        """
        best = max(entry.accuracy for entry in self.entries)
        clean = max(entry.clean for entry in self.entries)
        return Reference(
            name=self.name,
            source=f"{self.source}, as of {self.date}",
            accuracies=AccuracyTable(clean, self._single_point(best)),
            ranked=(self.attack,),
            defenses=tuple(self._defense(entry) for entry in self.entries),
            notes=("The reference accuracy is the best known one of all entries, at the one strength they share.",),
            models=tuple(entry.name for entry in self.entries),
        )

    def _single_point(self, accuracy: float) -> Mapping[str, Mapping[float, float]]:
        return {self.attack: {self.epsilon: accuracy}}

    def _defense(self, entry: FieldEntry) -> Defense:
        return Defense(
            name=entry.name,
            accuracies=AccuracyTable(entry.clean, self._single_point(entry.accuracy)),
            title=entry.title,
            paper_url=entry.url,
            architecture=entry.architecture,
            extra_data=entry.extra_data,
            notes=entry.notes,
        )


def available_references() -> tuple[str, ...]:
    """Return names of the references that come with robustatlas.

    Returns:
        the names, sorted; `available_fields()` are among them.

    Example:
        >>> [name for name in available_references() if not name.startswith("robustbench")]
        ['multirobustbench-cifar10', 'uar-cifar10', 'uar-imagenet100']
    """
    return tuple(sorted(entry.name.removesuffix(".json") for entry in _data().iterdir()))


def available_fields() -> tuple[str, ...]:
    """Return names of the fields that come with robustatlas: published models at the one point that a benchmark
    asks for.

    Returns:
        the names, sorted.

    Example:
        >>> available_fields()[:3]
        ('robustbench-cifar10-corruptions', 'robustbench-cifar10-l2', 'robustbench-cifar10-linf')
    """
    return tuple(name for name in available_references() if name.startswith("robustbench-"))


@cache
def load_field(name: str) -> Field:
    """Return a field by its name.

    Args:
        name: one of `available_fields()`.

    Returns:
        its entries, best first.

    Raises:
        UserError: there is no field of that name.

    Example:
        >>> len(load_field("robustbench-cifar10-l2").entries)
        21
    """
    if name not in available_fields():
        raise UserError(f"There is no field {name!r}; give one of {', '.join(available_fields())}.")
    return Field.from_dict(read_json(_data() / f"{name}.json"), name)


def load_reference(name_or_path: str | Path) -> Reference:
    """Return a reference by its name, or from a JSON file of your own.

    Args:
        name_or_path: one of `available_references()`, or the path of a file that holds `Reference.to_dict()` as JSON.

    Returns:
        its accuracies, published defenses and notes.

    Raises:
        UserError: there is no reference of that name, or the file holds none.

    Example:
        >>> reference = load_reference("multirobustbench-cifar10")
        >>> reference.ranked
        ('linf', 'l2', 'l1', 'stadv', 'recolor', 'elastic', 'jpeg-linf', 'jpeg-l1', 'lpips')
        >>> len(reference.defenses)
        21
    """
    file = parse_path(name_or_path, "the name or the file of a reference")
    shipped = _data() / f"{name_or_path}.json"
    if str(name_or_path) in available_fields():
        return load_field(str(name_or_path)).as_reference()
    if str(name_or_path) in available_references():
        return Reference.from_dict(read_json(shipped), str(name_or_path))
    if not file.is_file():
        raise UserError(
            f"There is no reference {str(name_or_path)!r}; give one of {', '.join(available_references())} "
            "or the path of a reference file."
        )
    return Reference.from_dict(read_json(file), str(name_or_path))


def _data() -> Path:
    return Path(str(files("robustatlas.metrics.references"))) / "data"


def has_dataset(reference: str, data: str) -> bool:
    """Return True if a shipped reference belongs to a data set, by their names.

    >>> has_dataset("uar-cifar10", "CIFAR-10 test"), has_dataset("robustbench-cifar10-linf", "cifar100")
    (True, False)
    """
    normalised = re.sub("[^a-z0-9]", "", data.lower())
    return re.search(rf"{reference.split('-')[1]}(?!\d)", normalised) is not None
