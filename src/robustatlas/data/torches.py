"""Any map-style data set of torch: pairs of an image and a class number, read one by one."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from robustatlas.common.errors import UserError, first_line
from robustatlas.common.scalars import integer_or_none
from robustatlas.data.arrays import array_of, tensor_of
from robustatlas.data.dataset import Dataset, Fingerprint, channels_first, check_transparency
from robustatlas.data.labels import class_number, class_numbers
from robustatlas.data.pictures import UNREADABLE, is_grey, pixels_of
from robustatlas.data.rows import Rows, check_scale, within_range
from robustatlas.data.sampling import is_sorted

_LOOKED_AT = 8
"""Items that are read twice before all are read."""


class OneByOne(Rows):
    """The images of ``data[k] = (image, label)``: tensors or arrays [C, H, W] (floats in [0, 1] or uint8), arrays [H,
    W, C], or pictures of Pillow, in colour where the first one is. Each item has to be the same whenever it is read.
    ``labels``: ``[N]``, of the items that were read; 0 throughout where they are not to be looked at. ``declared``:
    ``[N]``, the labels that each item has to have when it is read."""

    def __init__(self, data: Any, name: str, labelled: bool = True) -> None:
        self.data, self.name, self.labelled = data, name, labelled
        self.labels = np.zeros(len(data), np.int64)
        self.declared: NDArray[np.int64] | None = None
        self._grey: bool | None = None
        self._sums: dict[int, int] = {}
        self._sha256: str | None = None
        first = self._image(0)
        self.shape, self._dtype = (len(data), *first.shape), first.dtype

    def stored(self, positions: Tensor) -> Tensor:
        kept = torch.empty(len(positions), *self.shape[1:], dtype=self._dtype)
        for place, position in enumerate(positions.tolist()):
            image = self._image(position)
            if (found := (tuple(image.shape), image.dtype)) != (self.shape[1:], self._dtype):
                raise UserError(
                    f"Image {position} of {self.name!r} has shape {found[0]} and {found[1]}, and the first one "
                    f"{self.shape[1:]} and {self._dtype}; bring all to one size and type (transforms of the data set)."
                )
            kept[place] = image
        return kept if self._dtype == torch.uint8 else within_range(kept, f"Images of {self.name!r}")

    def sha256(self) -> str:
        """Hash of all images, for which each item is read once."""
        if self._sha256 is None:
            self._sha256 = super().sha256()
        return self._sha256

    def _image(self, position: int) -> Tensor:
        where = f"Item {position} of {self.name!r}"
        try:
            item = self.data[position]
        except (UserError, MemoryError):
            raise
        except Exception as error:
            raise UserError(f"{where}, which says to have {len(self)}, cannot be read: {first_line(error)}.") from error
        if not isinstance(item, (tuple, list)) or len(item) < 2:
            raise UserError(f"{where} is a {type(item).__name__}; expected a pair (image, class number).")
        if self.labelled:
            self.labels[position] = class_number(item[1], where)
            if self.declared is not None and self.labels[position] != self.declared[position]:
                raise UserError(
                    f"{where} has the label {self.labels[position]}, and the data set declares "
                    f"{self.declared[position]} for it (targets, labels); give the labels that count: "
                    "of_torch(data, labels=...)."
                )
        image = self._picture(item[0], where) if isinstance(item[0], Image.Image) else _image_of(item[0], where)
        read = zlib.crc32(image.cpu().numpy().tobytes(), int(self.labels[position]) & 0xFFFFFFFF)
        if self._sums.setdefault(position, read) != read:
            raise UserError(
                f"{where} is another one each time that it is read (a random flip or crop?), and attacks need the same "
                "images throughout: leave out what is random, or read all once and give (images, labels)."
            )
        return image

    def believe(self, declared: NDArray[np.int64]) -> bool:
        """Take ``declared`` [N] for the labels, unless one of the items read so far has another."""
        read = list(self._sums)
        if bool((declared[read] != self.labels[read]).any()):
            return False
        self.declared = declared
        return True

    def _picture(self, given: Image.Image, where: str) -> Tensor:
        grey = is_grey(given)
        self._grey = grey if self._grey is None else self._grey
        try:
            return torch.from_numpy(pixels_of(given, 1 if grey and self._grey else 3))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        except UNREADABLE as error:
            raise UserError(f"{where} cannot be read as a picture ({first_line(error)}).") from error

    def __len__(self) -> int:
        return len(self.labels)


def _image_of(given: Any, where: str) -> Tensor:
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, (tuple, list)) else ()
    if any(isinstance(part, (Tensor, np.ndarray, Image.Image)) for part in parts):
        raise UserError(
            f"{where} has {len(parts)} inputs; expected one, as a pair (image, class number). A model of several is a "
            "function of the image that fills in the others."
        )
    try:
        image = tensor_of(given if isinstance(given, Tensor) else channels_first(array_of(given)[None])[0])
        if image.dtype == torch.uint8:
            check_transparency(image.shape)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if image.is_complex():
        raise UserError(f"{where} is of {image.dtype}; expected floats in [0, 1] or uint8.")
    return image if image.dtype in (torch.uint8, torch.float64) else image.float()


def of_torch(
    data: torch.utils.data.Dataset[Any],
    name: str | None = None,
    classes: Sequence[str] | int | None = None,
    labels: NDArray[Any] | Tensor | Sequence[int] | None = None,
    first: int | None = None,
) -> Dataset:
    """A map-style data set of torch, whose images are read when they are needed.

    A few items are read twice first: what is random, or no pair of an image and a class number, is refused then.

    Args:
        data: ``data[k]`` is a pair of an image and a class number; images in [0, 1] or 8-bit, not normalised.
        name: for reports; by default the name of its class.
        classes: names of the classes, or how many there are; by default ``data.classes``.
        labels: ``[N]``; by default those of the items, which are all read once for them and for the fingerprint.
        first: no more than this many of the first ones will be asked for, or some with the classes in their
            proportions where the data are sorted by class. The others are then not read, unless only they can tell
            the classes of sorted data: ``data.targets`` does too. What was not read has no fingerprint.

    Returns:
        the same images, [N, ...] in [0, 1], with their labels [N]; with ``first`` perhaps only the first ones.

    Raises:
        UserError: no length, items of another kind or that change, images that differ in size or lie outside of [0, 1].

    Example:
        >>> pairs = torch.utils.data.TensorDataset(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]))
        >>> of_torch(pairs, "pairs").rows.shape
        (4, 3, 8, 8)
    """
    name = name or type(data).__name__
    if not hasattr(data, "__len__") or not len(data):
        raise UserError(f"The data set {name} has no samples, or does not say how many (__len__); give one that does.")
    rows = OneByOne(data, name, labelled=labels is None)
    for position in 2 * np.linspace(0, len(rows) - 1, _LOOKED_AT).astype(int).tolist():
        rows[position]
    check_scale(rows, name)
    classes = classes if classes is not None else _declared(data)
    if first is not None and first < len(rows):
        if labels is None and (told := _labels_declared(data)) is not None and rows.believe(told):
            labels = told
        if labels is not None:
            return Dataset.of_rows(rows, labels, name, classes, NOT_READ)
        if (prefix := _unsorted_prefix(rows, first)) is not None:
            found = Dataset.of_rows(rows.chosen(prefix), rows.labels[: len(prefix)], name, classes, NOT_READ)
            return replace(found, all_held=0)
    if labels is None:
        rows.sha256()
        labels = rows.labels
    return Dataset.of_rows(rows, labels, name, classes)


NOT_READ = Fingerprint(None, None)
"""The fingerprint of data of which only some items were read: nothing is known of the whole."""

_PREFIX = 256
"""Items by whose labels it is judged whether a data set that declares none is sorted by class."""


def _unsorted_prefix(rows: OneByOne, first: int) -> Tensor | None:
    """Return the positions of the ``first`` items, or None where the data set may be sorted by class."""
    rows.stored(torch.arange(min(_PREFIX, len(rows))))
    labels = torch.from_numpy(rows.labels[:_PREFIX])
    if is_sorted(labels) or bool((labels == labels[0]).all()):
        return None
    positions = torch.arange(first)
    rows.stored(positions[_PREFIX:])
    return positions


def _labels_declared(data: Any) -> NDArray[np.int64] | None:
    """Return the labels ``[N]`` that a data set of torch says to have, without reading an item; None: it says none."""
    utils = torch.utils.data
    if isinstance(data, utils.Subset):
        whole_set = _labels_declared(data.dataset)
        return None if whole_set is None else whole_set[np.asarray(data.indices, np.int64)]
    if isinstance(data, utils.ConcatDataset):
        parts = [part for each in data.datasets if (part := _labels_declared(each)) is not None]
        return np.concatenate(parts) if len(parts) == len(data.datasets) else None
    if isinstance(data, utils.TensorDataset):
        return _as_labels(data.tensors[1] if len(data.tensors) > 1 else None, len(data))
    return _as_labels(getattr(data, "targets", getattr(data, "labels", None)), len(data))


def _as_labels(given: Any, count: int) -> NDArray[np.int64] | None:
    """Return ``given`` as labels of ``count`` items; None where it is something else."""
    try:
        labels = class_numbers(given, "The labels")
    except UserError:
        return None
    return labels if len(labels) == count else None


def _declared(data: Any) -> Sequence[str] | int | None:
    """The names or the number of the classes that a data set declares, None where it declares neither."""
    classes = getattr(data, "classes", None)
    if isinstance(classes, Mapping):  # of names to positions
        return sorted(classes, key=classes.__getitem__)
    return list(classes) if isinstance(classes, (tuple, list, np.ndarray)) else integer_or_none(classes)
