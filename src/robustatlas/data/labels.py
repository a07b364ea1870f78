"""Labels: their conversion from any type to class numbers, and the choice of some samples by them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.noise import Noise
from robustatlas.data.arrays import to_array

MOST_CLASSES = 10**6
"""More classes than this are a mistake in the labels."""


def class_numbers(given: Any, whose: str, classes: Sequence[str] | None = None) -> NDArray[np.int64]:
    """Return labels as class numbers ``[N]``; labels are never rounded, and an order of names is never assumed.

    Args:
        given: integers or booleans [N], or names [N] that are all in ``classes``.
        whose: the subject of messages, such as ``"Labels of 'digits'"``.
        classes: names of the classes in the order of their numbers, if known.

    Raises:
        UserError: labels of another shape or kind, or that are missing; the sentence names the remedy.

    Example:
        >>> class_numbers(["dog", "cat"], "Labels", ["cat", "dog"]).tolist(), class_numbers([True], "Labels").tolist()
        ([1, 0], [1])
    """
    values = to_array(given)
    if values.ndim != 1:
        raise UserError(
            f"{whose} have shape {values.shape}; expected one class number a sample, [N]{_shape_remedy(values)}."
        )
    if not len(values):
        return np.empty(0, np.int64)
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values.tolist()):
        values = values.astype(str)
    if values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8", "replace")
    if values.dtype.kind == "U":
        return _numbers_from_names(values, whose, classes)
    if values.dtype.kind in "biu":
        if int(values.max()) >= MOST_CLASSES:
            raise UserError(_large_label_message(whose, int(values.max())))
        return values.astype(np.int64)
    raise UserError(f"{whose}: {_describe_fault(values)}.")


def class_number(given: Any, where: str) -> int:
    """Return the label of one sample as a class number.

    Args:
        given: an integer or a boolean, alone or in an array of one element.
        where: the subject of messages, such as ``"Item 3 of 'mine'"``.

    Raises:
        UserError: anything else; the sentence names the remedy.

    Example:
        >>> class_number(np.array([3]), "Item 0")
        3
    """
    try:
        values = to_array(given)
    except UserError:
        values = np.asarray(None)
    if values.dtype.kind in "biu" and values.size == 1:
        number = int(values.item())
        if abs(number) >= MOST_CLASSES:
            raise UserError(_large_label_message(f"{where}: labels", number))
        return number
    if values.ndim > 1:
        raise UserError(f"{where} has shape {values.shape} for a label; expected a pair (image, class number).")
    remedy = ""
    if values.ndim == 1 and values.dtype.kind in "biuf" and values.size > 1 and _is_one_hot(values[None]):
        remedy = ": give label.argmax()"
    elif values.dtype.kind in "US":
        remedy = ": give the position of the name among the classes"
    elif values.dtype.kind == "f" and values.size == 1 and float(values.item()).is_integer():
        remedy = ": give int(label)"
    raise UserError(f"{where} has the label {shorten(repr(given))}; expected a class number{remedy}.")


def _large_label_message(whose: str, label: int) -> str:
    return f"{whose} go up to {label}; expected class numbers 0, 1, ... of at most {MOST_CLASSES:,} classes."


def _shape_remedy(values: NDArray[Any]) -> str:
    """Return the end of a message: how to make labels [N] of ``values``, or nothing if that is unknown."""
    if values.ndim == 2 and values.shape[1] == 1:
        return ": give labels[:, 0]"
    if values.ndim != 2 or values.dtype.kind not in "biuf":
        return ""
    if _is_one_hot(values):
        return ": give labels.argmax(1)"
    if bool(((values == 0) | (values == 1)).all()):
        return (
            ": several labels a sample are not measured here; evaluate one label against the rest, with a model of two "
            "classes and labels[:, k]"
        )
    return ""


def _is_one_hot(values: NDArray[Any]) -> bool:
    """Return True if the rows of ``values`` [N, K] are one-hot."""
    table = values.astype(np.float64)
    return bool(((table == 0) | (table == 1)).all() and (table.sum(1) == 1).all())


def _numbers_from_names(values: NDArray[np.str_], whose: str, classes: Sequence[str] | None) -> NDArray[np.int64]:
    """Return the positions of names [N] among ``classes``."""
    names = values.tolist()
    numbers = {name: number for number, name in enumerate(classes or ())}
    other = next((name for name in names if name not in numbers), None)
    if other is None:
        return np.array([numbers[name] for name in names], np.int64)
    if all(name.strip().lstrip("-").isdecimal() for name in names):
        remedy = "give labels.astype(int)"
    elif numbers:
        remedy = f"{shorten(repr(other))} is none of the {len(numbers)} classes"
    else:
        remedy = "give the position of each name among the classes of the model"
    raise UserError(f"{whose} are names, such as {shorten(repr(other))}; expected class numbers 0, 1, ...: {remedy}.")


def _describe_fault(values: NDArray[Any]) -> str:
    """Return what is wrong with labels [N] that are not integers."""
    if values.dtype.kind == "f":
        wrong = np.flatnonzero(~np.isfinite(values) | (values != np.round(values)))
        if not len(wrong):
            return f"they are {values.dtype}, expected integers (class numbers 0, 1, ...): give labels.astype(int)"
        return f"label {wrong[0]} is {values[wrong[0]]:.9g}; expected integers (class numbers 0, 1, ...)"
    if values.dtype.kind == "O":
        wrong = np.flatnonzero([not isinstance(value, int) for value in values.tolist()])
        if len(wrong) and values[wrong[0]] is None:
            return f"label {wrong[0]} is missing (null); leave out samples without a label"
        if len(wrong):
            return f"label {wrong[0]} is {shorten(repr(values[wrong[0]]))}; expected integers (class numbers 0, 1, ...)"
    if values.dtype.kind == "O":
        return "some are larger than 2^63; expected class numbers 0, 1, ..."
    return f"they are {values.dtype}; expected integers (class numbers 0, 1, ...)"


_SORTED_SHARE = 0.25
"""Data count as sorted if the class changes less often than this share of the changes in a random order."""


def is_sorted(labels: Tensor) -> bool:
    """Return True if samples with ``labels`` [N] are sorted by class, in any order of the classes."""
    counts = torch.unique(labels, return_counts=True)[1].double()
    if not 1 < len(counts) < len(labels):
        return False
    # Expected number of neighbours of different classes in a random order.
    changes_at_random = len(labels) - float((counts**2).sum()) / len(labels)
    return int((labels[1:] != labels[:-1]).sum()) < max(len(counts), _SORTED_SHARE * changes_at_random)


def choose_positions(labels: Tensor, index: Tensor, count: int, seed: int, by_class: bool | None = None) -> Tensor:
    """Return the sorted positions of ``count`` samples.

    Args:
        labels: int64 [N].
        index: int64 [N], positions of the samples in the whole data set; the random choice depends on them.
        count: number of samples.
        seed: of the random choice.
        by_class: True for a random choice with the classes in their proportions, False for the first samples;
            default: True if the data are sorted by class.

    >>> labels = torch.arange(3).repeat_interleave(4)
    >>> labels[choose_positions(labels, torch.arange(12), 6, seed=0)].tolist()
    [0, 0, 1, 1, 2, 2]
    """
    if by_class is None:
        by_class = is_sorted(labels)
    if not by_class:
        return torch.arange(count)
    # The sample with random rank r in a class of n has the turn (r + 1/2) / n; the smallest turns are chosen.
    # So the classes keep their proportions, and a larger choice contains every smaller one.
    shuffled = Noise.for_samples(seed, index, "subset").uniform(1, dtype=torch.float64).squeeze(1).argsort(stable=True)
    turn = torch.empty(len(labels), dtype=torch.float64)
    for label in torch.unique(labels).tolist():
        members = shuffled[labels[shuffled] == label]
        turn[members] = (torch.arange(len(members), dtype=torch.float64) + 0.5) / len(members)
    return turn.argsort(stable=True)[:count].sort().values
