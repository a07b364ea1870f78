"""What the tables of several models have in common: strengths and samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from robustatlas.errors import UserError
from robustatlas.outcomes.points import shared_points
from robustatlas.outcomes.table import OutcomeTable

T = TypeVar("T", bound=OutcomeTable)


def common_strengths(tables: Sequence[OutcomeTable]) -> dict[str, list[float]]:
    """Attack -> the strengths at which all models were evaluated; attacks without any are left out.

    Args:
        tables: of the models, at least one.

    Returns:
        attack -> strengths, increasing.

    Raises:
        UserError: no table is given.

    Example:
        >>> a = OutcomeTable.from_sizes("a", [1], {"linf": [0.2], "l2": [1.0]}, {"linf": [0.1, 0.2], "l2": [1.0]})
        >>> b = OutcomeTable.from_sizes("b", [1], {"linf": [0.2]}, {"linf": [0.2, 0.3]})
        >>> common_strengths([a, b])
        {'linf': [0.2]}
    """
    _check_any(tables)
    common = {attack: tables[0].strengths(attack).tolist() for attack in tables[0].attacks}
    for model in tables[1:]:
        common = shared_points(common, {a: model.strengths(a) for a in model.attacks}, common)
    return common


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
    common = tables[0].index
    for model in tables[1:]:
        common = np.intersect1d(common, model.index)
    if common.size == 0:
        raise UserError(f"{', '.join(model.name for model in tables)} share no samples; evaluate the same samples.")
    common = np.sort(common)
    chosen: list[T] = []
    for model in tables:
        order = np.argsort(model.index)
        chosen.append(model.select(order[np.searchsorted(model.index, common, sorter=order)]))
        if not np.array_equal(chosen[0].labels, chosen[-1].labels):
            raise UserError(
                f"{tables[0].name} and {model.name} have different labels at the same positions of the data set; "
                "they were evaluated on different data."
            )
    return chosen
