"""Strengths and samples that the tables of several models share."""

from collections.abc import Sequence
from functools import reduce
from typing import TypeVar

import numpy as np

from robustatlas.common.errors import UserError
from robustatlas.common.wording import list_names
from robustatlas.outcomes.outcome import Integers
from robustatlas.outcomes.points import common_points
from robustatlas.outcomes.table import OutcomeTable

T = TypeVar("T", bound=OutcomeTable)


def common_strengths(tables: Sequence[OutcomeTable]) -> dict[str, list[float]]:
    """Return, for each attack, the strengths at which all models were evaluated; attacks without any are left out.

    Args:
        tables: of the models, at least one.

    Returns:
        attack -> strengths as people type them, in the order of harm.

    Raises:
        UserError: no table is given.

    Example:
        >>> a = OutcomeTable.from_sizes("a", [1], {"linf": [0.2], "l2": [1.0]}, {"linf": [0.1, 0.2], "l2": [1.0]})
        >>> b = OutcomeTable.from_sizes("b", [1], {"linf": [0.2]}, {"linf": [0.2, 0.3]})
        >>> common_strengths([a, b])
        {'linf': [0.2]}
    """
    _check_any(tables)
    return common_points({attack: model.strengths(attack) for attack in model.attacks} for model in tables)


def _check_any(tables: Sequence[OutcomeTable]) -> None:
    if not tables:
        raise UserError("No model is given; give the outcomes of at least one.")


def check_paired(first: OutcomeTable, second: OutcomeTable) -> None:
    """Raise where two models' outcomes are not of the same samples in the same order."""
    if not (np.array_equal(first.index, second.index) and np.array_equal(first.labels, second.labels)):
        raise UserError(
            f"{first.name} ({first.samples} samples) and {second.name} ({second.samples} samples) were not evaluated "
            "on the same samples in the same order; take the ones they share with shared_samples."
        )


def shared_samples(tables: Sequence[T]) -> list[T]:
    """The outcomes of several models on the samples that all of them were evaluated on, in the same order.

    Args:
        tables: of the models, at least one.

    Returns:
        a table for each model, in the order given.

    Raises:
        UserError: where they share no samples, or a shared sample has different labels.

    Example:
        >>> a = OutcomeTable.from_sizes("a", [1, 2, 3], {"linf": [0.1, 0.2, 0.3]}, {"linf": [0.1]})
        >>> b = a.select(np.array([2, 1]))
        >>> [model.index.tolist() for model in shared_samples([a, b])]
        [[1, 2], [1, 2]]
    """
    _check_any(tables)
    common = shared_index([model.name for model in tables], [(model.index, model.labels) for model in tables])
    return [model.select(find_rows(model.index, common)) for model in tables]


def shared_index(names: Sequence[str], samples: Sequence[tuple[Integers, Integers]]) -> Integers:
    """Positions in the data set, increasing, of the samples that all models were evaluated on. ``names``: of the
    models, at least one. ``samples``: of each model the positions of its samples ``[N]``, in any order, and their
    labels ``[N]``. Raises :class:`UserError`: where they share no samples, or a shared sample has different labels.

    >>> a, b = np.array([0, 1, 2]), np.array([2, 1])
    >>> shared_index(["a", "b"], [(a, a), (b, b)]).tolist()
    [1, 2]
    """
    common = np.sort(reduce(np.intersect1d, (index for index, _ in samples)))
    if common.size == 0:
        raise UserError(f"{list_names(names)} share no samples; evaluate the same samples.")
    labels = [labels[find_rows(index, common)] for index, labels in samples]
    for name, own in zip(names, labels, strict=True):
        if not np.array_equal(labels[0], own):
            raise UserError(
                f"{names[0]} and {name} have different labels at the same positions of the data set; they were "
                "evaluated on different data."
            )
    return np.asarray(common)


def find_rows(index: Integers, wanted: Integers) -> Integers:
    """Return the row in ``index`` of each ``wanted`` position of a data set; ``index`` has all of them.

    >>> find_rows(np.array([7, 3, 5]), np.array([3, 7])).tolist()
    [1, 0]
    """
    order = np.argsort(index)
    return np.asarray(order[np.searchsorted(index, wanted, sorter=order)])
