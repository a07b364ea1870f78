"""Map-style data sets of torch: pairs of an image and a class number, read one at a time."""

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
from robustatlas.data.arrays import to_array, to_tensor
from robustatlas.data.dataset import Dataset, Fingerprint, channels_first, check_transparency
from robustatlas.data.labels import class_number, class_numbers, is_sorted
from robustatlas.data.pictures import UNREADABLE, is_grey, picture_pixels
from robustatlas.data.rows import Rows, check_scale, clip_to_unit_range

_PROBED_ITEMS = 8
"""Number of items that are read twice at the beginning, to find random transformations."""


class TorchItems(Rows):
    """Images of ``data[k] = (image, label)``.

    An image is a tensor or array [C, H, W] (floats in [0, 1] or uint8), an array [H, W, C], or a Pillow picture. Items
    must be equal whenever they are read.

    Attributes:
        labels: ``[N]``, of the items that were read so far; all 0 if ``labelled`` is False.
        declared: ``[N]``, labels that the items must have when they are read; None: not known.
    """

    def __init__(self, data: Any, name: str, labelled: bool = True) -> None:
        self.data, self.name, self.labelled = data, name, labelled
        self.labels = np.zeros(len(data), np.int64)
        self.declared: NDArray[np.int64] | None = None
        self._grey: bool | None = None
        self._checksums: dict[int, int] = {}
        self._sha256: str | None = None
        first = self._image(0)
        self.shape, self._dtype = (len(data), *first.shape), first.dtype

    def read(self, positions: Tensor) -> Tensor:
        images = torch.empty(len(positions), *self.shape[1:], dtype=self._dtype)
        for place, position in enumerate(positions.tolist()):
            image = self._image(position)
            if (found := (tuple(image.shape), image.dtype)) != (self.shape[1:], self._dtype):
                raise UserError(
                    f"Image {position} of {self.name!r} has shape {found[0]} and {found[1]}, and the first one "
                    f"{self.shape[1:]} and {self._dtype}; bring all to one size and type (transforms of the data set)."
                )
            images[place] = image
        return images if self._dtype == torch.uint8 else clip_to_unit_range(images, f"Images of {self.name!r}")

    def sha256(self) -> str:
        """Return the hash of all images; each item is read once for it."""
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
                    "from_torch(data, labels=...)."
                )
        image = self._picture(item[0], where) if isinstance(item[0], Image.Image) else _image_from_item(item[0], where)
        checksum = zlib.crc32(image.cpu().numpy().tobytes(), int(self.labels[position]) & 0xFFFFFFFF)
        if self._checksums.setdefault(position, checksum) != checksum:
            raise UserError(
                f"{where} is another one each time that it is read (a random flip or crop?), and attacks need the same "
                "images throughout: leave out what is random, or read all once and give (images, labels)."
            )
        return image

    def accept_labels(self, declared: NDArray[np.int64]) -> bool:
        """Use ``declared`` [N] as labels and return True, unless an item that was read has another label."""
        read = list(self._checksums)
        if bool((declared[read] != self.labels[read]).any()):
            return False
        self.declared = declared
        return True

    def _picture(self, given: Image.Image, where: str) -> Tensor:
        grey = is_grey(given)
        self._grey = grey if self._grey is None else self._grey
        try:
            return torch.from_numpy(picture_pixels(given, 1 if grey and self._grey else 3))
        except UserError as error:
            raise UserError(f"{where}: {error}") from error
        except UNREADABLE as error:
            raise UserError(f"{where} cannot be read as a picture ({first_line(error)}).") from error

    def __len__(self) -> int:
        return len(self.labels)


def _image_from_item(given: Any, where: str) -> Tensor:
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, (tuple, list)) else ()
    if any(isinstance(part, (Tensor, np.ndarray, Image.Image)) for part in parts):
        raise UserError(
            f"{where} has {len(parts)} inputs; expected one, as a pair (image, class number). A model of several is a "
            "function of the image that fills in the others."
        )
    try:
        image = to_tensor(given if isinstance(given, Tensor) else channels_first(to_array(given)[None])[0])
        if image.dtype == torch.uint8:
            check_transparency(image.shape)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if image.is_complex():
        raise UserError(f"{where} is of {image.dtype}; expected floats in [0, 1] or uint8.")
    return image if image.dtype in (torch.uint8, torch.float64) else image.float()


def from_torch(
    data: torch.utils.data.Dataset[Any],
    name: str | None = None,
    classes: Sequence[str] | int | None = None,
    labels: NDArray[Any] | Tensor | Sequence[int] | None = None,
    first: int | None = None,
) -> Dataset:
    """Return a map-style data set of torch as a :class:`Dataset` whose images are read on demand.

    A few items are read twice at first, to refuse random transformations and items of another kind.

    Args:
        data: ``data[k]`` is a pair of an image and a class number; images in [0, 1] or 8-bit, not normalised.
        name: in reports; default: the name of its class.
        classes: names of the classes, or their number; default: ``data.classes``.
        labels: ``[N]``; default: those of the items, which are all read once for them and for the fingerprint.
        first: at most this many samples will be used: the first ones, or some of each class if the data are sorted by
            class. The others are not read, unless the data are sorted and ``data.targets`` does not give the classes.
            Data that were not read completely have no fingerprint.

    Returns:
        the images, [N, ...] in [0, 1], with their labels [N]; with ``first``, possibly only the first ones.

    Raises:
        UserError: no length, items of another kind or that change, images that differ in size or lie outside of [0, 1].

    Example:
        >>> pairs = torch.utils.data.TensorDataset(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]))
        >>> from_torch(pairs, "pairs").rows.shape
        (4, 3, 8, 8)
    """
    name = name or type(data).__name__
    if not hasattr(data, "__len__") or not len(data):
        raise UserError(f"The data set {name} has no samples, or does not say how many (__len__); give one that does.")
    rows = TorchItems(data, name, labelled=labels is None)
    for position in 2 * np.linspace(0, len(rows) - 1, _PROBED_ITEMS).astype(int).tolist():
        rows[position]
    check_scale(rows, name)
    classes = classes if classes is not None else _find_classes(data)
    if first is not None and first < len(rows):
        if labels is None and (declared := _find_labels(data)) is not None and rows.accept_labels(declared):
            labels = declared
        if labels is not None:
            return Dataset.from_rows(rows, labels, name, classes, UNKNOWN_FINGERPRINT)
        if (prefix := _unsorted_prefix(rows, first)) is not None:
            found = Dataset.from_rows(
                rows.subset(prefix), rows.labels[: len(prefix)], name, classes, UNKNOWN_FINGERPRINT
            )
            return replace(found, whole_classes_present=0)
    if labels is None:
        rows.sha256()
        labels = rows.labels
    return Dataset.from_rows(rows, labels, name, classes)


UNKNOWN_FINGERPRINT = Fingerprint(None, None)
"""Fingerprint of data that were not read completely."""

_PREFIX_ITEMS = 256
"""Number of items that decide if a data set without declared labels is sorted by class."""


def _unsorted_prefix(rows: TorchItems, first: int) -> Tensor | None:
    """Return the positions of the ``first`` items, or None if the data set may be sorted by class."""
    rows.read(torch.arange(min(_PREFIX_ITEMS, len(rows))))
    labels = torch.from_numpy(rows.labels[:_PREFIX_ITEMS])
    if is_sorted(labels) or bool((labels == labels[0]).all()):
        return None
    positions = torch.arange(first)
    rows.read(positions[_PREFIX_ITEMS:])
    return positions


def _find_labels(data: Any) -> NDArray[np.int64] | None:
    """Return the labels ``[N]`` that a data set of torch declares, or None; no item is read."""
    utils = torch.utils.data
    if isinstance(data, utils.Subset):
        whole_set = _find_labels(data.dataset)
        return None if whole_set is None else whole_set[np.asarray(data.indices, np.int64)]
    if isinstance(data, utils.ConcatDataset):
        parts = [part for each in data.datasets if (part := _find_labels(each)) is not None]
        return np.concatenate(parts) if len(parts) == len(data.datasets) else None
    if isinstance(data, utils.TensorDataset):
        return _labels_or_none(data.tensors[1] if len(data.tensors) > 1 else None, len(data))
    return _labels_or_none(getattr(data, "targets", getattr(data, "labels", None)), len(data))


def _labels_or_none(given: Any, count: int) -> NDArray[np.int64] | None:
    """Return ``given`` as labels of ``count`` items, or None if it is something else."""
    try:
        labels = class_numbers(given, "The labels")
    except UserError:
        return None
    return labels if len(labels) == count else None


def _find_classes(data: Any) -> Sequence[str] | int | None:
    """Return the names or the number of the classes that a data set declares, or None."""
    classes = getattr(data, "classes", None)
    if isinstance(classes, Mapping):  # of names to positions
        return sorted(classes, key=classes.__getitem__)
    return list(classes) if isinstance(classes, (tuple, list, np.ndarray)) else integer_or_none(classes)
