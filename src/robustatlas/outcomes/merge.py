"""Several runs of one model and data set as one: their files side by side."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.files import Address, explain_write_errors, parse_path
from robustatlas.outcomes.identity import current_time
from robustatlas.outcomes.records import EXAMPLES, AttackRecord, CallRecord, check_joins, sample_spans
from robustatlas.outcomes.storage import Storage
from robustatlas.outcomes.store import Run
from robustatlas.outcomes.tables import Arrays


def merge(runs: Sequence[str | Path], into: str | Path) -> Run:
    """Join runs of the same model and data in the folder ``into``; they themselves stay as they are.

    Where several hold the same attack on the same sample, found by other searches or seeds, the smallest example
    counts (a valid bound of each). Runs that cannot be joined leave nothing in ``into``.

    Args:
        runs: their folders, or addresses in stores of objects.
        into: the folder or address of the joined run; a new one, or one that is a run of the same model and data.

    Returns:
        the joined run.

    Raises:
        UserError: runs of different models or data, of one attack with different threat models, or whose certified
            sizes and examples contradict each other.

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
    return _join(runs, into, lambda joined: None)


def join_best_known(runs: Sequence[str | Path], into: str | Path) -> Run:
    """Join runs as :func:`merge` does, and let attacks on the same threat model share what they found.

    Whatever it is called, each attack then holds the smallest example of each sample that any attack on its threat
    model found. Attacks that judge each strength by itself, and those on randomised models, share nothing.

    Args:
        runs: as of :func:`merge`.
        into: as of :func:`merge`.

    Returns:
        the joined run.

    Raises:
        UserError: as :func:`merge`.
    """
    return _join(runs, into, _share_examples)


def _join(runs: Sequence[str | Path], into: str | Path, complete: Callable[[Run], None]) -> Run:
    """Join runs beside the folder `into`, let `complete` add to the joined run, and move it there if it is sound."""
    if not runs:
        raise UserError("No runs are given; name at least one run directory.")
    given = [Run.open(run) for run in runs]
    there = Run.open_existing(into, given[0].identity)
    parts = given if there is None else [there, *given]
    _check_joinable(parts)
    place = parse_path(into, "the folder of a run")
    free = there is None and not isinstance(place, Address)
    with _temporary_folder(place) as temporary:
        joined = Run.begin(temporary / "joined", given[0].identity)
        for run in parts:
            _copy_run(run, joined)
        complete(joined)
        _check_sizes(joined)
        if free:
            Storage(place).check_is_free()
            with explain_write_errors(place):
                (temporary / "joined").replace(place.resolve())
        else:
            _copy_run(joined, Run.begin(into, given[0].identity))
    return Run.open(into)


@contextmanager
def _temporary_folder(place: Path) -> Iterator[Path]:
    """Make a temporary folder on the disk of `place`, or anywhere if that is an address."""
    if isinstance(place, Address):
        above = None
    else:
        above = place.absolute().parent
        with explain_write_errors(place):
            above.mkdir(parents=True, exist_ok=True)
    with explain_write_errors(place), TemporaryDirectory(prefix=".joining-", dir=above) as folder:
        yield Path(folder)


def _copy_run(run: Run, joined: Run) -> None:
    for plan in run.plans():
        joined.add([record for key, record in run.records().items() if key in plan.attacks], plan)
    for card in run.cards():
        joined.keep_card(card)
    for record in run.certificate_records():
        joined.certificates.add(record)
    for diagnosis in run.diagnoses():
        joined.keep_diagnosis(diagnosis)
    joined.copy_parts(run)


def _check_joinable(runs: Sequence[Run]) -> None:
    """Raise where the runs are not about one model and data set, hold an attack with different threat models, or one
    cannot be read, before anything is written."""
    known: dict[str, tuple[Run, AttackRecord]] = {}
    for run in runs:
        run.plans()
        if differences := runs[0].identity.differences(run.identity):
            raise UserError(f"{runs[0].path} and {run.path} cannot be joined: {'; '.join(differences)}.")
        for record in run.records().values():
            other, first = known.setdefault(record.name, (run, record))
            check_joins(record, [first], str(other.path), f"leave {other.path} or {run.path} out")


def _check_sizes(joined: Run) -> None:
    """Raise where the certified sizes of one run contradict the examples of another."""
    for attack in {record.name for record in joined.records().values()}:
        if len(index := joined.finished_samples(attack)):
            try:
                joined.table([attack], index)
            except UserError as error:
                raise UserError(str(error).replace(str(joined.path), "The joined run")) from error


def _share_examples(joined: Run) -> None:
    """Hand the examples of each attack over to all others on the same threat model."""
    shares = [r for r in joined.records().values() if r.threat and r.examples_source is None and r.monotone]
    shares = [record for record in shares if "draws" not in record.protocol]
    for giver in shares:
        alike = {r.name: r for r in shares if r.threat_identity == giver.threat_identity and r.name != giver.name}
        for taker in alike.values():
            _copy_examples(joined, giver, taker)


def _copy_examples(joined: Run, giver: AttackRecord, taker: AttackRecord) -> None:
    """Enter what one attack found as examples under the name of another one."""
    errors = {key: value for key, value in giver.protocol.items() if key == "errors"}
    record = taker.model_copy(
        update={
            "strengths": giver.strengths,
            "protocol": {"search": EXAMPLES, "by": giver.name, "search of": giver.key, **errors},
            "gradient": None,
            "runs": (),
        }
    )
    index = np.setdiff1d(joined.stored_samples(giver), joined.stored_samples(record))
    if not len(index):
        return
    searched = joined.columns(giver, index)
    found = np.isfinite(searched["minimal_size"])
    if not found.any():
        return
    columns: Arrays = {name: values[found] for name, values in searched.items()}
    count = len(columns["index"])
    columns |= {name: np.zeros(count, np.int64) for name in ("forward", "backward", "rejected")}
    columns |= {"seconds": np.zeros(count), "true_size": np.full(count, -1.0), "found_run": np.full(count, -1)}
    columns["fooled"] = np.full(columns["fooled"].shape, -1, np.int8)
    clean = joined.clean(columns["index"])
    plan = CallRecord(attacks=(record.key,), spans=sample_spans(columns["index"]), created=current_time("microseconds"))
    joined.add([record], plan)
    joined.write(record, columns, clean)
