"""Inputs of a data set that are read on demand, so that they need not all be in memory."""

from __future__ import annotations

import hashlib
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.host import check_default_device

Index = int | slice | Tensor | NDArray[Any] | Sequence[int]

_CHUNK_BYTES = 2**26


class Rows(ABC):
    """Base of N inputs in [0, 1] that are read on demand: ``rows[3]``, ``rows[:8]``, ``rows[positions]``.

    Attributes:
        shape: ``(N, C, H, W)``, or any ``(N, ...)`` for inputs that are not images.

    Example:
        >>> rows = InMemory(torch.tensor([[0, 51], [102, 255]], dtype=torch.uint8))
        >>> rows.shape, rows[1].tolist(), rows.read(torch.tensor([0])).dtype
        ((2, 2), [0.4000000059604645, 1.0], torch.uint8)
    """

    shape: tuple[int, ...]

    @abstractmethod
    def read(self, positions: Tensor) -> Tensor:
        """Return the inputs ``[B, ...]`` at ``positions`` (int64 [B]): uint8 in 0..255 or floats in [0, 1]."""

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Index) -> Tensor:
        """Return inputs as floats in [0, 1]: ``[...]`` for one position, ``[B, ...]`` for several."""
        if isinstance(index, int):
            return as_inputs(self.read(torch.tensor([range(len(self))[index]])))[0]
        if isinstance(index, slice):
            index = torch.arange(*index.indices(len(self)))
        return as_inputs(self.read(torch.as_tensor(index)))

    def subset(self, positions: Tensor) -> Rows:
        """Return the rows at ``positions`` (int64 [M]), in that order."""
        return _Subset(self, positions)

    def chunks(self) -> Iterator[Tensor]:
        """Yield all inputs in order as floats in [0, 1], in chunks of limited memory."""
        count = max(1, _CHUNK_BYTES // (4 * max(1, int(np.prod(self.shape[1:])))))
        for first in range(0, len(self), count):
            yield self[first : first + count]

    def sha256(self) -> str:
        """Return the hash of all inputs as floats, equal to ``sha256_of_array`` of them.

        It depends neither on the device nor on the type in which they are stored.
        """
        digest = hashlib.sha256()
        for number, chunk in enumerate(self.chunks()):
            values = chunk.detach().cpu().contiguous().numpy()
            if number == 0:
                digest.update(f"{values.dtype.str}{self.shape}".encode())
            digest.update(values.data)
        return digest.hexdigest()


class InMemory(Rows):
    """Inputs in memory.

    Args:
        values: [N, ...], uint8 in 0..255 or floats in [0, 1].

    Example:
        >>> InMemory(torch.zeros(2, 1, 4, 4, dtype=torch.uint8)).shape
        (2, 1, 4, 4)
    """

    def __init__(self, values: Tensor) -> None:
        self.values = (
            values.clone() if values.is_inference() else values
        )  # inference tensors cannot be used in training
        self.shape = tuple(values.shape)

    def read(self, positions: Tensor) -> Tensor:
        return self.values[positions.to(self.values.device)]

    def __getitem__(self, index: Index) -> Tensor:
        return as_inputs(self.values[index]) if isinstance(index, slice) else super().__getitem__(index)

    def subset(self, positions: Tensor) -> Rows:
        return InMemory(self.read(positions))


class _Subset(Rows):
    def __init__(self, rows: Rows, positions: Tensor) -> None:
        self.rows, self.positions = rows, positions
        self.shape = (len(positions), *rows.shape[1:])

    def read(self, positions: Tensor) -> Tensor:
        return self.rows.read(self.positions[positions])


def as_inputs(stored: Tensor) -> Tensor:
    """Convert the result of :meth:`Rows.read` to floats in [0, 1].

    Args:
        stored: [B, ...], uint8 in 0..255 or floats in [0, 1].

    Returns:
        floats [B, ...] in [0, 1].

    Example:
        >>> as_inputs(torch.tensor([[0, 51, 255]], dtype=torch.uint8))
        tensor([[0.0000, 0.2000, 1.0000]])
    """
    if stored.dtype != torch.uint8:
        return stored
    if stored.device.type == "cpu":
        return stored.to(torch.float32).div_(255)
    # Division on an accelerator may round differently: a table made on the CPU gives the same numbers everywhere.
    values = torch.arange(256, dtype=torch.float32).div_(255).to(stored.device)
    return values[stored.int()]


ROUNDING_TOLERANCE = 1e-6
"""Images may lie outside of [0, 1] by this much: rounding errors of a conversion or a resizing in float32."""

_PROBED_ROWS = 4096
"""Number of rows that are searched for a pixel other than 0 and 1."""


def clip_to_unit_range(values: Tensor, whose: str) -> Tensor:
    """Return floats [B, ...] clipped to [0, 1], and warn if a rounding error had to be clipped.

    Raises:
        UserError: values that are not finite, or further outside than a rounding error.

    >>> clip_to_unit_range(torch.tensor([0.5, 1.0]), "Images of 'mine'")
    tensor([0.5000, 1.0000])
    """
    if not values.numel():
        return values
    if not bool(values.isfinite().all()):
        raise UserError(f"{whose} hold NaN or infinite values; they must lie in [0, 1].")
    low, high = (float(value) for value in values.aminmax())
    if low >= 0 and high <= 1:
        return values
    found = f"{low:.9g}..{high:.9g}"
    if low < -ROUNDING_TOLERANCE or high > 1 + ROUNDING_TOLERANCE:
        if low >= -0.1 and high <= 1.1:
            hint = "clip them, where that is rounding or resizing: images.clip(0, 1)"
        elif low >= 0 and high <= 255:
            hint = "divide by 255 or store them as uint8"
        else:
            hint = "undo their normalisation, and give mean and std to Classifier"
        raise UserError(f"{whose} must lie in [0, 1], got {found}; {hint}.")
    warnings.warn(f"{whose} lie in {found}; what is outside of [0, 1] by rounding is set to 0 and 1.", stacklevel=2)
    return values.clamp(0, 1)


def check_scale(rows: Rows, name: str) -> None:
    """Check that the scale of 8-bit images is known.

    Raises:
        UserError: they have only the values 0 and 1; or torch's default device holds no numbers.
    """
    check_default_device()
    brightest = 0
    for first in range(0, min(len(rows), _PROBED_ROWS), 64):
        values = rows.read(torch.arange(first, min(len(rows), first + 64)))
        if values.dtype != torch.uint8:
            return
        brightest = max(brightest, int(values.max()))
        if brightest > 1:
            return
    if brightest == 1:
        raise UserError(two_values_message(f"Images of {name!r}"))


def two_values_message(whose: str) -> str:
    """Return the message about integer images that have only the values 0 and 1."""
    return (
        f"{whose} are integers and hold only 0 and 1: is 1 white, or 1 of 255? Where it is white, give them as "
        "images.astype('float32'); where it is almost black, as images.astype('float32') / 255."
    )
