"""Runs: where outcomes are kept, on disk or in memory, one table per attack and shard of samples.

A run on disk is a directory::

    run.json                              what was evaluated (Manifest)
    samples/shard-00000.parquet           index, label, clean_prediction, clean_margin
    outcomes/ATTACK/shard-00000.parquet   see OUTCOME_COLUMNS
    adversarial/ATTACK/shard-00000.npz    index, images (only where adversarial examples are kept)

Every file is written whole or not at all, so a run that is killed loses at most the shard it was working on.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from robustatlas.errors import UserError
from robustatlas.files import is_temporary, one_sentence, remove_stale_temporaries, write_atomically
from robustatlas.outcomes.manifest import AttackSettings, Manifest
from robustatlas.outcomes.result import (
    OUTCOME_COLUMNS,
    SAMPLE_COLUMNS,
    AdversarialExamples,
    Outcome,
    Result,
    check_columns,
    joined,
)
from robustatlas.outcomes.tables import Columns, CorruptFileError, read_parquet, write_parquet


class _Shelf(Protocol):
    """Holds tables and arrays under names like ``outcomes/linf/shard-00000``."""

    def names(self) -> set[str]: ...
    def read(self, name: str) -> dict[str, NDArray[Any]]: ...
    def write(self, name: str, columns: Columns) -> None: ...
    def place(self, name: str) -> str: ...


class _Memory:
    def __init__(self) -> None:
        self._tables: dict[str, dict[str, NDArray[Any]]] = {}

    def names(self) -> set[str]:
        return set(self._tables)

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        return self._tables[name]

    def write(self, name: str, columns: Columns) -> None:
        self._tables[name] = dict(columns)

    def place(self, name: str) -> str:
        return name


class _Directory:
    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self) -> set[str]:
        files = [*self._root.rglob("shard-*.parquet"), *self._root.rglob("shard-*.npz")]
        return {path.relative_to(self._root).with_suffix("").as_posix() for path in files}

    def read(self, name: str) -> dict[str, NDArray[Any]]:
        path = self._path(name)
        return _read_npz(path) if path.suffix == ".npz" else read_parquet(path)

    def write(self, name: str, columns: Columns) -> None:
        path = self._path(name)
        (_write_npz if path.suffix == ".npz" else write_parquet)(path, columns)

    def place(self, name: str) -> str:
        return str(self._path(name))

    def _path(self, name: str) -> Path:
        return self._root / f"{name}{'.npz' if name.startswith('adversarial/') else '.parquet'}"


def _write_npz(path: Path, arrays: Columns) -> None:
    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez(file, allow_pickle=False, **dict(arrays))

    write_atomically(path, write)


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise CorruptFileError(
            f"{path} cannot be read ({error}); delete it and its outcomes table, and run the same evaluation again."
        ) from error


class RunStore:
    """One run, as :func:`robustatlas.evaluate` fills it.

    Use :meth:`create_or_resume` (``path=None`` keeps the run in memory) or :meth:`open`.
    """

    def __init__(self, manifest: Manifest, path: Path | None = None) -> None:
        self.manifest = manifest
        self.path = path
        self._shelf: _Shelf = _Memory() if path is None else _Directory(path)
        self._present = self._shelf.names()

    @classmethod
    def create_or_resume(cls, path: str | Path | None, manifest: Manifest) -> RunStore:
        """A new run in ``path``, or the one that is there, if its settings equal those of ``manifest``.

        A run that is continued keeps its own context and shard size: use ``store.manifest`` from here on. A damaged
        shard is named in a warning and counts as not done.

        Raises:
            UserError: different settings (each is named), a run of a newer format, a folder that is no run or cannot be
                written.
        """
        if path is None:
            return cls(manifest)
        root = Path(path)
        file = root / "run.json"
        with one_sentence(root):
            root.mkdir(parents=True, exist_ok=True)
            occupied = any(not is_temporary(entry) for entry in root.iterdir())
        if not file.exists():
            if occupied:
                raise UserError(f"{root} is not empty and is not a run (no run.json); give a new or an empty folder.")
            write_atomically(file, lambda temporary: _write_text(temporary, manifest.to_json()))
            return cls(manifest, root)
        existing = _read_manifest(root)
        if differences := existing.differences(manifest):
            raise UserError(
                f"The run in {root} was made with other settings ({'; '.join(differences)}); "
                "give the same settings, or another folder for a new run."
            )
        remove_stale_temporaries(root)
        store = cls(existing, root)
        store._forget_damaged()
        return store

    @classmethod
    def open(cls, path: str | Path) -> RunStore:
        """The run in ``path``, to read it."""
        root = Path(path)
        return cls(_read_manifest(root), root)

    @property
    def shards(self) -> tuple[range, ...]:
        """Positions of each shard's samples, in the order of the samples of this run."""
        return self.manifest.shards()

    def done(self, attack: str, shard: int) -> bool:
        """Whether the outcomes of ``attack`` on ``shard`` are there."""
        kept = not self.manifest.settings.keep_adversarial or _name("adversarial", attack, shard) in self._present
        return kept and _name("outcomes", attack, shard) in self._present

    def file(self, attack: str | None, shard: int) -> Path:
        """The Parquet file of one attack (None: of the samples) and shard, of a run on disk."""
        if self.path is None:
            raise UserError("This run is in memory and has no files.")
        return self.path / f"{_name('outcomes' if attack else 'samples', attack, shard)}.parquet"

    def done_samples(self, shard: int) -> bool:
        """Whether labels and clean predictions of ``shard`` are there."""
        return _name("samples", None, shard) in self._present

    def write(self, attack: str, shard: int, columns: Columns, adversarial: AdversarialExamples | None = None) -> None:
        """Keep the outcomes of one attack on one shard: the arrays of ``OUTCOME_COLUMNS``, in the shard's order.

        ``adversarial``, needed where the run keeps them: positions in the data set ``[M]`` and inputs ``[M, ...]``.
        """
        strengths = len(self._attack(attack).strengths)
        name = _name("outcomes", attack, shard)
        checked = check_columns(columns, OUTCOME_COLUMNS, len(self.shards[shard]), strengths, name)
        if self.manifest.settings.keep_adversarial:
            if adversarial is None:
                raise UserError(f"This run keeps adversarial examples, but none were given with {name}.")
            index, images = adversarial
            self._put(
                _name("adversarial", attack, shard),
                {"index": np.asarray(index, np.int64), "images": np.asarray(images, np.float32)},
            )
        self._put(name, checked)

    def write_samples(self, shard: int, columns: Columns) -> None:
        """Keep the clean facts of one shard: the arrays of ``SAMPLE_COLUMNS``."""
        name = _name("samples", None, shard)
        self._put(name, check_columns(columns, SAMPLE_COLUMNS, len(self.shards[shard]), 0, name))

    def read(self, attack: str, shard: int) -> dict[str, NDArray[Any]]:
        """The arrays of :meth:`write`."""
        strengths = len(self._attack(attack).strengths)
        return self._get(_name("outcomes", attack, shard), OUTCOME_COLUMNS, shard, strengths)

    def read_samples(self, shard: int) -> dict[str, NDArray[Any]]:
        """The arrays of :meth:`write_samples`."""
        return self._get(_name("samples", None, shard), SAMPLE_COLUMNS, shard, 0)

    def adversarial(self, attack: str, shards: Sequence[int]) -> AdversarialExamples:
        """The adversarial examples of some shards, one after the other."""
        parts = [self._shelf.read(_name("adversarial", attack, shard)) for shard in shards]
        filled = [part for part in parts if len(part["index"])] or parts[:1]
        arrays = joined(filled)
        return arrays["index"], arrays["images"]

    def result(self, attacks: Sequence[str] | None = None) -> Result:
        """What is there of ``attacks`` (all that have begun when None), as one :class:`Result`."""
        shards = range(len(self.shards))
        if attacks is None:
            attacks = [a for a in self.manifest.settings.attacks if any(self.done(a, shard) for shard in shards)]
        for attack in attacks:
            self._attack(attack)
        common = [k for k in shards if self.done_samples(k) and all(self.done(attack, k) for attack in attacks)]
        if not attacks or not common:
            raise UserError(
                f"The run in {self.path or 'memory'} has no finished shard yet"
                f"{' of ' + ', '.join(attacks) if attacks else ''}; run its evaluation on."
            )
        samples = joined([self.read_samples(shard) for shard in common])
        outcomes = {attack: self._outcome(attack, common) for attack in attacks}
        return Result(
            manifest=self.manifest,
            index=samples["index"],
            labels=samples["label"],
            clean_prediction=samples["clean_prediction"],
            clean_margin=samples["clean_margin"],
            outcomes=outcomes,
            path=self.path,
            missing=self.missing(),
            _load_adversarial=lambda attack: self.adversarial(attack, common),
        )

    def missing(self) -> dict[str, int]:
        """Attack to number of samples without an outcome; empty when the run is complete."""
        counts = {
            attack: sum(len(positions) for k, positions in enumerate(self.shards) if not self.done(attack, k))
            for attack in self.manifest.settings.attacks
        }
        return {attack: count for attack, count in counts.items() if count}

    def _outcome(self, attack: str, shards: Sequence[int]) -> Outcome:
        settings = self._attack(attack)
        columns = joined([self.read(attack, shard) for shard in shards])
        seconds = float(columns.pop("seconds").sum())
        del columns["index"]
        return Outcome(
            attack=attack,
            strengths=np.array(settings.strengths, np.float64),
            seconds=seconds,
            monotone=settings.monotone,
            **columns,
        )

    def _attack(self, attack: str) -> AttackSettings:
        attacks = self.manifest.settings.attacks
        if attack not in attacks:
            raise UserError(f"Attack {attack!r} is not part of this run; it has {', '.join(attacks)}.")
        return attacks[attack]

    def _put(self, name: str, columns: Columns) -> None:
        self._shelf.write(name, columns)
        self._present.add(name)

    def _get(
        self, name: str, expected: Mapping[str, tuple[type[np.generic], int]], shard: int, strengths: int
    ) -> dict[str, NDArray[Any]]:
        columns = self._shelf.read(name)
        try:
            return check_columns(columns, expected, len(self.shards[shard]), strengths, name)
        except UserError as error:
            raise CorruptFileError(
                f"{self._shelf.place(name)} does not hold what its run says ({error}); "
                "delete it and run the same evaluation again."
            ) from error

    def _forget_damaged(self) -> None:
        checks = [
            (_name(kind, attack, shard), shard, attack)
            for kind, attacks in (("samples", [None]), ("outcomes", list(self.manifest.settings.attacks)))
            for attack in attacks
            for shard in range(len(self.shards))
        ]
        for name, shard, attack in checks:
            if name in self._present:
                try:
                    self.read_samples(shard) if attack is None else self.read(attack, shard)
                except CorruptFileError as error:
                    warnings.warn(f"A damaged shard is computed again: {error}", stacklevel=3)
                    self._present.discard(name)


def _name(kind: str, attack: str | None, shard: int) -> str:
    return "/".join(part for part in (kind, attack, f"shard-{shard:05d}") if part)


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _read_manifest(root: Path) -> Manifest:
    file = root / "run.json"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UserError(
            f"{root} is not a run: it has no run.json; give the folder that 'evaluate --run' wrote."
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}.") from error
    return Manifest.from_json(text, str(file))


def load_result(path: str | Path, attacks: Sequence[str] | None = None) -> Result:
    """The result of a run on disk, finished or not (see :class:`Result`).

    Args:
        path: The run directory.
        attacks: Only these attacks; of an unfinished run this may leave more samples.

    Raises:
        UserError: no run there, a run of a newer format, a damaged file (it is named), nothing finished yet.
    """
    return RunStore.open(path).result(attacks)
