"""Several runs of one model and data set as one: their files side by side."""

from collections.abc import Sequence
from pathlib import Path

from robustatlas.common.errors import UserError
from robustatlas.outcomes.store import Run


def merge(runs: Sequence[str | Path], into: str | Path) -> Run:
    """Join runs of the same model and data in the folder ``into``; they themselves stay as they are.

    Where several hold the same attack on the same sample, found by other searches or seeds, the smallest example
    counts (a valid bound of each).

    Args:
        runs: their folders, or addresses in stores of objects.
        into: the folder or address of the joined run; a new one, or one that is a run of the same model and data.

    Returns:
        the joined run.

    Raises:
        UserError: runs of different models or data, or of one attack with different threat models.

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
    given = [Run.open(run) for run in runs]
    _check(given)
    joined = Run.begin(into, given[0].identity)
    for run in given:
        _add(run, joined)
    return Run.open(into)


def _add(run: Run, joined: Run) -> None:
    for plan in run.plans():
        joined.add([record for key, record in run.records().items() if key in plan.attacks], plan)
    for card in run.cards():
        joined.keep(card)
    for record in run.certified_by():
        joined.certificates.add(record)
    for diagnosis in run.diagnoses():
        joined.keep_diagnosis(diagnosis)
    joined.copy_parts(run)


def _check(runs: Sequence[Run]) -> None:
    """Raise where the runs are not about one model and data set, or one cannot be read, before anything is written."""
    for run in runs:
        run.plans(), run.records()
        if differences := runs[0].identity.differences(run.identity):
            raise UserError(f"{runs[0].path} and {run.path} cannot be joined: {'; '.join(differences)}.")
