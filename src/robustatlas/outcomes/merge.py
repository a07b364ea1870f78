"""Several runs of one model and data set as one: their files side by side."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from robustatlas.errors import UserError
from robustatlas.files import one_sentence, write_atomically
from robustatlas.outcomes.store import Run

_FOLDERS = ("samples", "outcomes", "adversarial", "certified")


def merge(runs: Sequence[str | Path], into: str | Path) -> Run:
    """Join runs of the same model and data in the folder ``into``; they themselves stay as they are.

    Where several hold the same attack on the same sample, found by other searches or seeds, the smallest example
    counts (a valid bound of each).

    Args:
        runs: their folders.
        into: the folder of the joined run; a new one, or one that is a run of the same model and data.

    Returns:
        the joined run.

    Raises:
        UserError: runs of different models or data, or of one attack on different sets.

    Example:
        >>> import tempfile, torch, robustatlas as ra
        >>> net, data = torch.nn.Linear(4, 2), (torch.rand(3, 4), torch.tensor([0, 1, 0]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for part in ("0/2", "1/2"):
        ...         _ = ra.evaluate(net, data, "linf", run=f"{folder}/{part[0]}", part=part, progress=False)
        ...     joined = merge([f"{folder}/0", f"{folder}/1"], f"{folder}/both")
        ...     ra.load_result(joined.path).samples
        3
    """
    if not runs:
        raise UserError("No runs are given; name at least one run directory.")
    _check_alike(list(map(Path, runs)))
    for source in map(Path, runs):
        run = Run.open(source)
        joined = Run.begin(into, run.identity)
        for plan in run.plans():
            joined.add([record for key, record in run.records().items() if key in plan.attacks], plan)
        for card in run.cards():
            joined.keep(card)
        for record in run.certified_by():
            joined.certificates.add(record)
        for diagnosis in run.diagnoses():
            joined.keep_diagnosis(diagnosis)
        with one_sentence(Path(into)):
            for folder in _FOLDERS:
                for file in sorted((source / folder).rglob("*.*")):
                    _copy(file, Path(into) / file.relative_to(source))
    return Run.open(into)


def _check_alike(runs: Sequence[Path]) -> None:
    """Raise where the runs are not about one model and data set, before anything is written."""
    identities = [Run.open(run).identity for run in runs]
    for run, identity in zip(runs, identities, strict=True):
        if differences := identities[0].differences(identity):
            raise UserError(f"{runs[0]} and {run} cannot be joined: {'; '.join(differences)}.")


def _copy(file: Path, target: Path) -> None:
    if file.suffix in (".parquet", ".npz") and not target.exists():
        write_atomically(target, partial(_copied, file))


def _copied(file: Path, target: Path) -> None:
    shutil.copyfile(file, target)
