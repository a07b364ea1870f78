"""Any map-style data set of torch: pairs of an image and a class number, read one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.data.dataset import Dataset, channels_first
from robustatlas.data.pictures import is_grey, pixels_of, stacked
from robustatlas.data.rows import Rows, check_scale, within_range


class OneByOne(Rows):
    """The images of ``data[k] = (image, label)``: tensors or arrays [C, H, W] (floats in [0, 1] or uint8), arrays
    [H, W, C], or pictures of Pillow, in colour where the first one is."""

    def __init__(self, data: Any, name: str) -> None:
        self.data, self.name = data, name
        self.grey: bool | None = None
        self.shape = (len(data), *self._image(0).shape)

    def stored(self, positions: Tensor) -> Tensor:
        found = [self._image(position) for position in positions.tolist()]
        for position, image in zip(positions.tolist(), found, strict=True):
            if tuple(image.shape) != self.shape[1:]:
                raise UserError(
                    f"Image {position} of {self.name!r} has shape {tuple(image.shape)}, and the first one "
                    f"{self.shape[1:]}; bring all to one size (transforms of the data set)."
                )
        images = stacked(found) if found else torch.empty(0, *self.shape[1:])
        return images if images.dtype == torch.uint8 else within_range(images, f"Images of {self.name!r}")

    def _image(self, position: int) -> Tensor:
        image = self.data[position][0]
        if isinstance(image, Image.Image):
            grey = is_grey(image)
            self.grey = grey if self.grey is None else self.grey
            try:
                return torch.from_numpy(pixels_of(image, 1 if grey and self.grey else 3))
            except UserError as error:
                raise UserError(f"Image {position} of {self.name!r}: {error}") from error
        if not isinstance(image, Tensor):
            image = torch.from_numpy(np.array(channels_first(np.asarray(image)[None])[0]))
        return image if image.dtype in (torch.uint8, torch.float64) else image.float()


def of_torch(
    data: torch.utils.data.Dataset[Any],
    name: str | None = None,
    classes: Sequence[str] | None = None,
    labels: NDArray[Any] | Tensor | Sequence[int] | None = None,
) -> Dataset:
    """A map-style data set of torch, whose images are read when they are needed.

    Args:
        data: ``data[k]`` is a pair of an image and a class number; images in [0, 1] or 8-bit, not normalised.
        name: for reports; by default the name of its class.
        classes: names of the classes; by default ``data.classes``.
        labels: ``[N]``; by default ``data.targets`` or ``data.labels``, or else those of all pairs, each read once.

    Returns:
        the same images, [N, ...] in [0, 1], with their labels [N].

    Raises:
        UserError: no length, pairs of another kind, images that differ in size or lie outside of [0, 1].

    Example:
        >>> pairs = torch.utils.data.TensorDataset(torch.rand(4, 3, 8, 8), torch.tensor([0, 1, 1, 0]))
        >>> of_torch(pairs, "pairs").rows.shape
        (4, 3, 8, 8)
    """
    name = name or type(data).__name__
    if not hasattr(data, "__len__") or not len(data):
        raise UserError(f"The data set {name} has no samples, or does not say how many (__len__); give one that does.")
    first = data[0]
    if not isinstance(first, (tuple, list)) or len(first) < 2:
        raise UserError(f"The data set {name} gives a {type(first).__name__}; expected pairs (image, class number).")
    if labels is None:
        labels = getattr(data, "targets", None)
    if labels is None:
        labels = getattr(data, "labels", None)
    if labels is None:
        labels = [int(data[position][1]) for position in range(len(data))]
    known = classes if classes is not None else getattr(data, "classes", None)
    rows = OneByOne(data, name)
    check_scale(rows, name)
    return Dataset.of_rows(rows, labels, name, known)
