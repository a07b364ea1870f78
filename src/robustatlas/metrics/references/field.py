"""The field: what many published models reach at the one point that a benchmark asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import ConfigDict, TypeAdapter

from robustatlas.common.documents import validate
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
