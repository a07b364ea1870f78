"""Joint results of several searches of one attack: finished samples, outcomes and examples."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.outcomes.outcome import Booleans, Floats, Integers, Outcome
from robustatlas.outcomes.parts import AdversarialExamples, Parts
from robustatlas.outcomes.records import AttackRecord, distinct_positions
from robustatlas.outcomes.storage import Storage
from robustatlas.outcomes.strengths import merged_strengths, snap_sizes, strength_position, strength_positions
from robustatlas.outcomes.tables import OutcomeRows, sample_rows

_NONE = np.zeros(0, np.int64)


def finished_samples(parts: Parts, records: Sequence[AttackRecord], strengths: Sequence[float]) -> Integers:
    """Return the samples that all records of an attack together searched at every one of the strengths."""
    searching = [record for record in records if record.examples_source is None]
    searches = [(record.strengths, parts.stored_samples(record)) for record in searching]
    # The searches that looked at a strength: most strengths have the same ones, and sets of samples can be large.
    looking = [
        tuple(k for k, (grid, _) in enumerate(searches) if strength_position(strength, grid) is not None)
        for strength in strengths
    ]
    at_each = [np.concatenate([_NONE, *(searches[k][1] for k in each)]) for each in dict.fromkeys(looking)]
    return intersection([distinct_positions(index) for index in at_each])


def joint_outcome(parts: Parts, records: Sequence[AttackRecord], index: Integers) -> Outcome:
    """Return the joint outcome of an attack's records at the samples ``index``: the smallest example counts."""
    outcomes, covered = [], []
    for record in records:
        stored = parts.stored_samples(record)
        covers = np.isin(index, stored)
        if covers.any():
            # Samples that this search did not see take the numbers of one that it did; `covered` leaves them out.
            rows = sample_rows(parts.columns(record), np.where(covers, index, stored[0]))
            outcomes.append(_search_outcome(record, OutcomeRows(**rows), covers))
            covered.append(covers)
    return merge_outcomes(outcomes, covered)


def _search_outcome(record: AttackRecord, rows: OutcomeRows, covers: Booleans) -> Outcome:
    """Return the outcome of one search; ``covers`` [N]: which of the rows are its own, so that their costs count."""
    return Outcome(
        attack=record.name,
        strengths=np.array(record.strengths, np.float64),
        minimal_size=snap_sizes(rows.minimal_size, record.strengths),
        found_class=rows.found_class,
        margins=rows.margins,
        fooled=rows.fooled,
        forward=rows.forward,
        backward=rows.backward,
        seconds=float(rows.seconds[covers].sum()),
        rejected=int(rows.rejected[covers].sum()),
        monotone=record.monotone,
        unit=record.unit,
        origins=(record.origin,),
        kinds=record.runs,
        kind_index=np.where(rows.found_run < len(record.runs), rows.found_run, -1),
        possible_size=rows.possible_size,
        true_gradient_size=rows.true_size if (rows.true_size >= 0).all() else None,
        mistakes=rows.mistakes,
        drawn=rows.drawn,
        queries=rows.queries,
        typical=rows.typical,
        frontier=record.lowers_margins,
        without_gradient=None if record.gradient is None else record.gradient.without,
        saved=rows.saved,
        errors=str(record.protocol.get("errors", "accepted")),
        as_file=rows.as_file,
        searched_at=np.full(len(record.strengths), record.judges_strengths),
    )


def equivalent_records(record: AttackRecord, records: Sequence[AttackRecord]) -> list[AttackRecord]:
    """Return the records with the strengths and search of ``record``, which several devices may have written."""
    return [other for other in records if other.strengths == record.strengths and other.has_same_search(record)]


def searched_grid(records: Sequence[AttackRecord], strengths: Sequence[float] | None = None) -> Sequence[float]:
    """Return the strengths asked for; by default all at which an attack was searched."""
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
    """Return the smallest adversarial examples that the records of an attack kept of some samples."""
    smallest, best = _smallest_sizes(parts, records), dict[int, NDArray[np.float32]]()
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


def _smallest_sizes(parts: Parts, records: Sequence[AttackRecord]) -> dict[int, float]:
    """Return sample -> size of its smallest example in any search."""
    smallest: dict[int, float] = {}
    for record in records:
        for columns in parts.read_parts(record).values():
            if columns is not None:
                for position, size in zip(columns["index"].tolist(), columns["minimal_size"].tolist(), strict=True):
                    smallest[position] = min(size, smallest.get(position, np.inf))
    return smallest


def merge_outcomes(outcomes: Sequence[Outcome], covered: Sequence[Booleans]) -> Outcome:
    """Merge several outcomes of one attack on the same N samples: the smallest example of each sample counts.

    Margins and judgements are those of the union of the strengths; passes and seconds add up.

    Args:
        outcomes: of the same attack, threat model and samples; their strengths may differ.
        covered: for each outcome, ``[N]`` which samples it is about; its rows elsewhere are ignored.
    """
    if len(outcomes) == 1:
        return outcomes[0]
    rows = np.stack(covered)
    sizes = np.where(rows, [outcome.minimal_size for outcome in outcomes], np.inf)
    best = sizes.argmin(0)
    found = np.isfinite(sizes.min(0))
    take_best, take_best_if_known = partial(_best_values, best, found), partial(_best_values_if_known, best, found)
    strengths, margins, fooled = _on_one_grid(outcomes, covered)
    origins = sorted({origin for outcome in outcomes for origin in outcome.origins})
    kinds = [*dict.fromkeys(kind for outcome in outcomes for kind in outcome.kinds)]
    return replace(
        outcomes[0],
        strengths=np.asarray(strengths),
        minimal_size=snap_sizes(sizes.min(0), strengths),
        found_class=take_best([outcome.found_class for outcome in outcomes], -1),
        margins=margins,
        fooled=fooled,
        forward=(rows * [outcome.forward for outcome in outcomes]).sum(0),
        backward=(rows * [outcome.backward for outcome in outcomes]).sum(0),
        seconds=sum(outcome.seconds for outcome in outcomes),
        rejected=sum(outcome.rejected for outcome in outcomes),
        origins=tuple(origins),
        origin_index=take_best([_origins_among(origins, outcome) for outcome in outcomes], 0),
        kinds=tuple(kinds),
        kind_index=take_best([_kinds_among(kinds, outcome) for outcome in outcomes], -1),
        possible_size=_smallest_possible_sizes(outcomes, rows),
        true_gradient_size=_smallest_true_sizes(outcomes, rows),
        mistakes=take_best_if_known([outcome.mistakes for outcome in outcomes]),
        drawn=take_best_if_known([outcome.drawn for outcome in outcomes]),
        queries=_queries(outcomes, covered, strengths),
        typical=_typical(outcomes, covered, strengths),
        frontier=any(
            outcome.frontier and len(outcome.strengths) == len(strengths) and here.all()
            for outcome, here in zip(outcomes, covered, strict=True)
        ),
        without_gradient=_share_without_gradient(outcomes, covered),
        saved=_passes_saved(outcomes, covered),
        as_file=take_best_if_known([outcome.as_file for outcome in outcomes]),
        searched_at=_searched_strengths(outcomes, covered, strengths),
    )


def _best_values(best: Integers, found: Booleans, columns: Sequence[Integers | None], otherwise: int = 0) -> Integers:
    """Return the number ``[N]`` of each sample in the column of its ``best`` outcome."""
    known = np.stack([np.zeros(len(best), np.int64) if column is None else column for column in columns])
    return np.where(found, np.take_along_axis(known, best[None], 0)[0], otherwise)


def _best_values_if_known(best: Integers, found: Booleans, columns: Sequence[Integers | None]) -> Integers | None:
    """Return what `_best_values` returns; None where no outcome has the column."""
    return None if all(column is None for column in columns) else _best_values(best, found, columns)


def _smallest_possible_sizes(outcomes: Sequence[Outcome], rows: Booleans) -> Floats | None:
    """Return the smallest sizes with every possible example counted; None of models that are not randomised."""
    if all(outcome.possible_size is None for outcome in outcomes):
        return None
    return np.asarray(
        np.where(rows, [outcome.with_possible_examples().minimal_size for outcome in outcomes], np.inf).min(0)
    )


def _smallest_true_sizes(outcomes: Sequence[Outcome], rows: Booleans) -> Floats | None:
    """Return the smallest sizes by the network's own gradients alone; None where no search had others."""
    known = [outcome.true_gradient_size for outcome in outcomes]
    if all(sizes is None for sizes in known):
        return None
    sizes = [one.minimal_size if own is None else own for one, own in zip(outcomes, known, strict=True)]
    return np.asarray(np.where(rows, sizes, np.inf).min(0))


def _passes_saved(outcomes: Sequence[Outcome], covered: Sequence[Booleans]) -> Integers | None:
    """Return the passes that certificates saved; None where there were none."""
    known = [here * outcome.saved for outcome, here in zip(outcomes, covered, strict=True) if outcome.saved is not None]
    return np.sum(known, axis=0) if known else None


def _on_one_grid(
    outcomes: Sequence[Outcome], covered: Sequence[Booleans]
) -> tuple[list[float], NDArray[np.float32], NDArray[np.int8]]:
    """Return the union of the strengths, with the lowest margins and all judgements at them."""
    strengths = merged_strengths([outcome.strengths for outcome in outcomes])
    shape = (outcomes[0].samples, len(strengths))
    margins, fooled = np.full(shape, np.inf), np.full(shape, -1, np.int8)
    for outcome, rows in zip(outcomes, covered, strict=True):
        columns = strength_positions(outcome.strengths.tolist(), strengths)
        seen = np.where(rows[:, None] & ~np.isnan(outcome.margins), outcome.margins, np.inf)
        margins[:, columns] = np.minimum(margins[:, columns], seen)
        fooled[:, columns] = np.maximum(fooled[:, columns], np.where(rows[:, None], outcome.fooled, -1))
    if outcomes[0].monotone:
        margins = np.minimum.accumulate(margins, axis=1)
    return strengths, np.where(np.isfinite(margins), margins, np.nan).astype(np.float32), fooled


def _searched_strengths(
    outcomes: Sequence[Outcome], covered: Sequence[Booleans], strengths: Sequence[float]
) -> Booleans:
    """Return the strengths ``[S]``, as a mask, at which each sample was searched by one of the outcomes."""
    searched = np.zeros((outcomes[0].samples, len(strengths)), np.bool_)
    for outcome, rows in zip(outcomes, covered, strict=True):
        searched[:, strength_positions(outcome.searched_strengths, strengths)] |= rows[:, None]
    return np.asarray(searched.all(axis=0))


def _origins_among(origins: Sequence[str], outcome: Outcome) -> Integers | None:
    """Return the position ``[N]`` among the ``origins`` of each sample's smallest example."""
    if not outcome.origins:
        return None
    own = np.array([origins.index(origin) for origin in outcome.origins])
    return own[np.zeros(outcome.samples, np.int64) if outcome.origin_index is None else outcome.origin_index]


def _kinds_among(kinds: Sequence[str], outcome: Outcome) -> Integers:
    """Return the position ``[N]`` among the ``kinds`` of the run that found each smallest example; -1: not known."""
    own = np.array([*(kinds.index(kind) for kind in outcome.kinds), -1])
    return own[np.full(outcome.samples, -1) if outcome.kind_index is None else outcome.kind_index]


def _queries(outcomes: Sequence[Outcome], covered: Sequence[Booleans], strengths: Sequence[float]) -> Integers | None:
    """Return the fewest queries of any search, at the union of the strengths."""
    if all(outcome.queries is None for outcome in outcomes):
        return None
    never = np.iinfo(np.int64).max
    fewest = np.full((outcomes[0].samples, len(strengths)), never)
    for outcome, rows in zip(outcomes, covered, strict=True):
        if outcome.queries is not None:
            columns = strength_positions(outcome.strengths.tolist(), list(strengths))
            seen = np.where(rows[:, None] & (outcome.queries >= 0), outcome.queries, never)
            fewest[:, columns] = np.minimum(fewest[:, columns], seen)
    return np.where(fewest == never, -1, fewest)


def _typical(outcomes: Sequence[Outcome], covered: Sequence[Booleans], strengths: Sequence[float]) -> Floats | None:
    """Return the mean over all draws of any search, at the union of the strengths; NaN where there are none."""
    known = [(one, rows) for one, rows in zip(outcomes, covered, strict=True) if one.typical is not None]
    if not known:
        return None
    total, count = np.zeros((2, outcomes[0].samples, len(strengths)))
    for outcome, rows in known:
        assert outcome.typical is not None
        columns = strength_positions(outcome.strengths.tolist(), list(strengths))
        drawn = rows[:, None] & ~np.isnan(outcome.typical)
        total[:, columns] += np.where(drawn, outcome.typical, 0.0)
        count[:, columns] += drawn
    return np.asarray(np.where(count > 0, total / np.maximum(count, 1), np.nan))


def _share_without_gradient(outcomes: Sequence[Outcome], covered: Sequence[Booleans]) -> float | None:
    """Return the share of samples without a gradient; of several searches of a sample the best one counts."""
    told = [
        np.where(rows, outcome.without_gradient, 1.0)
        for outcome, rows in zip(outcomes, covered, strict=True)
        if outcome.without_gradient is not None
    ]
    return float(np.min(told, axis=0).mean()) if told else None
