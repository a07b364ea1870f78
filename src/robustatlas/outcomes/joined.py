"""Joint results of several records of one attack: finished samples, outcomes and examples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.outcomes.columns import sample_rows
from robustatlas.outcomes.outcome import Integers, Outcome
from robustatlas.outcomes.parts import AdversarialExamples, Parts
from robustatlas.outcomes.records import AttackRecord, distinct_positions
from robustatlas.outcomes.storage import Storage
from robustatlas.outcomes.strengths import merged_strengths, strength_position
from robustatlas.outcomes.union import merge_outcomes

_NONE = np.zeros(0, np.int64)


def finished(parts: Parts, records: Sequence[AttackRecord], strengths: Sequence[float]) -> Integers:
    """Samples that, by all records of an attack together, were searched at every one of the strengths."""
    held = [(record.strengths, parts.stored_samples(record)) for record in records if record.examples_source is None]
    searching = [
        tuple(k for k, (searched, _) in enumerate(held) if strength_position(strength, searched) is not None)
        for strength in strengths
    ]
    at_each = [
        distinct_positions(np.concatenate([_NONE, *(held[k][1] for k in those)])) for those in dict.fromkeys(searching)
    ]
    return intersection(at_each)


def joint_outcome(parts: Parts, records: Sequence[AttackRecord], index: Integers) -> Outcome:
    """Return the joint outcome of an attack's records at the samples ``index``: the smallest example counts."""
    outcomes, covered = [], []
    for record in records:
        done = parts.stored_samples(record)
        rows = np.isin(index, done)
        if not rows.any():
            continue
        # Samples that this search did not see take the numbers of one that it did; `covered` leaves them out.
        columns = sample_rows(parts.columns(record), np.where(rows, index, done[0]))
        del columns["index"]
        found, true = columns.pop("found_run"), columns.pop("true_size")
        outcomes.append(
            Outcome(
                attack=record.name,
                strengths=np.array(record.strengths, np.float64),
                seconds=float(columns.pop("seconds")[rows].sum()),
                rejected=int(columns.pop("rejected")[rows].sum()),
                monotone=record.monotone,
                unit=record.unit,
                origins=(record.origin,),
                kinds=record.runs,
                kind_index=np.where(found < len(record.runs), found, -1),
                true_size=true if (true >= 0).all() else None,
                frontier=record.lowers_margins,
                searched_at=np.full(len(record.strengths), record.judges_strengths),
                errors=str(record.protocol.get("errors", "accepted")),
                without_gradient=None if record.gradient is None else record.gradient.without,
                **columns,
            )
        )
        covered.append(rows)
    return merge_outcomes(outcomes, covered)


def equivalent_records(record: AttackRecord, records: Sequence[AttackRecord]) -> list[AttackRecord]:
    """Return the records with the strengths and search of ``record``, which several devices may have written."""
    return [other for other in records if other.strengths == record.strengths and other.has_same_search(record)]


def searched_grid(records: Sequence[AttackRecord], strengths: Sequence[float] | None = None) -> Sequence[float]:
    """The strengths asked for; by default all at which an attack was searched."""
    searched = [record for record in records if record.examples_source is None] or records
    return strengths or merged_strengths([np.array(record.strengths) for record in searched])


def intersection(sets: Sequence[NDArray[Any]]) -> Integers:
    """Return the elements that all the sets have, increasing."""
    common = sets[0] if sets else _NONE
    for other in sets[1:]:
        common = np.intersect1d(common, other)
    return np.asarray(common, np.int64)


def smallest_examples(
    parts: Parts, storage: Storage, records: Sequence[AttackRecord], index: Integers
) -> AdversarialExamples:
    """The smallest adversarial examples that the records of an attack kept of some samples."""
    smallest, best = _smallest(parts, records), dict[int, NDArray[np.float32]]()
    wanted = set(index.tolist())
    kept = False
    for record in records:
        for name in parts.names(record, "adversarial"):
            kept, stored = True, storage.read(name)
            part = parts.read_part(name.replace("adversarial/", "outcomes/", 1), record)
            sizes = dict(zip(part["index"].tolist(), part["minimal_size"].tolist(), strict=True))
            for position, image in zip(stored["index"].tolist(), stored["images"], strict=True):
                if position in wanted and sizes[position] == smallest[position]:
                    best.setdefault(position, image.copy())  # the rest of its part is let go
    if not kept:
        raise UserError("This run did not keep its adversarial examples; evaluate with keep_adversarial=True.")
    found = [position for position in index.tolist() if position in best]
    images = [best[position] for position in found]
    return np.array(found, np.int64), np.stack(images) if images else np.zeros((0,), np.float32)


def _smallest(parts: Parts, records: Sequence[AttackRecord]) -> dict[int, float]:
    """Sample -> size of its smallest example, by whatever search."""
    smallest: dict[int, float] = {}
    for record in records:
        for columns in parts.valid(record).values():
            if columns is not None:
                for position, size in zip(columns["index"].tolist(), columns["minimal_size"].tolist(), strict=True):
                    smallest[position] = min(size, smallest.get(position, np.inf))
    return smallest
