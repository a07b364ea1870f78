"""Columns of the tables of a run, and rules for their rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robustatlas.common.errors import UserError
from robustatlas.outcomes.outcome import Integers
from robustatlas.outcomes.tables import Columns

Kinds = Mapping[str, tuple[type[np.generic], int]]
"""Names of columns -> their type, and 1 for a number per sample or 2 for one per sample and strength."""

OUTCOME_COLUMNS: Kinds = {
    "index": (np.int64, 1),
    "minimal_size": (np.float64, 1),
    "true_size": (np.float64, 1),
    "found_class": (np.int64, 1),
    "found_run": (np.int64, 1),
    "forward": (np.int64, 1),
    "backward": (np.int64, 1),
    "rejected": (np.int64, 1),
    "seconds": (np.float64, 1),
    "margins": (np.float32, 2),
    "fooled": (np.int8, 2),
}
"""Columns of a part of outcomes. Two of them need a word:

- ``found_run``: the run of the plan that found the smallest example. -1: there is no example, or no search found it.
- ``true_size``: the smallest size by the network's own gradients, where some runs go back through smoothed ReLUs. -1:
  no leg does.
"""

RANDOM_COLUMNS: Kinds = {
    "possible_size": (np.float64, 1),
    "mistakes": (np.int64, 1),
    "drawn": (np.int64, 1),
    "saved": (np.int64, 1),
    "as_file": (np.int64, 1),
}
"""Columns that a part has besides, where there is something to say:

- ``possible_size``, ``mistakes``, ``drawn``: the model is randomised.
- ``saved``: there were certificates.
- ``as_file``: examples are kept. 1: it still is one as an 8-bit file holds it, -1: not, 0: none, or nobody looked.
"""

ASKED_COLUMNS: Kinds = {"queries": (np.int64, 2)}
"""Column for models that only answer queries: their number until the first example within each strength; -1: none."""

TYPICAL_COLUMNS: Kinds = {"typical": (np.float64, 2)}
"""Column of searches for the typical case: share of draws at each strength classified correctly; NaN without draws."""

SAMPLE_COLUMNS: Kinds = {
    "index": (np.int64, 1),
    "label": (np.int64, 1),
    "clean_prediction": (np.int64, 1),
    "clean_margin": (np.float32, 1),
}
"""Columns of a samples table."""

REJECTING_COLUMNS: Kinds = {"clean_rejected": (np.int8, 1)}
"""Additional columns of a samples table of a model that may reject: 1 where it rejects the clean input."""

CERTIFIED_COLUMNS: Kinds = {
    "index": (np.int64, 1),
    "certified_size": (np.float64, 1),
    "seconds": (np.float64, 1),
    "abstained": (np.int8, 1),
}
"""Columns of a part of what a method certified. ``abstained``: 1 where a method that draws random numbers could not
tell."""

Arrays = dict[str, NDArray[Any]]


_MORE = (
    (SAMPLE_COLUMNS, REJECTING_COLUMNS),
    (OUTCOME_COLUMNS, {**RANDOM_COLUMNS, **ASKED_COLUMNS, **TYPICAL_COLUMNS}),
)


def unknown_columns(samples: int, strengths: int) -> Arrays:
    """Return what stands for columns that a part does not have: nothing was drawn, saved or seen."""
    filled = ((RANDOM_COLUMNS, 0), (ASKED_COLUMNS, -1), (TYPICAL_COLUMNS, np.nan))
    return {
        name: np.full((samples, strengths)[:dimensions], value, kind)
        for columns, value in filled
        for name, (kind, dimensions) in columns.items()
    }


def expected_columns(base: Kinds, given: Columns) -> Kinds:
    """The columns of a table like ``base``: of some models it has more."""
    more: Kinds = next((more for of, more in _MORE if of is base), {})
    return {**base, **{name: kind for name, kind in more.items() if name in given}}


def check_columns(given: Columns, expected: Kinds, strengths: int, place: str) -> Arrays:
    """The ``given`` columns in order and type; :class:`UserError` where they are not the ``expected`` ones."""
    if set(given) != set(expected):
        raise UserError(f"{place} must have the columns {', '.join(expected)}; got {', '.join(given)}.")
    columns, samples = {}, len(given["index"])
    for name, (kind, dimensions) in expected.items():
        shape = (samples, strengths)[:dimensions]
        if given[name].shape != shape:
            raise UserError(f"Column {name} of {place} must have shape {shape}, got {given[name].shape}.")
        if not np.can_cast(given[name].dtype, kind, "same_kind"):
            raise UserError(f"Column {name} of {place} must hold {kind.__name__}, got {given[name].dtype}.")
        columns[name] = given[name].astype(kind, copy=False)
    return columns


def stack_columns(parts: Sequence[Columns], names: Sequence[str], strengths: int) -> Arrays:
    """Concatenate the columns ``names``, each of OUTCOME_COLUMNS, of several parts."""
    none = {name: np.zeros((0, strengths)[:dimensions], kind) for name, (kind, dimensions) in OUTCOME_COLUMNS.items()}
    return {name: np.concatenate([part[name] for part in [none, *parts]]) for name in names}


def sample_rows(columns: Arrays, index: Integers) -> Arrays:
    """The rows of the samples ``index``; of a sample that stands twice (the same numbers) the first."""
    known, first = np.unique(columns["index"], return_index=True)
    if not np.isin(index, known).all():
        raise UserError("The samples of this run are not all there: a file of samples/ is missing or damaged.")
    rows = first[np.searchsorted(known, index)]
    return {name: values[rows] for name, values in columns.items()}
