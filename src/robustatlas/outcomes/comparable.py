"""Rules of comparison: the images, threat models, strengths and samples that runs must share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations, islice
from typing import TypeVar

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.typed_strengths import format_strength
from robustatlas.common.wording import format_counts, list_names
from robustatlas.outcomes.base import differences
from robustatlas.outcomes.identity import DataRecord, Identity, ModelRecord
from robustatlas.outcomes.outcome import Integers
from robustatlas.outcomes.records import AttackRecord
from robustatlas.outcomes.strengths import strength_position
from robustatlas.outcomes.table import OutcomeTable

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
    known = [(each.name, each.model) for each in subjects if each.model is not None and each.model.is_distinguishable]
    for (first, ours), (second, theirs) in combinations(known, 2):
        if not ours.differences(theirs):
            raise UserError(
                f"{first} and {second} hold the same trained model (the same weights and answers), which is one "
                "training; give each training once."
            )


def shared_points(
    ours: Mapping[str, Iterable[float]], theirs: Mapping[str, Iterable[float]], attacks: Iterable[str]
) -> dict[str, list[float]]:
    """Return the strengths of ours that are also among theirs, by attack; attacks without any are left out.

    >>> shared_points({"p": [1, 3], "q": [1]}, {"p": [1, 2], "r": [1]}, ["p", "q", "r"])
    {'p': [1.0]}
    """
    shared = {}
    for attack in attacks:
        known = [float(s) for s in theirs.get(attack, ())]
        kept = [float(s) for s in ours.get(attack, ()) if strength_position(s, known) is not None]
        if kept:
            shared[attack] = kept
    return shared


def common_points(grids: Iterable[Mapping[str, Iterable[float]]]) -> dict[str, list[float]]:
    """Return the strengths of the first grid that all grids have, by attack; attacks without any are left out.

    >>> common_points([{"p": [1, 3], "q": [1]}, {"p": [1, 2]}])
    {'p': [1.0]}
    """
    first, *others = grids
    ours = {attack: [float(strength) for strength in grid] for attack, grid in first.items()}
    return reduce(lambda one, other: shared_points(one, other, one), others, ours)


def different_points(
    ours: Mapping[str, Iterable[float]], theirs: Mapping[str, Iterable[float]], attacks: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Return the names of the points that a reference has and we do not, and of those that only we have.

    ``attacks``: the attacks to go over; one that only one side has is named alone, without its strengths.

    >>> different_points({"p": [1, 3], "q": [1]}, {"p": [1, 2], "r": [1]}, ["p", "q", "r"])
    (['p@2', 'r'], ['p@3', 'q'])
    """
    missing: list[str] = []
    extra: list[str] = []
    for attack in attacks:
        if attack not in ours:
            missing.append(attack)
        elif attack not in theirs:
            extra.append(attack)
        else:
            mine, wanted = list(ours[attack]), list(theirs[attack])
            missing += [
                f"{attack}@{format_strength(s, attack=attack)}" for s in wanted if strength_position(s, mine) is None
            ]
            extra += [
                f"{attack}@{format_strength(s, attack=attack)}" for s in mine if strength_position(s, wanted) is None
            ]
    return missing, extra


T = TypeVar("T", bound=OutcomeTable)


def common_strengths(tables: Sequence[OutcomeTable]) -> dict[str, list[float]]:
    """Return, for each attack, the strengths at which all models were evaluated; attacks without any are left out.

    Args:
        tables: of the models, at least one.

    Returns:
        attack -> strengths as people type them, in the order of harm.

    Raises:
        UserError: no table is given.

    Example:
        >>> a = OutcomeTable.from_sizes("a", [1], {"linf": [0.2], "l2": [1.0]}, {"linf": [0.1, 0.2], "l2": [1.0]})
        >>> b = OutcomeTable.from_sizes("b", [1], {"linf": [0.2]}, {"linf": [0.2, 0.3]})
        >>> common_strengths([a, b])
        {'linf': [0.2]}
    """
    _check_not_empty(tables)
    return common_points({attack: model.strengths(attack) for attack in model.attacks} for model in tables)


def _check_not_empty(tables: Sequence[OutcomeTable]) -> None:
    if not tables:
        raise UserError("No model is given; give the outcomes of at least one.")


def check_paired(first: OutcomeTable, second: OutcomeTable) -> None:
    """Raise where two models' outcomes are not of the same samples in the same order."""
    if not (np.array_equal(first.index, second.index) and np.array_equal(first.labels, second.labels)):
        raise UserError(
            f"{first.name} ({first.samples} samples) and {second.name} ({second.samples} samples) were not evaluated "
            "on the same samples in the same order; take the ones they share with shared_samples."
        )


def shared_samples(tables: Sequence[T]) -> list[T]:
    """Return the outcomes of several models on the samples that all of them were evaluated on, in the same order.

    Args:
        tables: of the models, at least one.

    Returns:
        a table for each model, in the order given.

    Raises:
        UserError: where they share no samples, or a shared sample has different labels.

    Example:
        >>> a = OutcomeTable.from_sizes("a", [1, 2, 3], {"linf": [0.1, 0.2, 0.3]}, {"linf": [0.1]})
        >>> b = a.select(np.array([2, 1]))
        >>> [model.index.tolist() for model in shared_samples([a, b])]
        [[1, 2], [1, 2]]
    """
    _check_not_empty(tables)
    common = shared_index([model.name for model in tables], [(model.index, model.labels) for model in tables])
    return [model.select(find_rows(model.index, common)) for model in tables]


def shared_index(names: Sequence[str], samples: Sequence[tuple[Integers, Integers]]) -> Integers:
    """Return the positions in the data set, increasing, of the samples that all models were evaluated on.

    Args:
        names: of the models, at least one.
        samples: of each model the positions of its samples ``[N]``, in any order, and their labels ``[N]``.

    Raises:
        UserError: the models share no samples, or a shared sample has different labels.

    >>> a, b = np.array([0, 1, 2]), np.array([2, 1])
    >>> shared_index(["a", "b"], [(a, a), (b, b)]).tolist()
    [1, 2]
    """
    common = np.sort(reduce(np.intersect1d, (index for index, _ in samples)))
    if common.size == 0:
        raise UserError(f"{list_names(names)} share no samples; evaluate the same samples.")
    labels = [labels[find_rows(index, common)] for index, labels in samples]
    for name, own in zip(names, labels, strict=True):
        if not np.array_equal(labels[0], own):
            raise UserError(
                f"{names[0]} and {name} have different labels at the same positions of the data set; they were "
                "evaluated on different data."
            )
    return np.asarray(common)


def find_rows(index: Integers, wanted: Integers) -> Integers:
    """Return the row in ``index`` of each ``wanted`` position of a data set; ``index`` has all of them.

    >>> find_rows(np.array([7, 3, 5]), np.array([3, 7])).tolist()
    [1, 0]
    """
    order = np.argsort(index)
    return np.asarray(order[np.searchsorted(index, wanted, sorter=order)])
