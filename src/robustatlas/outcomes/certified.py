"""Certified sizes of a run: up to which size nothing can be found, per sample, by method; evidence that only grows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from robustatlas.common.errors import UserError, warn
from robustatlas.common.interrupts import delay_interrupts
from robustatlas.common.typed_strengths import format_size
from robustatlas.outcomes.base import Json, Record, Role, deciding_fields, digest, parse
from robustatlas.outcomes.outcome import Booleans, Floats, Integers, percent
from robustatlas.outcomes.parts import AdversarialExamples, Parts, new_part_name
from robustatlas.outcomes.records import AttackName, distinct_positions
from robustatlas.outcomes.storage import Storage
from robustatlas.outcomes.tables import CERTIFIED_COLUMNS, CERTIFIED_TABLE, Arrays, Columns, sample_rows


class CertificateRecord(Record):
    """The record of one method as it certified one attack's threat model.

    Attributes:
        settings: of the method, and the seed where it draws.
        threat: the threat model, with all its settings.
        box: whether inputs outside of [0, 1] are left out of the threat model.
        of: what is certified where that is not the model itself, such as a smoothed one; empty: the model. It is in
            words what the settings say.
        strengths: of the attack.

    Example:
        >>> CertificateRecord(name="linf", method="crown", strengths=(0.1,)).row
        'linf'
    """

    survivor_word: ClassVar[str] = "certified"

    name: Annotated[AttackName, Role.DECIDES]
    method: Annotated[str, Role.DECIDES]
    version: Annotated[int, Role.DECIDES] = 1
    settings: Annotated[Json, Role.DECIDES] = Field(default_factory=dict)
    threat: Annotated[Json, Role.DECIDES] = Field(default_factory=dict)
    box: Annotated[bool, Role.DECIDES] = True
    of: Annotated[str, Role.DESCRIBES] = ""
    strengths: Annotated[tuple[float, ...], Role.DESCRIBES] = ()
    unit: Annotated[str, Role.DESCRIBES] = ""
    source: Annotated[str, Role.DESCRIBES] = ""

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits; equal for equal numbers."""
        with delay_interrupts():
            return digest(self.model_dump(mode="json", include=_DECIDING))

    @property
    def key(self) -> str:
        """Name of its files: ``linf-crown-0123456789ab``."""
        return f"{self.name}-{self.method}-{self.fingerprint}"

    def description(self) -> dict[str, Any]:
        """Return the fields for readers: attack, method, version, settings, threat model, box and source."""
        return self.model_dump(mode="json", exclude={"strengths"}) | {"key": self.key}

    def withstands(self, columns: Arrays, place: int) -> Booleans:
        """Return which samples ``[M]``, of whom ``columns`` were found, certainly withstand the strength at a place."""
        return np.asarray(columns["certified_size"] > self.strengths[place])

    @property
    def row(self) -> str:
        """Name of its row in tables: the attack, followed by the certified model if that is not the run's own."""
        return f"{self.name} ({self.of})" if self.of else self.name


_DECIDING = deciding_fields(CertificateRecord)


@dataclass(frozen=True, eq=False)
class CertifiedSizes:
    """Certified sizes of N samples under one attack.

    Attributes:
        sizes: ``[N]``: no example is smaller; inf: there is none, 0: nothing is certain, or misclassified clean.
        methods: by which methods, each once.
        of: what is certified where that is not the model itself; empty: the model.
        strengths: of the attack, at which tables show it.
        method_index: ``[N]``, position in ``methods`` of the one that certified most; None: it is the only one.
        records: the methods as they were run, with version, settings, threat model and box.
        abstained: ``[N]``, where nothing is certain, and no example was found that says why: a method could not
            decide; None: that is not known.

    Example:
        >>> CertifiedSizes("linf", np.array([0.1, 0.0]), strengths=(0.05, 0.2)).accuracies().tolist()
        [50.0, 0.0]
    """

    attack: str
    sizes: Floats
    methods: tuple[str, ...] = ()
    of: str = ""
    unit: str = ""
    strengths: tuple[float, ...] = ()
    method_index: Integers | None = None
    records: tuple[CertificateRecord, ...] = ()
    abstained: NDArray[np.bool_] | None = None

    def select(self, positions: Integers) -> CertifiedSizes:
        """Return the sizes of the samples at some positions."""
        method_index = None if self.method_index is None else self.method_index[positions]
        abstained = None if self.abstained is None else self.abstained[positions]
        return replace(self, sizes=self.sizes[positions], method_index=method_index, abstained=abstained)

    @property
    def median_size(self) -> float:
        """The size up to which at least half of the samples are certified."""
        return float(np.sort(self.sizes)[(len(self.sizes) - 1) // 2])

    @property
    def leading_methods(self) -> list[str]:
        """Method that certified the largest size of each sample; empty where nothing is certified."""
        index = np.zeros(len(self.sizes), np.int64) if self.method_index is None else self.method_index
        rows = zip(index.tolist(), self.sizes.tolist(), strict=True)
        return [self.methods[k] if self.methods and size > 0 else "" for k, size in rows]

    def accuracies(self, strengths: Sequence[float] | Floats | None = None) -> Floats:
        """Return the certified accuracy, the least robust one, in percent at each strength (default: the attack's)."""
        at = np.asarray(self.strengths if strengths is None else strengths, np.float64)
        return percent((self.sizes[:, None] > at).sum(axis=0), len(self.sizes))


class CrossedError(UserError):
    """An example within a certified size: one of the two is wrong."""


class Certificates:
    """The certificates of a run: written and read like its outcomes, part by part."""

    def __init__(self, storage: Storage, parts: Parts, path: Path | None) -> None:
        self._storage, self._parts, self.path = storage, parts, path

    def records(self) -> list[CertificateRecord]:
        """Return the methods that certified something, on which attacks; warn of records that are damaged."""
        found = []
        for place, text in self._storage.texts("certificates").items():
            try:
                found.append(parse(CertificateRecord, text, place))
            except UserError as error:
                warn(f"A damaged certificate counts as not done: {error}")
        return found

    def add(self, record: CertificateRecord) -> None:
        """Announce a method on an attack."""
        self._storage.create_text(f"certificates/{record.key}", record.to_json())

    def withdraw(self, record: CertificateRecord) -> None:
        """Delete what a method has certified, as it was found wrong."""
        self._parts.forget(self._names(record))
        self._storage.delete(f"certified/{record.key}")
        self._storage.delete(f"certificates/{record.key}")

    def stored_samples(self, record: CertificateRecord, *, examples: bool = False) -> Integers:
        """Return the positions of the samples that a record covers, increasing."""
        return distinct_positions(self._columns(record)["index"])

    def can_read_records(self, records: Iterable[CertificateRecord]) -> bool:
        """Read all parts of some records; False where one that counted as done is damaged. It then counts no more."""
        names = [name for record in records for name in self._names(record)]
        return self._parts.can_read(dict.fromkeys(names, 0), CERTIFIED_TABLE)

    def columns(self, record: CertificateRecord, index: Integers, wanted: Sequence[str] = ()) -> Arrays:
        """Return the columns of a record at the samples ``index``."""
        return sample_rows(self._columns(record), index)

    def write(
        self,
        record: CertificateRecord,
        columns: Columns,
        samples: Columns,
        examples: AdversarialExamples | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Publish one part: certified sizes of some samples, and these samples' clean outcomes."""
        part = new_part_name(columns)
        name = f"certified/{record.key}/{part}"
        given = {column: columns[column] for column in CERTIFIED_COLUMNS if column in columns}
        checked = CERTIFIED_TABLE.check(given, 0, name)
        self._parts.write_samples(part, samples)
        self._parts.publish(name, checked, record, about or {})

    def sizes(self, records: Iterable[CertificateRecord], index: Integers) -> dict[str, CertifiedSizes]:
        """Return row -> sizes that the records certify together of the samples ``index``: the larger size counts."""
        by_row: dict[str, list[tuple[CertificateRecord, Arrays]]] = {}
        for record in records:
            stored = self._columns(record)
            covered = np.isin(index, stored["index"])
            if covered.any():
                rows = sample_rows(stored, index[covered])
                columns: Arrays = {name: np.zeros(len(index), values.dtype) for name, values in rows.items()}
                for name, values in columns.items():
                    values[covered] = rows[name]
                by_row.setdefault(record.row, []).append((record, columns))
        return {row: _joint_sizes(certified) for row, certified in by_row.items()}

    def _names(self, record: CertificateRecord) -> list[str]:
        return self._parts.select_own(self._storage.names(f"certified/{record.key}"), record)

    def _columns(self, record: CertificateRecord) -> Arrays:
        return self._parts.join(self._names(record), CERTIFIED_TABLE)


def _joint_sizes(certified: Sequence[tuple[CertificateRecord, Arrays]]) -> CertifiedSizes:
    """Return the largest size that any method certifies of each sample, and the first method that certifies it."""
    records, tables = zip(*certified, strict=True)
    sizes = np.stack([columns["certified_size"] for columns in tables])
    abstained = np.stack([columns["abstained"] for columns in tables]).any(0) & (sizes.max(0) == 0)
    methods = tuple(dict.fromkeys(record.method for record in records))
    positions = np.array([methods.index(record.method) for record in records])
    return CertifiedSizes(
        attack=records[0].name,
        sizes=sizes.max(0),
        methods=methods,
        of=records[0].of,
        unit=records[0].unit,
        strengths=max((record.strengths for record in records), key=len),
        method_index=positions[sizes.argmax(0)],
        records=tuple(records),
        abstained=abstained,
    )


def check_sides(name: str, attack: str, index: Integers, certified: CertifiedSizes, found: Floats) -> None:
    """Raise :class:`CrossedError` where an example is smaller than a size that is certified: the first such sample,
    with both sides. ``index`` [N]: positions in the data set. ``found`` [N]: sizes of the smallest examples."""
    crossed = np.flatnonzero(certified.sizes > found)
    if not len(crossed):
        return
    row = int(crossed[0])
    example, least = (format_size(float(sizes[row]), attack=attack) for sizes in (found, certified.sizes))
    more = f" ({len(crossed)} samples cross)" if len(crossed) > 1 else ""
    raise CrossedError(
        f"{name}: of sample {index[row]} an example under {attack!r} has the size {example}, and "
        f"{', '.join(certified.methods)} certifies that none is below {least}{more}. "
        "One of the two is wrong, so none of these numbers can be trusted: please report it, with the model."
    )
