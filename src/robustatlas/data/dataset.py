"""Data sets: inputs in [0, 1] with their labels and a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError, shorten
from robustatlas.common.scalars import integer_or_none
from robustatlas.data.arrays import to_array
from robustatlas.data.labels import choose_positions, class_numbers
from robustatlas.data.rows import InMemory, Rows, check_scale, clip_to_unit_range, two_values_message
from robustatlas.outcomes import sha256_of_array

_CHANNELS = (1, 3)
_ALPHA = (2, 4)
"""Numbers of channels of grey and colour images with transparency."""


@dataclass(frozen=True)
class Fingerprint:
    """SHA-256 of the images and of the labels; equal for data sets with the same numbers.

    Attributes:
        images_sha256: hash of all images: their type, shape and values; None: not all were read.
        labels_sha256: hash of all labels; None: not all were read.

    Example:
        >>> one, two = (Dataset.from_arrays(torch.zeros(2, 1, 4, 4), torch.tensor([0, 1]), name) for name in ("a", "b"))
        >>> one.fingerprint == two.fingerprint
        True
    """

    images_sha256: str | None
    labels_sha256: str | None

    @classmethod
    def compute(cls, images: Tensor | Rows, labels: Tensor) -> Fingerprint:
        """Compute the fingerprint of ``images`` [N, ...] as floats and ``labels`` [N] as int64.

        It depends neither on the device nor on the type in which they are stored.
        """
        rows = images if isinstance(images, Rows) else InMemory(images)
        return cls(rows.sha256(), sha256_of_array(labels.detach().long().cpu().contiguous().numpy()))


@dataclass(frozen=True, eq=False)
class Beginning:
    """First samples of a whole data set; all of its subsets share them.

    Attributes:
        images: ``[M, ...]`` in [0, 1].
        labels: int64 ``[M]``.
        index: their positions: 0, 1, ..., or others if the whole data set is not available.

    Example:
        >>> data = Dataset.from_arrays(np.zeros((20, 8, 8), np.uint8), np.zeros(20, int), "mine")
        >>> data.take(3).beginning.index
        (0, 1, 2, 3, 4, 5, 6, 7)
    """

    images: Tensor
    labels: Tensor
    index: tuple[int, ...]

    COUNT: ClassVar[int] = 8

    @classmethod
    def read(cls, rows: Rows, labels: Tensor, index: Tensor) -> Beginning:
        """Read the first samples of ``rows`` with their ``labels`` and positions ``index``."""
        return cls(rows[: cls.COUNT], labels[: cls.COUNT].long(), tuple(index[: cls.COUNT].tolist()))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Inputs in [0, 1] and their labels.

    Attributes:
        rows: the inputs, read on demand; see :class:`~robustatlas.data.rows.Rows`.
        labels: int64 ``[N]``, positions in ``classes``.
        name: name in reports.
        classes: names of the classes.
        index: int64 ``[N]``, positions in the whole data set (0, 1, ... unless this is a subset).
        whole: the fingerprint of the whole data set, or a function that computes it; None: it is that of these samples.
        first: the first samples of the whole data set, if this is a subset.
        whole_classes_present: number of classes with samples in the whole data set, if this is a subset.

    Example:
        >>> data = Dataset.from_arrays(np.zeros((4, 8, 8), np.uint8), np.array([0, 1, 1, 0]), "mine")
        >>> data.images.shape, data.take(2).labels.tolist()
        (torch.Size([4, 1, 8, 8]), [0, 1])
    """

    rows: Rows
    labels: Tensor
    name: str
    classes: tuple[str, ...]
    index: Tensor
    whole: Fingerprint | Callable[[], Fingerprint] | None = None
    first: Beginning | None = None
    whole_classes_present: int | None = None

    @cached_property
    def classes_present(self) -> int:
        """Number of classes with samples in the whole data set, for subsets too."""
        return len(torch.unique(self.labels)) if self.whole_classes_present is None else self.whole_classes_present

    @cached_property
    def beginning(self) -> Beginning:
        """First samples of the whole data set, for subsets too."""
        return self.first or Beginning.read(self.rows, self.labels, self.index)

    @cached_property
    def images(self) -> Tensor:
        """All inputs in memory: float32 ``[N, C, H, W]`` in [0, 1] (any ``[N, ...]`` for inputs other than images)."""
        return self.rows[:]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input: ``(C, H, W)`` for images."""
        return self.rows.shape[1:]

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Fingerprint of all images and labels of the whole data set, for subsets too; computed once."""
        if self.whole is None:
            return Fingerprint.compute(self.rows, self.labels)
        return self.whole() if callable(self.whole) else self.whole

    @classmethod
    def from_arrays(
        cls,
        images: NDArray[Any] | Tensor,
        labels: NDArray[Any] | Tensor | Sequence[int],
        name: str = "data",
        classes: Sequence[str] | int | None = None,
    ) -> Dataset:
        """Check arrays and return them as a data set.

        Args:
            images: uint8 0..255 (NHWC, NCHW or NHW) or floating point in [0, 1] (NCHW, NHWC, NHW, or any ``[N, ...]``).
            labels: ``[N]``: class numbers in 0..classes-1, or names that are among ``classes``.
            name: name in reports.
            classes: names of the classes, or their number; default: "0", "1", ...

        Raises:
            UserError: empty, not matching, NaN, outside [0, 1], labels that are not integers or out of range.
        """
        rows = InMemory(_check_images(to_array(images), name))
        check_scale(rows, name)
        return cls.from_rows(rows, labels, name, classes)

    @classmethod
    def from_rows(
        cls,
        rows: Rows,
        labels: NDArray[Any] | Tensor | Sequence[int],
        name: str = "data",
        classes: Sequence[str] | int | None = None,
        fingerprint: Fingerprint | Callable[[], Fingerprint] | None = None,
    ) -> Dataset:
        """Return a data set with labels in memory and inputs that are read on demand.

        Args:
            rows: the inputs.
            labels: integers ``[N]`` in 0..classes-1.
            name: name in reports.
            classes: names of the classes, or their number; default: "0", "1", ...
            fingerprint: if it is known, or a function that computes it; default: all inputs are read once for it.

        Raises:
            UserError: not matching, labels that are not integers or out of range.

        Example:
            >>> class Drawn(Rows):
            ...     shape = (1_000_000, 3, 224, 224)
            ...     def read(self, positions):
            ...         return torch.zeros(len(positions), *self.shape[1:], dtype=torch.uint8)
            >>> data = Dataset.from_rows(Drawn(), np.zeros(1_000_000, int), "drawn")
            >>> len(data), data.rows[:2].shape
            (1000000, torch.Size([2, 3, 224, 224]))
        """
        names = classes if isinstance(classes, Collection) and not isinstance(classes, str) else ()
        targets = torch.from_numpy(class_numbers(labels, f"Labels of {name!r}", [str(each) for each in names]))
        if len(rows) != len(targets):
            raise UserError(f"Data set {name!r} has {len(rows)} images but {len(targets)} labels; give one each.")
        if (count := integer_or_none(classes)) is not None:
            classes = [str(label) for label in range(count)]
        if classes is None:
            classes = [str(label) for label in range(int(targets.max()) + 1)]
        if isinstance(classes, str) or not isinstance(classes, Collection):
            raise UserError(f"classes={shorten(repr(classes))}; expected names of classes, or how many there are.")
        if int(targets.min()) < 0 or int(targets.max()) >= len(classes):
            raise UserError(
                f"Labels of {name!r} must lie in 0..{len(classes) - 1} ({len(classes)} classes), "
                f"got {int(targets.min())}..{int(targets.max())}."
            )
        return cls(rows, targets, name, tuple(str(c) for c in classes), torch.arange(len(targets)), fingerprint)

    def take(self, count: int | None, stratified: bool | None = None, seed: int = 0) -> Dataset:
        """Return a subset of ``count`` samples, or all samples for None.

        Args:
            count: number of samples.
            stratified: True for a random choice with the classes in the proportions of the whole, in their order in
                the data set; False for the first samples. Default: True only for data that are sorted by class.
            seed: of the random choice.

        Raises:
            UserError: ``count`` is less than 1 or more than the data set has.
        """
        if count is None:
            return self
        asked = integer_or_none(count)
        if asked is None or not 1 <= asked <= len(self):
            raise UserError(f"Data set {self.name!r} has {len(self)} samples; ask for 1 to {len(self)}, not {count!r}.")
        return self.subset(choose_positions(self.labels, self.index, asked, seed, stratified))

    def subset(self, positions: Tensor) -> Dataset:
        """Return the samples at ``positions`` (int64 [M]), in that order."""
        return replace(
            self,
            rows=self.rows.subset(positions),
            labels=self.labels[positions],
            index=self.index[positions],
            whole=self.fingerprint,
            first=self.beginning,
            whole_classes_present=self.classes_present,
        )

    def count_shared_images(self, other: Dataset) -> int:
        """Return the number of images that ``other`` also contains with equal values.

        Example:
            >>> whole = Dataset.from_arrays(np.arange(64, dtype=np.uint8).reshape(4, 4, 4), [0, 1, 0, 1], "mine")
            >>> whole.take(3).count_shared_images(whole), len(whole.take(3))
            (3, 3)
        """
        if self.shape != other.shape:
            return 0
        known = set(_hash_images(other.rows))
        return sum(image in known for image in _hash_images(self.rows))


def _hash_images(rows: Rows) -> Iterator[bytes]:
    for chunk in rows.chunks():
        for image in chunk.cpu().numpy():
            yield hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).digest()


def _check_images(images: NDArray[Any], name: str) -> Tensor:
    if images.ndim < 2 or images.size == 0:
        raise UserError(f"Images of {name!r} must be a non-empty array [N, ...], got shape {images.shape}.")
    if images.dtype == np.uint8:
        return torch.from_numpy(np.array(channels_first(images), order="C"))
    if not np.issubdtype(images.dtype, np.floating):
        if images.dtype.kind in "bi" and images.max() == 1 and images.min() >= 0:
            raise UserError(two_values_message(f"Images of {name!r}"))
        raise UserError(f"Images of {name!r} must be uint8 in 0..255 or floats in [0, 1], got {images.dtype}.")
    values = torch.from_numpy(np.array(channels_first(images), dtype=np.float32, order="C"))
    return clip_to_unit_range(values, f"Images of {name!r}")


def check_transparency(shape: Sequence[int]) -> None:
    """Raise :class:`UserError` if an 8-bit image has the ``shape`` [H, W, 2] or [H, W, 4]."""
    if len(shape) == 3 and shape[2] in _ALPHA and shape[0] > max(_ALPHA):
        raise UserError(
            f"An image has shape {tuple(shape)}: {shape[2]} channels, the last of them alpha? Give grey or RGB, "
            "such as images[..., :-1] or picture.convert('RGB')."
        )


def channels_first(images: NDArray[Any]) -> NDArray[Any]:
    """Return images [N, H, W] or [N, H, W, C] as [N, C, H, W], and others unchanged.

    Raises:
        UserError: 8-bit images [N, H, W, 2] or [N, H, W, 4], which have transparency.
    """
    if images.ndim == 3:
        return images[:, None]
    if images.dtype == np.uint8:
        check_transparency(images.shape[1:])
    if images.ndim == 4 and images.shape[1] not in _CHANNELS and images.shape[3] in _CHANNELS:
        return images.transpose(0, 3, 1, 2)
    return images
