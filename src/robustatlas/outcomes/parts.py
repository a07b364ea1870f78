"""The parts of a run: read once, and believed where they are whole and say to be of what they lie with."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError, warn
from robustatlas.outcomes.base import parse
from robustatlas.outcomes.identity import Identity
from robustatlas.outcomes.outcome import Integers
from robustatlas.outcomes.records import AttackRecord, distinct_positions
from robustatlas.outcomes.storage import Storage, StoreError
from robustatlas.outcomes.tables import (
    OUTCOME_COLUMNS,
    OUTCOME_TABLE,
    SAMPLE_TABLE,
    Arrays,
    Columns,
    CorruptFileError,
    TableSchema,
)

AdversarialExamples = tuple[Integers, NDArray[np.float32]]

ATTACK, OF_RUN = "attack", "about"
"""Names, in a part's metadata, of the key of its attack and of the model and data that it is about."""


class Keyed(Protocol):
    """A record of a run: what its files are named by."""

    @property
    def key(self) -> str:
        """Their name."""


def part_metadata(identity: Identity, record: Keyed | None) -> dict[str, str]:
    """Return the metadata that a part of a run records; ``record``: its attack, None for clean samples."""
    said = {OF_RUN: identity.shortened().model_dump_json()}
    return said if record is None else {ATTACK: record.key, **said}


def placement_problem(said: Mapping[str, str], identity: Identity, record: Keyed | None, place: str) -> str | None:
    """Return a sentence if a part says that it is of another attack, model or data; None if it belongs there."""
    if OF_RUN not in said or (record is not None and ATTACK not in said):
        return f"{place} does not say which {'attack, ' if record is not None else ''}model and data it is of"
    if record is not None and said[ATTACK] != record.key:
        return f"{place} holds results of {said[ATTACK]}, not of {record.key}"
    differences = identity.shortened().differences(parse(Identity, said[OF_RUN], place))
    return f"{place} is of another run: {'; '.join(differences)}" if differences else None


def new_part_name(columns: Columns) -> str:
    """Return a name for a part that no other writer shares."""
    return f"{int(columns['index'][0]):09d}-{len(columns['index'])}-{uuid.uuid4().hex[:8]}"


class Parts:
    """The tables of a run on its ``storage``."""

    def __init__(self, storage: Storage, identity: Identity) -> None:
        self._storage, self._identity = storage, identity
        self._read: dict[str, Arrays | None] = {}
        self._done: dict[tuple[str, bool], tuple[set[str], Integers]] = {}
        self._placed: dict[str, bool] = {}

    def stored_samples(self, record: AttackRecord, *, examples: bool = False) -> Integers:
        """Return the samples that valid parts of an attack hold, increasing; ``examples``: with their images.

        Of parts that were not read before only the positions are read, in one query; see :meth:`can_read_records`.
        """
        names = set(self.names(record))
        if examples:
            kept = self.names(record, "adversarial")
            names &= {name.replace("adversarial/", "outcomes/", 1) for name in kept}
        known, index = self._done.get((record.key, examples), (set[str](), np.zeros(0, np.int64)))
        if not known <= names:
            known, index = set(), index[:0]
        if fresh := sorted(names - known):
            index = distinct_positions(np.concatenate([index, self.gather_columns(record, fresh, ("index",))["index"]]))
        self._done[record.key, examples] = names, index
        return index

    def can_read_records(self, records: Iterable[AttackRecord]) -> bool:
        """Read all parts of some attacks whole; False where one that counted as done is damaged. It then counts no
        more."""
        strengths = {name: len(record.strengths) for record in records for name in self.names(record)}
        return self.can_read(strengths, OUTCOME_TABLE)

    def can_read(self, strengths: Mapping[str, int], schema: TableSchema) -> bool:
        """Read those of some parts (name -> number of strengths) that were not read yet: whether none is damaged."""
        unread = [name for name in strengths if name not in self._read]
        damaged = [name for name in unread if self._checked(name, schema, strengths[name]) is None]
        return not damaged

    def forget(self, names: Iterable[str]) -> None:
        """Read some parts no more."""
        for name in names:
            self._read.pop(name, None)

    def gather_columns(self, record: AttackRecord, names: Sequence[str], wanted: Sequence[str]) -> Arrays:
        """Return some columns of an attack's valid parts together, in any order."""
        strengths = len(record.strengths)
        pieces = [columns for name in names if (columns := self._read.get(name)) is not None]
        unread = [name for name in names if name not in self._read]
        if unread:
            try:
                pieces.append(self._storage.gather(unread, wanted, strengths))
            except CorruptFileError:
                pieces += [
                    columns for name in unread if (columns := self._gather_part(name, record, wanted)) is not None
                ]
        kinds = {name: OUTCOME_COLUMNS[name] for name in wanted}
        none = {name: np.zeros(column.shape(0, strengths), column.kind) for name, column in kinds.items()}
        return {name: np.concatenate([piece[name] for piece in [none, *pieces]]) for name in wanted}

    def _gather_part(self, name: str, record: AttackRecord, wanted: Sequence[str]) -> Arrays | None:
        """Return some columns of a part; None, and a warning, where the file is damaged."""
        try:
            return self._storage.gather([name], wanted, len(record.strengths))
        except CorruptFileError:
            return self._checked(name, OUTCOME_TABLE, len(record.strengths))

    def columns(self, record: AttackRecord) -> Arrays:
        """Return all columns of an attack's valid parts together, in any order."""
        parts = [columns for columns in self.read_parts(record).values() if columns is not None]
        names = dict.fromkeys(name for part in parts for name in part)
        strengths = len(record.strengths)
        filled = []
        for part in parts:
            unknown = OUTCOME_TABLE.unknown_columns(len(part["index"]), strengths)
            unknown["possible_size"] = part["minimal_size"]  # without possible sizes, a part leaves no doubt
            filled.append(unknown | part)
        return {name: np.concatenate([part[name] for part in filled]) for name in names}

    def samples(self) -> Arrays:
        """Return all columns of the clean samples, in any order."""
        return self.join(self.select_own(self._storage.names("samples"), None), SAMPLE_TABLE)

    def join(self, names: Iterable[str], schema: TableSchema) -> Arrays:
        """Return the columns of the parts that are not damaged, one after the other."""
        parts = [columns for name in names if (columns := self._checked(name, schema, 0)) is not None]
        filled = [schema.unknown_columns(len(part["index"])) | part for part in parts]
        return {
            name: np.concatenate([np.zeros(0, column.kind), *[part[name] for part in filled]])
            for name, column in {**schema.required, **schema.optional}.items()
        }

    def read_parts(self, record: AttackRecord) -> dict[str, Arrays | None]:
        """Return the columns of each part of an attack; None where the file is damaged."""
        names = self.names(record)
        return {name: self._checked(name, OUTCOME_TABLE, len(record.strengths)) for name in names}

    def names(self, record: AttackRecord, folder: str = "outcomes") -> list[str]:
        """Return the names of the parts of an attack, without those that say to be of something else."""
        return self.select_own(self._storage.names(f"{folder}/{record.key}"), record)

    def select_own(self, names: Sequence[str], record: Keyed | None) -> list[str]:
        """Return the parts that are of this attack, model and data, and warn of each other one."""
        fresh = [name for name in names if name not in self._placed]
        for name, said in zip(fresh, self._read_metadata(fresh, record), strict=True):
            problem = placement_problem(said, self._identity, record, self._storage.place(name))
            if problem is not None:
                warn(f"A part in a wrong place counts as not done: {problem}.")
            self._placed[name] = problem is None
        return [name for name in names if self._placed[name]]

    def _read_metadata(self, names: Sequence[str], record: Keyed | None) -> list[Mapping[str, str]]:
        """Return what parts say of themselves. A damaged one is taken to belong here until it is read."""
        try:
            return list(self._storage.metadata(names))
        except CorruptFileError:
            return [self._read_part_metadata(name, record) for name in names]

    def _read_part_metadata(self, name: str, record: Keyed | None) -> Mapping[str, str]:
        try:
            return self._storage.metadata([name])[0]
        except CorruptFileError:
            return part_metadata(self._identity, record)

    def read_part(self, name: str, record: AttackRecord) -> Arrays:
        """Return the columns of a part."""
        columns = self._checked(name, OUTCOME_TABLE, len(record.strengths))
        if columns is None:
            raise CorruptFileError(f"{self._storage.place(name)} is damaged; run the same evaluation again.")
        return columns

    def _checked(self, name: str, schema: TableSchema, strengths: int) -> Arrays | None:
        """Return the columns of a part; None, and a warning once, where the file is damaged: it counts as not done."""
        if name not in self._read:
            try:
                self._read[name] = schema.check(self._storage.read(name), strengths, self._storage.place(name))
            except StoreError:
                raise
            except UserError as error:
                warn(f"A damaged part counts as not done: {error}")
                self._read[name] = None
                self._done.clear()
        return self._read[name]

    def write(
        self,
        record: AttackRecord,
        columns: Columns,
        samples: Columns,
        examples: AdversarialExamples | None,
        about: Mapping[str, str],
    ) -> None:
        """Publish one part, as :meth:`robustatlas.outcomes.Run.write` says."""
        part = new_part_name(columns)
        outcome = f"outcomes/{record.key}/{part}"
        checked = OUTCOME_TABLE.check(columns, len(record.strengths), outcome)
        self.write_samples(part, samples)
        if examples is not None:
            index, images = examples
            said = part_metadata(self._identity, record)
            self._storage.write(f"adversarial/{record.key}/{part}", {"index": index, "images": images}, said)
        self.publish(outcome, checked, record, about)

    def publish(self, name: str, columns: Arrays, record: Keyed, about: Mapping[str, str]) -> None:
        """Write a part of a record whose columns were checked."""
        self._write(name, columns, {**about, **part_metadata(self._identity, record)})

    def write_samples(self, part: str, samples: Columns) -> None:
        """Publish those clean outcomes that the run does not have yet."""
        fresh = ~np.isin(samples["index"], self.samples()["index"])
        if fresh.any():
            rows = {name: values[fresh] for name, values in samples.items()}
            checked = SAMPLE_TABLE.check(rows, 0, f"samples/{part}")
            self._write(f"samples/{part}", checked, part_metadata(self._identity, None))

    def _write(self, name: str, columns: Arrays, about: Mapping[str, str]) -> None:
        """Write a part, and remember what need not be read again."""
        self._storage.write(name, columns, about)
        self._read[name], self._placed[name] = columns, True
