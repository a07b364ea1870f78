"""Inter-class distances: the scale against which perturbation sizes of a data set are large or small."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from robustatlas.common.errors import UserError
from robustatlas.metrics.curves import RobustnessCurve

LpNorm = Literal["linf", "l2", "l1"]

_ORDERS = {"linf": np.inf, "l2": 2.0, "l1": 1.0}

_BLOCK = 1024
"""Points on each side of a block of distances, which takes 8 MB in float64."""


@dataclass(frozen=True, eq=False)
class InterclassDistances:
    """For every sample the distance to the nearest sample of another class in the same set.

    Attributes:
        norm: `linf`, `l2` or `l1`, of the difference of flattened images with values in [0, 1].
        per_sample: [N] distances > 0; NaN for corrupted samples.
        nearest: [N] position of the nearest sample of another class; -1 for corrupted samples.
        duplicates: [M, 2] positions of identical images with different labels; passed over in `per_sample`.
        corrupted: [K] positions of images with values that are NaN or infinite; left out.
        constant: [L] positions of images of a single value, which may be corrupted too; not left out.

    Example:
        >>> interclass_distances(np.array([[0.0, 0.0], [0.5, 0.25], [1.0, 1.0]]), [0, 1, 1], norm="l1").smallest
        0.75
    """

    norm: LpNorm
    per_sample: NDArray[np.float64]
    nearest: NDArray[np.int64]
    duplicates: NDArray[np.int64]
    corrupted: NDArray[np.int64]
    constant: NDArray[np.int64]

    @property
    def smallest(self) -> float:
        """Smallest distance of any sample.

        Perturbed by less than half of it, every sample is still nearer to itself than to any of another class.
        """
        return float(np.nanmin(self.per_sample))

    @property
    def largest(self) -> float:
        """Largest distance of any sample to its nearest one of another class."""
        return float(np.nanmax(self.per_sample))

    def distribution(self) -> RobustnessCurve:
        """Return the distribution of the distances: share of samples with another class within a size (Figure 5)."""
        return RobustnessCurve(
            self.per_sample[~np.isnan(self.per_sample)], attack=self.norm, unit="distance to another class"
        )


def interclass_distances(
    images: ArrayLike,
    labels: ArrayLike,
    norm: LpNorm = "linf",
    progress: Callable[[float], None] | None = None,
) -> InterclassDistances:
    """Return distance of every sample to the nearest sample of another class, exactly.

    Memory grows linearly with the number of samples. Distances are computed in float64.

    Args:
        images: [N, ...] uint8, or floats in [0, 1]; uint8 is divided by 255. Floats that are all multiples of 1/255, as
            those of image files are, are taken for the exact multiples.
        labels: [N] classes.
        norm: `linf`, `l2` or `l1`.
        progress: called with the share of the work that is done, in (0, 1].

    Returns:
        the distances [N], with the nearest sample of each, and the samples that were left out or passed over.

    Raises:
        UserError: where images and labels do not fit, values lie outside [0, 1], or there is only one class.

    Source: Risse et al. 2021, section 3.3 and Table 2.

    Example:
        >>> images = np.array([[0.0, 0.0], [0.5, 0.25], [1.0, 1.0]])
        >>> distances = interclass_distances(images, [0, 1, 1], norm="linf")
        >>> distances.per_sample, distances.nearest
        (array([0.5, 0.5, 1. ]), array([1, 0, 0]))
    """
    if norm not in get_args(LpNorm):
        raise UserError(f"There is no norm {norm!r}; the norms are {', '.join(get_args(LpNorm))}.")
    pixels, classes = np.asarray(images), np.asarray(labels)
    _check_shapes(pixels, classes)
    flat = pixels.reshape(len(pixels), -1)
    kept = np.arange(len(flat))
    if flat.dtype != np.uint8:
        flat = flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float64)
        kept = np.flatnonzero(np.isfinite(flat).all(axis=1))
        _check_range(flat[kept])
    points = _as_bytes(flat[kept])
    if len(np.unique(classes[kept])) < 2:
        raise UserError("Samples of at least two classes are expected, so that there is another class to be near to.")

    found = _nearest_of_other_class(points, classes[kept], norm, progress)
    per_sample = np.full(len(flat), np.nan)
    per_sample[kept] = found.distances / (255.0 if points.dtype == np.uint8 else 1.0)
    nearest = np.full(len(flat), -1)
    nearest[kept] = np.where(found.positions >= 0, kept[found.positions], -1)
    return InterclassDistances(
        norm=norm,
        per_sample=per_sample,
        nearest=nearest,
        duplicates=kept[found.duplicates],
        corrupted=np.setdiff1d(np.arange(len(flat)), kept),
        constant=np.flatnonzero((flat == flat[:, :1]).all(axis=1)),
    )


@dataclass(frozen=True)
class _Neighbours:
    """Distance [N] and position [N] of the nearest point of another class (inf and -1 where there is none), and the
    positions [M, 2] of identical points of different classes."""

    distances: NDArray[np.float64]
    positions: NDArray[np.int64]
    duplicates: NDArray[np.int64]


def _nearest_of_other_class(
    points: NDArray[np.generic],
    classes: NDArray[np.integer[Any]],
    norm: LpNorm,
    progress: Callable[[float], None] | None,
) -> _Neighbours:
    """Compare all points [N, D] of different classes [N], a block of pairs at a time."""
    import torch  # here, because the other metrics work without torch

    integers = points.dtype == np.uint8
    # Sums of integers below 2**24 are exact in float32, which is twice as fast.
    exact_in_float32 = integers and (norm == "linf" or (norm == "l1" and 255 * points.shape[1] < 2**24))
    dtype = torch.float32 if exact_in_float32 else torch.float64
    # The product of matrices loses the digits of near points, but is exact for integers: squares stay below 2**53.
    mode = "use_mm_for_euclid_dist" if integers else "donot_use_mm_for_euclid_dist"

    order = np.argsort(classes, kind="stable")
    ordered = torch.from_numpy(np.ascontiguousarray(points[order]))
    blocks = list(_blocks_between_classes(classes[order]))
    nearest = np.full(len(order), np.inf)
    position = np.full(len(order), -1)
    identical: list[NDArray[np.int64]] = [np.empty((0, 2), np.int64)]
    for done, (rows, columns) in enumerate(blocks, start=1):
        distances = torch.cdist(ordered[rows].to(dtype), ordered[columns].to(dtype), _ORDERS[norm], mode)
        same = distances == 0
        if same.any():
            identical.append(order[same.nonzero().numpy() + np.array((rows.start, columns.start))])
            distances[same] = torch.inf
        # Each pair is compared once, so a block has neighbours of the points on both of its sides.
        for side, other, (found, index) in (
            (rows, columns, distances.min(dim=1)),
            (columns, rows, distances.min(dim=0)),
        ):
            nearer = found.numpy() < nearest[side]
            nearest[side][nearer] = found.numpy()[nearer]
            position[side][nearer] = order[other][index.numpy()[nearer]]
        if progress is not None:
            progress(done / len(blocks))

    distance = np.empty_like(nearest)
    distance[order] = nearest
    positions = np.empty_like(position)
    positions[order] = position
    duplicates = np.sort(np.concatenate(identical), axis=1)
    return _Neighbours(distance, positions, duplicates[np.lexsort(duplicates.T[::-1])])


def _blocks_between_classes(classes: NDArray[np.integer[Any]]) -> Iterator[tuple[slice, slice]]:
    """Yield blocks of pairs of points, rows of one class and columns of later ones, of ordered ``classes`` [N]."""
    count, (_, starts) = len(classes), np.unique(classes, return_index=True)
    for start, end in pairwise(starts.tolist()):
        for row in range(start, end, _BLOCK):
            for column in range(end, count, _BLOCK):
                yield slice(row, min(row + _BLOCK, end)), slice(column, min(column + _BLOCK, count))


def _as_bytes(values: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return floats in [0, 1] that are multiples of 1/255 as uint8, whose distances are exact; all others as they
    are.
    """
    if values.dtype == np.uint8:
        return values
    scaled = np.multiply(values, 255)
    rounded = np.round(scaled)
    return rounded.astype(np.uint8) if np.allclose(scaled, rounded, rtol=0, atol=1e-4) else values


def _check_shapes(images: NDArray[np.generic], labels: NDArray[np.generic]) -> None:
    if images.ndim < 2 or images.size == 0:
        raise UserError(f"Images [N, ...] are expected; given an array of shape {images.shape}.")
    if not (np.issubdtype(images.dtype, np.integer) or images.dtype.kind in "fb"):
        raise UserError(f"Images are expected to be real numbers; given {images.dtype}.")
    if labels.shape != (len(images),):
        raise UserError(f"One label for each of the {len(images)} images is expected; given labels {labels.shape}.")
    if not np.issubdtype(labels.dtype, np.integer):
        raise UserError(f"Labels are expected to be integers; given {labels.dtype}.")


def _check_range(values: NDArray[np.generic]) -> None:
    if values.size and (float(values.min()) < 0 or float(values.max()) > 1):
        raise UserError(
            f"Image values lie between {float(values.min()):g} and {float(values.max()):g}; floats in [0, 1] or uint8 "
            "are expected: divide by 255, and leave normalisation to the classifier."
        )
