"""Runs: where outcomes are kept, on disk or in memory. A run only grows, by whole files.

A run on disk is a directory::

    run.json                                      what it is about (Identity)
    attacks/NAME-FINGERPRINT.json                 one attack as it was run (AttackRecord)
    plans/HASH.json                               what one call asked for (CallRecord)
    cards/HASH.json                               what the owner says of the model (CardRecord)
    outcomes/NAME-FINGERPRINT/FIRST-COUNT-ID.parquet      one part: see OUTCOME_COLUMNS
    samples/FIRST-COUNT-ID.parquet                labels and clean predictions: see SAMPLE_COLUMNS
    adversarial/NAME-FINGERPRINT/FIRST-COUNT-ID.npz       index, images (only where adversarial examples are kept)
    claims/NAME-FINGERPRINT.lock                  empty; locks on it say who is at which samples (Claims)

What is done are the samples found in valid parts; what is missing is what the plans name and no part holds. Every
part has a name that no other writer shares and is written whole or not at all, so whoever dies loses one part, and
merging runs is adding files.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from robustatlas.errors import UserError, warn
from robustatlas.files import is_temporary, named, one_sentence, publish_once, remove_stale_temporaries
from robustatlas.outcomes.claims import Claims
from robustatlas.outcomes.columns import (
    OUTCOME_COLUMNS,
    REJECTING_COLUMNS,
    SAMPLE_COLUMNS,
    Arrays,
    check_columns,
    columns_of,
    rows_at,
    stacked,
    unknown_columns,
)
from robustatlas.outcomes.differences import differences
from robustatlas.outcomes.outcome import Integers, Outcome, merged_strengths, smallest_of
from robustatlas.outcomes.parts import ATTACK, OF_RUN, anonymous, misplaced, said_of
from robustatlas.outcomes.records import (
    FORMAT_VERSION,
    AttackRecord,
    CallRecord,
    CardRecord,
    Identity,
    distinct,
    format_of,
    now,
    parse,
)
from robustatlas.outcomes.shelf import Directory, Memory, Shelf, text_of
from robustatlas.outcomes.strengths import position_of
from robustatlas.outcomes.table import OutcomeTable
from robustatlas.outcomes.tables import Columns, CorruptFileError
from robustatlas.wording import in_shell

AdversarialExamples = tuple[Integers, NDArray[np.float32]]


class Run:
    """One run, as :func:`robustatlas.evaluate` fills it. Use :meth:`begin` or :meth:`open`.

    Args:
        identity: what the run is about.
        path: its folder; None: in memory.

    Example:
        >>> from robustatlas.outcomes import DataRecord, ModelRecord
        >>> Run.begin(None, Identity(model=ModelRecord(name="mine"), data=DataRecord(name="digits"))).path is None
        True
    """

    def __init__(self, identity: Identity, path: Path | None = None) -> None:
        self.identity = identity
        self.path = path
        self._shelf: Shelf = Memory() if path is None else Directory(path)
        self._parts: dict[str, Arrays | None] = {}
        self._done: dict[tuple[str, bool], tuple[set[str], Integers]] = {}
        self._placed: dict[str, bool] = {}
        self._told_of_anonymous = False

    @classmethod
    def begin(cls, path: str | Path | None, identity: Identity) -> Run:
        """A new run in ``path`` (None: in memory), or the one that is there if it is about the same model and data.

        Raises:
            UserError: another model or other data (what differs is named), a run of another format, a folder that is
                no run or cannot be written.
        """
        if path is None:
            return cls(identity)
        root = named(path, "the folder of a run")
        file = root / "run.json"
        with one_sentence(root):
            root.mkdir(parents=True, exist_ok=True)
            occupied = any(not is_temporary(entry) for entry in root.iterdir())
        if occupied and not file.exists():
            raise UserError(f"{root} is not empty and is not a run (no run.json); give a new or an empty folder.")
        publish_once(file, identity.to_json())
        run = cls.open(root)
        run._check_about(identity)
        remove_stale_temporaries(root)
        return run

    @classmethod
    def begun(cls, path: str | Path | None, identity: Identity) -> Run | None:
        """The run in ``path``, None where there is none; nothing is written.

        Raises:
            UserError: as :meth:`begin`.
        """
        if path is None or not (named(path, "the folder of a run") / "run.json").exists():
            return None
        run = cls.open(path)
        run._check_about(identity)
        return run

    def _check_about(self, identity: Identity) -> None:
        if found := self.identity.differences(identity):
            self.refuse(*found)

    def refuse(self, *reasons: str) -> NoReturn:
        """Say that what is given is not what the run is about, for these ``reasons``.

        Raises:
            UserError: always.
        """
        raise UserError(
            f"{self.path or 'The run'} holds results of another evaluation: {'; '.join(reasons)}. Give another folder "
            "for a new run, or the model and data that this one is about."
        )

    @classmethod
    def open(cls, path: str | Path) -> Run:
        """The run in ``path``.

        Raises:
            UserError: no run there, or one of an older format.
        """
        root = named(path, "the folder of a run")
        file = root / "run.json"
        if not file.is_file():
            raise UserError(f"{root} is not a run: it has no run.json; give the folder that 'evaluate --run' wrote.")
        text = text_of(file)
        if (version := format_of(text, str(file))) < FORMAT_VERSION:
            raise UserError(
                f"{root} is a run of format {version}, and this robustatlas writes format {FORMAT_VERSION}; "
                f"'robustatlas merge {in_shell(root)} -o NEW' converts it."
            )
        return cls(parse(Identity, text, str(file)), root)

    def records(self) -> dict[str, AttackRecord]:
        """The attacks that were run, by their keys, in the order of the plans."""
        found = {record.key: record for record in self._records("attacks", AttackRecord)}
        order = [key for plan in self.plans() for key in plan.attacks if key in found]
        return {key: found[key] for key in dict.fromkeys([*order, *found])}

    def plans(self) -> list[CallRecord]:
        """What was asked of the run, oldest first."""
        return sorted(self._records("plans", CallRecord), key=lambda plan: plan.created)

    def add(self, records: Iterable[AttackRecord], plan: CallRecord) -> None:
        """Announce attacks and what is asked of them.

        Raises:
            UserError: the run has an attack of that name on other sets.
        """
        known = self.records().values()
        for record in records:
            for other in known:
                if other.name == record.name and not other.same_set(record):
                    parts = {"monotone", "threat"}
                    old, new = (each.model_dump(mode="json", include=parts) for each in (other, record))
                    how = ", ".join(differences(old, new, "in the run"))
                    raise UserError(
                        f"{self.path or 'The run'} holds {record.name!r} with other sets or another way of judging "
                        f"({how}), whose numbers cannot be joined with these; give another folder."
                    )
            self._shelf.put_text(f"attacks/{record.key}", record.to_json())
        self._shelf.put_text(f"plans/{plan.name}", plan.to_json())

    def describe(self, about: Mapping[str, Any]) -> None:
        """Keep what the owner says of the model; of two sayings on the same subject the later one holds."""
        if about:
            self.keep(CardRecord(created=now("microseconds"), about=dict(about)))

    def keep(self, card: CardRecord) -> None:
        """Keep a card as it is."""
        self._shelf.put_text(f"cards/{card.name}", card.to_json())

    def cards(self) -> list[CardRecord]:
        """What was said of the model, oldest first."""
        return sorted(self._records("cards", CardRecord), key=lambda card: card.created)

    def done(self, record: AttackRecord, *, examples: bool = False) -> Integers:
        """Positions of the samples that valid parts of an attack hold, increasing; ``examples``: with their images.

        Of parts that were not read before only the positions are looked at, of all by one query; see :meth:`intact`.
        """
        names = set(self._parts_of(record))
        if examples:
            kept = self._parts_of(record, "adversarial")
            names &= {name.replace("adversarial/", "outcomes/", 1) for name in kept}
        known, index = self._done.get((record.key, examples), (set[str](), np.zeros(0, np.int64)))
        if not known <= names:
            known, index = set(), index[:0]
        if fresh := sorted(names - known):
            index = distinct(np.concatenate([index, self._gathered(record, fresh, ("index",))["index"]]))
        self._done[record.key, examples] = names, index
        return index

    def intact(self, records: Iterable[AttackRecord]) -> bool:
        """Read all parts of some attacks whole: whether none is damaged that counted as done so far. Those that are do
        not count any more."""
        unread = [
            (name, len(record.strengths))
            for record in records
            for name in self._parts_of(record)
            if name not in self._parts
        ]
        read = [self._checked(name, OUTCOME_COLUMNS, strengths) for name, strengths in unread]
        return all(columns is not None for columns in read)

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
        part = f"{int(columns['index'][0]):09d}-{len(columns['index'])}-{uuid.uuid4().hex[:8]}"
        outcome = f"outcomes/{record.key}/{part}"
        checked = check_columns(columns, columns_of(OUTCOME_COLUMNS, columns), len(record.strengths), outcome)
        fresh = ~np.isin(samples["index"], self._sample_columns()["index"])
        if fresh.any():
            rows = {name: values[fresh] for name, values in samples.items()}
            self._shelf.write(
                f"samples/{part}",
                check_columns(rows, columns_of(SAMPLE_COLUMNS, rows), 0, f"samples/{part}"),
                said_of(self.identity, None),
            )
        said = said_of(self.identity, record)
        if examples is not None:
            index, images = examples
            self._shelf.write(f"adversarial/{record.key}/{part}", {"index": index, "images": images}, said)
        self._shelf.write(outcome, checked, {**(about or {}), **said})
        self._parts[outcome] = checked

    def claims(self) -> Claims:
        """For those who work on the run at the same time, here or elsewhere: who is at which samples."""
        return Claims(self.path / "claims" if self.path is not None else None)

    def columns(self, record: AttackRecord, index: Integers, wanted: Sequence[str] = tuple(OUTCOME_COLUMNS)) -> Arrays:
        """What one search found, as it was written: the ``wanted`` of :data:`OUTCOME_COLUMNS` at the samples
        ``index``."""
        names = self._parts_of(record)
        return rows_at(self._gathered(record, names, tuple(dict.fromkeys(["index", *wanted]))), index)

    def table(
        self,
        attacks: Sequence[str] | None = None,
        index: Integers | None = None,
        strengths: Mapping[str, Sequence[float]] | None = None,
        *,
        searched: bool = False,
    ) -> OutcomeTable:
        """The outcomes of the attacks of those names (default: all that have any) on the samples ``index`` (default:
        all that every one of these attacks has finished, increasing), at ``strengths`` (default: all of the run).

        ``searched``: only what the run's own searches found, without the examples that were handed over.

        Raises:
            UserError: nothing there, or an attack or sample that is not.
        """
        known = self._by_name()
        for record in (record for name in attacks or known for record in known.get(name, [])):
            self._valid_parts(record)
        unknown = [name for name in attacks or () if name not in known]
        if unknown:
            raise UserError(f"Attack {unknown[0]!r} is not part of this run; it has {', '.join(known) or 'none'}.")
        wanted = {name: _grid(known[name], (strengths or {}).get(name)) for name in attacks or known}
        finished = {name: self._finished(known[name], grid) for name, grid in wanted.items()}
        begun = [name for name in finished if attacks is not None or len(finished[name])]
        common = _intersection([finished[name] for name in begun])
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
        samples = rows_at(self._sample_columns(), index)
        return OutcomeTable(
            name=self.identity.model.name,
            data=self.identity.data.name,
            index=index,
            labels=samples["label"],
            clean_prediction=samples["clean_prediction"],
            clean_margin=samples["clean_margin"],
            clean_rejected=samples["clean_rejected"] == 1 if (samples["clean_rejected"] >= 0).all() else None,
            outcomes={
                name: self._outcome([r for r in known[name] if not (searched and r.finder)], index).restrict(
                    wanted[name]
                )
                for name in begun
            },
        )

    def missing(self) -> dict[str, int]:
        """Attack to number of samples that a plan asks for and no part holds; empty when the run is complete."""
        plans, counts = self.plans(), {}
        for name, records in self._by_name().items():
            lacking = [
                np.setdiff1d(plan.index(), np.concatenate([self.done(alike) for alike in _repeated(record, records)]))
                for record in records
                for plan in plans
                if record.key in plan.attacks and record.finder is None
            ]
            if count := len(np.unique(np.concatenate([[], *lacking]))):
                counts[name] = count
        return counts

    def clean(self, index: Integers) -> Arrays:
        """What is known of the clean samples among ``index``: SAMPLE_COLUMNS, in any order."""
        known = self._sample_columns()
        rows = np.isin(known["index"], index)
        return {name: values[rows] for name, values in known.items()}

    def adversarial(self, attack: str, index: Integers) -> AdversarialExamples:
        """The smallest adversarial examples of some samples, where they were kept: positions ``[M]`` and inputs
        ``[M, ...]``.

        Raises:
            UserError: the run kept no examples.
        """
        records, smallest = self._by_name().get(attack, []), self._smallest(attack)
        best: dict[int, NDArray[np.float32]] = {}
        wanted = set(index.tolist())
        kept = False
        for record in records:
            for name in self._parts_of(record, "adversarial"):
                kept, stored = True, self._shelf.read(name)
                part = self._part(name.replace("adversarial/", "outcomes/", 1), record)
                sizes = dict(zip(part["index"].tolist(), part["minimal_size"].tolist(), strict=True))
                for position, image in zip(stored["index"].tolist(), stored["images"], strict=True):
                    if position in wanted and sizes[position] == smallest[position]:
                        best.setdefault(position, image)
        if not kept:
            raise UserError("This run did not keep its adversarial examples; evaluate with keep_adversarial=True.")
        found = [position for position in index.tolist() if position in best]
        images = [best[position] for position in found]
        return np.array(found, np.int64), np.stack(images) if images else np.zeros((0,), np.float32)

    def _smallest(self, attack: str) -> dict[int, float]:
        """Sample -> size of its smallest example under an attack, by whatever search."""
        smallest: dict[int, float] = {}
        for record in self._by_name().get(attack, []):
            for columns in self._valid_parts(record).values():
                if columns is not None:
                    for position, size in zip(columns["index"].tolist(), columns["minimal_size"].tolist(), strict=True):
                        smallest[position] = min(size, smallest.get(position, np.inf))
        return smallest

    def circumstances(self) -> list[dict[str, str]]:
        """Where and with what the parts were computed, each combination once."""
        found: dict[str, dict[str, str]] = {}
        for record in self.records().values():
            for said in self._shelf.abouts(self._parts_of(record)):
                about = {key: text for key, text in said.items() if key not in ("created", ATTACK, OF_RUN)}
                found.setdefault(repr(sorted(about.items())), about)
        return list(found.values())

    def _records(self, folder: str, kind: type[Any]) -> list[Any]:
        return [parse(kind, text, place) for place, text in self._shelf.texts(folder).items()]

    def _by_name(self) -> dict[str, list[AttackRecord]]:
        grouped: dict[str, list[AttackRecord]] = {}
        for record in self.records().values():
            grouped.setdefault(record.name, []).append(record)
        return grouped

    def _finished(self, records: Sequence[AttackRecord], strengths: Sequence[float]) -> Integers:
        """Samples that, by all records of an attack together, were searched at every one of the strengths."""
        held = [(record, self.done(record)) for record in records if record.finder is None]
        at_each = [
            np.unique(
                np.concatenate([[], *(done for r, done in held if position_of(strength, r.strengths) is not None)])
            )
            for strength in strengths
        ]
        return _intersection(at_each)

    def _outcome(self, records: Sequence[AttackRecord], index: Integers) -> Outcome:
        outcomes, covered = [], []
        for record in records:
            done = self.done(record)
            rows = np.isin(index, done)
            if not rows.any():
                continue
            # Samples that this search did not see take the numbers of one that it did; `covered` leaves them out.
            columns = rows_at(self._columns_of(record), np.where(rows, index, done[0]))
            del columns["index"]
            found = columns.pop("found_leg", np.full(len(index), -1))
            outcomes.append(
                Outcome(
                    attack=record.name,
                    strengths=np.array(record.strengths, np.float64),
                    seconds=float(columns.pop("seconds")[rows].sum()),
                    rejected=int(columns.pop("rejected")[rows].sum()),
                    monotone=record.monotone,
                    unit=record.unit,
                    origins=(record.origin,),
                    kinds=record.legs,
                    kind_of=np.where(found < len(record.legs), found, -1),
                    frontier=record.procedure.get("search") == "frontier",
                    without_gradient=None if record.gradient is None else record.gradient.without,
                    **columns,
                )
            )
            covered.append(rows)
        return smallest_of(outcomes, covered)

    def _gathered(self, record: AttackRecord, names: Sequence[str], wanted: Sequence[str]) -> Arrays:
        """Some columns of an attack's valid parts together, in any order."""
        strengths = len(record.strengths)
        pieces = [columns for name in names if (columns := self._parts.get(name)) is not None]
        unread = [name for name in names if name not in self._parts]
        if unread:
            try:
                pieces.append(self._shelf.gather(unread, wanted, strengths))
            except CorruptFileError:
                pieces += [columns for name in unread if (columns := self._one(name, record, wanted)) is not None]
        return stacked(pieces, wanted, strengths)

    def _one(self, name: str, record: AttackRecord, wanted: Sequence[str]) -> Arrays | None:
        """Some columns of a part; None, and a warning, where the file is damaged."""
        try:
            return self._shelf.gather([name], wanted, len(record.strengths))
        except CorruptFileError:
            return self._checked(name, OUTCOME_COLUMNS, len(record.strengths))

    def _columns_of(self, record: AttackRecord) -> Arrays:
        parts = [columns for columns in self._valid_parts(record).values() if columns is not None]
        names = dict.fromkeys(name for part in parts for name in part)
        unknown = [unknown_columns(len(part["index"])) | {"possible_size": part["minimal_size"]} for part in parts]
        filled = [{**lacking, **part} for lacking, part in zip(unknown, parts, strict=True)]
        return {name: np.concatenate([part[name] for part in filled]) for name in names}

    def _sample_columns(self) -> Arrays:
        names = self._placed_ones(self._shelf.names("samples"), None)
        parts = [columns for name in names if (columns := self._checked(name, SAMPLE_COLUMNS, 0)) is not None]
        kinds = {**SAMPLE_COLUMNS, **REJECTING_COLUMNS}
        unknown = [
            {name: np.full(len(part["index"]), -1, kind) for name, (kind, _) in REJECTING_COLUMNS.items()}
            for part in parts
        ]
        filled = [{**lacking, **part} for lacking, part in zip(unknown, parts, strict=True)]
        empty = {name: np.zeros(0, kind) for name, (kind, _) in kinds.items()}
        return {name: np.concatenate([part[name] for part in [empty, *filled]]) for name in kinds}

    def _valid_parts(self, record: AttackRecord) -> dict[str, Arrays | None]:
        names = self._parts_of(record)
        return {name: self._checked(name, OUTCOME_COLUMNS, len(record.strengths)) for name in names}

    def _parts_of(self, record: AttackRecord, folder: str = "outcomes") -> list[str]:
        """Names of the parts of an attack, without those that say to be of something else."""
        return self._placed_ones(self._shelf.names(f"{folder}/{record.key}"), record)

    def _placed_ones(self, names: Sequence[str], record: AttackRecord | None) -> list[str]:
        """Those of the parts that do not say to be of another attack, model or data; of each other one a warning."""
        fresh = [name for name in names if name not in self._placed]
        anonymous_ones = 0
        for name, said in zip(fresh, self._said(fresh), strict=True):
            problem = misplaced(said, self.identity, record, self._shelf.place(name))
            if problem is not None:
                warn(f"A part in a wrong place counts as not done: {problem}.")
            self._placed[name] = problem is None
            anonymous_ones += anonymous(said)
        if anonymous_ones and not self._told_of_anonymous:
            self._told_of_anonymous = True
            warn(
                f"{self.path or 'The run'} was written by an earlier version: its parts do not say which attack, model "
                "and data they are of, and are taken for what their folders say."
            )
        return [name for name in names if self._placed[name]]

    def _said(self, names: Sequence[str]) -> list[Mapping[str, str]]:
        """What parts say of themselves; nothing where they are damaged, which is told when they are read."""
        try:
            return list(self._shelf.abouts(names))
        except CorruptFileError:
            return [self._said_alone(name) for name in names]

    def _said_alone(self, name: str) -> Mapping[str, str]:
        try:
            return self._shelf.abouts([name])[0]
        except CorruptFileError:
            return said_of(self.identity, None)

    def _part(self, name: str, record: AttackRecord) -> Arrays:
        columns = self._checked(name, OUTCOME_COLUMNS, len(record.strengths))
        if columns is None:
            raise CorruptFileError(f"{self._shelf.place(name)} is damaged; run the same evaluation again.")
        return columns

    def _checked(
        self, name: str, expected: Mapping[str, tuple[type[np.generic], int]], strengths: int
    ) -> Arrays | None:
        """The columns of a part; None, and a warning once, where the file is damaged: it counts as not done."""
        if name not in self._parts:
            try:
                read = self._shelf.read(name)
                held = columns_of(expected, read)
                self._parts[name] = check_columns(read, held, strengths, self._shelf.place(name))
            except UserError as error:
                warn(f"A damaged part counts as not done: {error}")
                self._parts[name] = None
                self._done.clear()
        return self._parts[name]


def _repeated(record: AttackRecord, records: Sequence[AttackRecord]) -> list[AttackRecord]:
    """Those of an attack's records that say the same as one of them; devices round gradients differently."""
    return [other for other in records if other.strengths == record.strengths and other.same_search(record)]


def _grid(records: Sequence[AttackRecord], strengths: Sequence[float] | None = None) -> Sequence[float]:
    """The strengths asked for; by default all at which an attack was searched."""
    searched = [record for record in records if record.finder is None] or records
    return strengths or merged_strengths([np.array(record.strengths) for record in searched])


def _intersection(sets: Sequence[NDArray[Any]]) -> Integers:
    common = sets[0] if sets else np.zeros(0, np.int64)
    for other in sets[1:]:
        common = np.intersect1d(common, other)
    return np.asarray(common, np.int64)
