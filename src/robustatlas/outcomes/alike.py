"""Rules of comparison: the same images and labels, the same threat models, distinct trainings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

from robustatlas.common.errors import UserError
from robustatlas.common.wording import format_counts
from robustatlas.outcomes.differences import differences
from robustatlas.outcomes.identity import DataRecord, Identity, ModelRecord
from robustatlas.outcomes.records import AttackRecord

_NAMED = 2
"""Parameters of a threat model that a sentence names; of another version of it often all differ."""


@dataclass(frozen=True)
class Subject:
    """The model, the data and the attacks of a run, as comparisons ask for them.

    Attributes:
        name: what sentences call the run.
        data: the data set; of arrays at hand its name alone.
        model: None: not known.
        attacks: name -> one record of that attack; all records of a run with the same name have the same threat model.
        missing: attack -> number of samples that were asked for and are not evaluated yet.
    """

    name: str
    data: DataRecord
    model: ModelRecord | None
    attacks: Mapping[str, AttackRecord]
    missing: Mapping[str, int]

    @classmethod
    def from_run(
        cls,
        name: str,
        data: str,
        identity: Identity | None,
        records: Iterable[AttackRecord],
        missing: Mapping[str, int] | None = None,
    ) -> Subject:
        """Return the subject of a run called `name` on the data set called `data`."""
        about = DataRecord(name=data) if identity is None else identity.data
        model = None if identity is None else identity.model
        return cls(name, about, model, {record.name: record for record in records}, missing or {})

    @property
    def unfinished_note(self) -> str:
        """The sentence that says how many samples the run still lacks; empty of a finished one."""
        if not self.missing:
            return ""
        return f"{self.name} is unfinished; samples that it has not evaluated yet: {format_counts(self.missing)}."


def different_data(subjects: Sequence[Subject]) -> str:
    """Return a sentence that names the first two runs that are about different images or labels; empty: none are.

    Data sets are known by the hashes of their images and labels, and by their names where a run records no hashes.

    >>> digits, others = DataRecord(name="digits", images_sha256="a"), DataRecord(name="digits", images_sha256="b")
    >>> runs = [Subject(name, data, None, {}, {}) for name, data in (("one", digits), ("two", others))]
    >>> different_data(runs)[:66]
    'one was evaluated on digits and two on digits, which hold differen'
    """
    distinct = {(each.data.name, each.data.images_sha256, each.data.labels_sha256): each for each in subjects[::-1]}
    for first, second in combinations([*distinct.values()][::-1], 2):
        if what := first.data.differing_parts(second.data):
            return (
                f"{first.name} was evaluated on {first.data.name} and {second.name} on {second.data.name}, which hold "
                f"different {what}; evaluate the same data to compare."
            )
    return ""


def attack_differences(subjects: Sequence[Subject]) -> dict[str, str]:
    """Return the attacks that several runs have by the same name and with different threat models, and how they differ.

    An attack whose run records no threat model is taken by its name.
    """
    found: dict[str, str] = {}
    for attack in dict.fromkeys(attack for subject in subjects for attack in subject.attacks):
        having = [(subject.name, subject.attacks[attack]) for subject in subjects if attack in subject.attacks]
        known = [(name, record) for name, record in having if record.threat]
        other = next((each for each in known if each[1].threat_identity != known[0][1].threat_identity), None)
        if other is not None:
            found[attack] = _difference(known[0], other)
    return found


def refusal_to_compare(attack: str, how: str) -> str:
    """Return the sentence on an attack of :func:`attack_differences`."""
    return f"{attack} is not compared, as its threat models differ: {how}."


def _difference(first: tuple[str, AttackRecord], second: tuple[str, AttackRecord]) -> str:
    """Return how the threat models of two runs, which have the same name, differ."""
    (name, ours), (other, theirs) = first, second
    if ours.is_measured_by_its_model and theirs.is_measured_by_its_model:
        return "each model measures it by its own activations"
    found = differences(ours.threat_parameters, theirs.threat_parameters, f"of {name}", there=f"of {other}")
    return ", ".join(islice(found, _NAMED))


def threat_identities(records: Iterable[AttackRecord]) -> dict[str, str]:
    """Return the identity of each attack's threat model, without attacks that record none or that each model measures
    by its own activations."""
    return {r.name: r.threat_identity for r in records if r.threat and not r.is_measured_by_its_model}


def check_distinct_trainings(subjects: Sequence[Subject]) -> None:
    """Raise where two runs hold the same trained model, so that they are one training and not two.

    Raises:
        UserError: weights, code and answers of two models are the same.
    """
    known = [(each.name, each.model) for each in subjects if each.model is not None and each.model.is_told]
    for (first, ours), (second, theirs) in combinations(known, 2):
        if not ours.differences(theirs):
            raise UserError(
                f"{first} and {second} hold the same trained model (the same weights and answers), which is one "
                "training; give each training once."
            )
