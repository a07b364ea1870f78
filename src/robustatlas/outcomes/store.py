"""Runs: where outcomes are kept, on disk or in memory. A run only grows, by whole files; the one exception are
certificates that were found wrong, which are taken out.

A run on disk is a directory::

    run.json                                      what it is about (Identity)
    attacks/NAME-FINGERPRINT.json                 one attack as it was run (AttackRecord)
    plans/HASH.json                               what one call asked for (CallRecord)
    cards/HASH.json                               what the owner says of the model (CardRecord)
    audit/                                        a run of its own: what a dear search of some samples found
    diagnoses/HASH.json                           what indicators read of the model (DiagnosisRecord)
    outcomes/NAME-FINGERPRINT/FIRST-COUNT-ID.parquet      one part: see OUTCOME_COLUMNS
    samples/FIRST-COUNT-ID.parquet                labels and clean predictions: see SAMPLE_COLUMNS
    adversarial/NAME-FINGERPRINT/FIRST-COUNT-ID.npz       index, images (only where adversarial examples are kept)
    certificates/NAME-METHOD-FINGERPRINT.json     one method as it certified one attack (CertificateRecord)
    certified/NAME-METHOD-FINGERPRINT/...         one part: see CERTIFIED_COLUMNS
    locks/I-of-N.lock                             empty; held by the command that works on this part

Samples are done when a valid part holds them, and missing when a plan names them and no part does. Every part has a
name of its own and is written whole or not at all. A process that is killed loses one part at most, and runs are
merged by adding files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.escaping import json_value
from robustatlas.common.files import check_inside, parse_path
from robustatlas.outcomes.base import parse
from robustatlas.outcomes.certified import CertificateRecord, Certificates, CertifiedSizes, check_sides
from robustatlas.outcomes.identity import Identity, check_format, current_time, machine_metadata
from robustatlas.outcomes.joined import (
    equivalent_records,
    finished_samples,
    intersection,
    joint_outcome,
    searched_grid,
    smallest_examples,
)
from robustatlas.outcomes.outcome import Integers, Outcome
from robustatlas.outcomes.parts import ATTACK, OF_RUN, AdversarialExamples, Parts
from robustatlas.outcomes.records import AttackRecord, CallRecord, CardRecord, DiagnosisRecord, check_joins
from robustatlas.outcomes.storage import Storage, is_run
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.outcomes.tables import OUTCOME_COLUMNS, Arrays, Columns, sample_rows


class Run:
    """One run, as :func:`robustatlas.evaluate` fills it. Use :meth:`begin` or :meth:`open`.

    Args:
        identity: what the run is about.
        storage: its files; None: in memory.

    Example:
        >>> from robustatlas.outcomes import DataRecord, ModelRecord
        >>> Run.begin(None, Identity(model=ModelRecord(name="mine"), data=DataRecord(name="digits"))).path is None
        True
    """

    def __init__(self, identity: Identity, storage: Storage | None = None) -> None:
        self.identity = identity
        self._audit: Run | None = None
        self._storage = Storage(None) if storage is None else storage
        self.path = self._storage.root
        self._parts = Parts(self._storage, identity)
        self.certificates = Certificates(self._storage, self._parts, self.path)

    @classmethod
    def begin(cls, path: str | Path | None, identity: Identity) -> Run:
        """Begin a run in ``path`` (None: in memory), or open the one that is there, about the same model and data.

        Raises:
            UserError: another model or other data (what differs is named), a run of another format, a folder that is
                no run or cannot be written.
        """
        if path is None:
            return cls(identity)
        storage = _open_storage(path)
        run = cls._from_storage(storage, storage.begin(identity.to_json()))
        run._check_identity(identity)
        return run

    @classmethod
    def open_existing(cls, path: str | Path | None, identity: Identity) -> Run | None:
        """Open the run in ``path``; None where there is none. Nothing is written.

        Raises:
            UserError: as :meth:`begin`.
        """
        if path is None:
            return None
        storage = _open_storage(path)
        if (about := storage.identity()) is None:
            return None
        run = cls._from_storage(storage, about)
        run._check_identity(identity)
        return run

    def _check_identity(self, identity: Identity) -> None:
        if found := self.identity.differences(identity):
            self.refuse(*found)

    def refuse(self, *reasons: str) -> NoReturn:
        """Say that what is given is not what the run is about, for these ``reasons``.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"{self.path or 'The run'} holds results of another evaluation: {'; '.join(reasons)}. Give another folder "
            "for a new run (--run DIR, in Python run=), or the model and data that this one is about."
        )

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """Open the run in ``path``.

        Raises:
            UserError: no run is there, or a newer version of the package wrote it.
        """
        storage = _open_storage(path)
        if (about := storage.identity()) is None:
            raise UserError(
                f"{storage.root} is not a run: it has no run.json; give the folder that 'evaluate --run' wrote."
            )
        return cls._from_storage(storage, about)

    @classmethod
    def _from_storage(cls, storage: Storage, about: str) -> Run:
        file = f"{storage.root}/run.json"
        check_format(about, file)
        return cls(parse(Identity, about, file), storage)

    def records(self) -> dict[str, AttackRecord]:
        """Return the attacks that were run, by their keys, in the order of the plans."""
        found = {record.key: record for record in self._records("attacks", AttackRecord)}
        order = [key for plan in self.plans() for key in plan.attacks if key in found]
        return {key: found[key] for key in dict.fromkeys([*order, *found])}

    def plans(self) -> list[CallRecord]:
        """Return the requests of all calls of ``evaluate``, oldest first."""
        return sorted(self._records("plans", CallRecord), key=lambda plan: plan.created)

    def add(self, records: Iterable[AttackRecord], plan: CallRecord) -> None:
        """Announce attacks and what is asked of them.

        Raises:
            UserError: the run has an attack of that name with another threat model.
        """
        known = self.records().values()
        for record in records:
            check_joins(record, known, str(self.path or "The run"))
            self._storage.create_text(f"attacks/{record.key}", record.to_json())
        self._storage.create_text(f"plans/{plan.name}", plan.to_json())

    def describe(self, about: Mapping[str, Any]) -> None:
        """Keep what the owner says of the model; of two sayings on the same subject the later one holds.

        Raises:
            UserError: something that JSON cannot hold.
        """
        if about:
            self.keep_card(
                CardRecord(
                    created=current_time("microseconds"), about=json_value(about, "the description of the model")
                )
            )

    def keep_card(self, card: CardRecord) -> None:
        """Keep a card as it is."""
        self._storage.create_text(f"cards/{card.name}", card.to_json())

    def cards(self) -> list[CardRecord]:
        """Return the descriptions of the model, oldest first."""
        return sorted(self._records("cards", CardRecord), key=lambda card: card.created)

    @property
    def audit(self) -> Run | None:
        """Results of an audit, stored apart from those of the run; None: there was none."""
        if self._audit is None and self.path is not None:
            place = check_inside(self.path, self.path / "audit")
            self._audit = Run.open(place) if is_run(place) else None
        return self._audit

    def begin_audit(self) -> Run:
        """Return the run of an audit, begun where there is none."""
        if self.audit is None:
            self._audit = Run.begin(None if self.path is None else self.path / "audit", self.identity)
        assert self._audit is not None
        return self._audit

    def keep_diagnosis(self, record: DiagnosisRecord) -> DiagnosisRecord:
        """Keep a diagnosis unless another command was first, and return the one that is kept."""
        file = f"diagnoses/{record.name}"
        return parse(DiagnosisRecord, self._storage.create_text(file, record.to_json()), file)

    def diagnoses(self) -> list[DiagnosisRecord]:
        """Return the diagnoses, oldest first."""
        return sorted(self._records("diagnoses", DiagnosisRecord), key=lambda record: record.created)

    def stored_samples(self, record: AttackRecord, *, examples: bool = False) -> Integers:
        """Return the samples that valid parts of an attack hold, increasing; ``examples``: with their images.

        Of parts that were not read before only the positions are read, in one query; see :meth:`can_read_records`.
        """
        return self._parts.stored_samples(record, examples=examples)

    def can_read_records(self, records: Iterable[AttackRecord]) -> bool:
        """Read all parts of some attacks completely; False if a finished one is damaged. It then counts no more."""
        return self._parts.can_read_records(records)

    def write(
        self,
        record: AttackRecord,
        columns: Columns,
        samples: Columns,
        examples: AdversarialExamples | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Publish one part: outcomes of some samples under an attack, and these samples' clean outcomes.

        ``examples``: positions in the data set ``[M]`` and inputs ``[M, ...]``; ``about``: who computed it, and with
        what.

        Raises:
            UserError: columns that lack something or do not fit together; files that cannot be written.
        """
        self._parts.write(record, columns, samples, examples, about or {})

    def copy_parts(self, other: Run) -> None:
        """Copy the parts of another run of the same model and data, all but those that are here."""
        keys = list(other.records())
        certified = [record.key for record in other.certificate_records()]
        folders = ["samples", *(f"adversarial/{key}" for key in keys), *(f"outcomes/{key}" for key in keys)]
        for folder in [*folders, *(f"certified/{key}" for key in certified)]:
            self._storage.copy_tables(other._storage, folder)

    def columns(self, record: AttackRecord, index: Integers, wanted: Sequence[str] = tuple(OUTCOME_COLUMNS)) -> Arrays:
        """Return the ``wanted`` columns of :data:`OUTCOME_COLUMNS` of one search at samples ``index``, as written."""
        names = self._parts.names(record)
        return sample_rows(self._parts.gather_columns(record, names, tuple(dict.fromkeys(["index", *wanted]))), index)

    def table(
        self,
        attacks: Sequence[str] | None = None,
        index: Integers | None = None,
        strengths: Mapping[str, Sequence[float]] | None = None,
        *,
        searched: bool = False,
    ) -> OutcomeTable:
        """Return the outcomes of some attacks on some samples at some strengths.

        Args:
            attacks: their names; default: all that have outcomes.
            index: positions of the samples; default: all that every one of these attacks has finished, increasing.
            strengths: attack -> distances; default: all of the run.
            searched: only what the run's own searches found, without the examples that were handed over.

        Raises:
            UserError: an attack or a sample is not in the run, or nothing is finished yet.
        """
        known = self._records_by_name()
        chosen = known if attacks is None else attacks
        # Damaged parts must be known as such before it is asked which samples are finished.
        self._parts.can_read_records(record for name in chosen for record in known.get(name, []))
        unknown = [name for name in attacks or () if name not in known]
        if unknown:
            raise UserError(f"Attack {unknown[0]!r} is not part of this run; it has {', '.join(known) or 'none'}.")
        wanted = {name: searched_grid(known[name], (strengths or {}).get(name)) for name in chosen}
        searched_at = {name: finished_samples(self._parts, known[name], grid) for name, grid in wanted.items()}
        begun = [name for name in searched_at if attacks is not None or len(searched_at[name])]
        common = intersection([searched_at[name] for name in begun]) if begun else self._uncontested(index)
        if index is None:
            index = common
        elif missing := len(np.setdiff1d(index, common)):
            raise UserError(
                f"{self.path or 'The run'} lacks {missing} of the samples asked for; run its evaluation on."
            )
        if not len(index):
            place = f"The run in {self.path}" if self.path else "The run"
            asked = f" of {', '.join(attacks)}" if attacks else ""
            raise UserError(f"{place} has no finished samples{asked} yet; run its evaluation on.")
        samples = sample_rows(self._parts.samples(), index)
        outcomes = {}
        for name in begun:
            records = [record for record in known[name] if not searched or record.examples_source is None]
            outcomes[name] = joint_outcome(self._parts, records, index).restrict(wanted[name])
        return OutcomeTable(
            name=self.identity.model.name,
            data=self.identity.data.name,
            index=index,
            labels=samples["label"],
            clean_prediction=samples["clean_prediction"],
            clean_margin=samples["clean_margin"],
            clean_rejected=samples["clean_rejected"] == 1 if (samples["clean_rejected"] >= 0).all() else None,
            outcomes=outcomes,
            certified_sizes=self._certified(index, outcomes),
        )

    def certificate_records(self) -> list[CertificateRecord]:
        """Return the methods that certified something, on which attacks; warn of records that are damaged."""
        return self.certificates.records()

    def _certified(self, index: Integers, outcomes: Mapping[str, Outcome]) -> dict[str, CertifiedSizes]:
        """Return the certified sizes of some samples after checking them against the examples found."""
        certified = self.certificates.sizes(self.certificate_records(), index)
        for name, outcome in outcomes.items():
            if name in certified:
                check_sides(str(self.path or "The run"), name, index, certified[name], outcome.minimal_size)
        return certified

    def _uncontested(self, index: Integers | None) -> Integers:
        """Return the known samples of a run without outcomes; by default those that all its certificates cover."""
        if index is not None:
            return np.sort(self._parts.samples()["index"])
        return intersection(
            [done for record in self.certificate_records() if len(done := self.certificates.stored_samples(record))]
        )

    def finished_samples(self, attack: str, strengths: Sequence[float] | None = None) -> Integers:
        """Return the samples that were searched at every one of the strengths (default: all) of an attack."""
        records = self._records_by_name().get(attack)
        if not records:
            return np.zeros(0, np.int64)
        return finished_samples(self._parts, records, searched_grid(records, strengths))

    def missing_counts(self) -> dict[str, int]:
        """Return attack -> number of samples that a plan asks for and no part holds; empty when the run is complete."""
        plans, counts = self.plans(), {}
        for name, records in self._records_by_name().items():
            lacking = [
                np.setdiff1d(
                    plan.index(),
                    np.concatenate([self.stored_samples(alike) for alike in equivalent_records(record, records)]),
                )
                for record in records
                for plan in plans
                if record.key in plan.attacks and record.examples_source is None
            ]
            if count := len(np.unique(np.concatenate([[], *lacking]))):
                counts[name] = count
        return counts

    def clean(self, index: Integers) -> Arrays:
        """Return SAMPLE_COLUMNS of the clean samples among ``index`` that the run has, in any order."""
        known = self._parts.samples()
        rows = np.isin(known["index"], index)
        return {name: values[rows] for name, values in known.items()}

    def adversarial(self, attack: str, index: Integers) -> AdversarialExamples:
        """Return the smallest examples that were kept of some samples: positions ``[M]`` and inputs ``[M, ...]``.

        Raises:
            UserError: the run kept no examples.
        """
        return smallest_examples(self._parts, self._storage, self._records_by_name().get(attack, []), index)

    def samples_with_examples(self, attack: str) -> Integers:
        """Return the samples of an attack whose examples were kept, increasing; only positions are read."""
        held = [self.stored_samples(record, examples=True) for record in self._records_by_name().get(attack, [])]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *held]))

    def circumstances(self) -> list[dict[str, str]]:
        """Return the machines and versions that computed the parts, each pair once; other metadata are counted."""
        found: dict[str, dict[str, str]] = {}
        for record in self.records().values():
            for said in self._storage.metadata(self._parts.names(record)):
                about = machine_metadata(said, aside=("created", ATTACK, OF_RUN))
                found.setdefault(repr(sorted(about.items())), about)
        return list(found.values())

    def _records(self, folder: str, kind: type[Any]) -> list[Any]:
        return [parse(kind, text, place) for place, text in self._storage.texts(folder).items()]

    def _records_by_name(self) -> dict[str, list[AttackRecord]]:
        grouped: dict[str, list[AttackRecord]] = {}
        for record in self.records().values():
            grouped.setdefault(record.name, []).append(record)
        return grouped


def _open_storage(path: str | Path) -> Storage:
    return Storage(parse_path(path, "the folder of a run"))
