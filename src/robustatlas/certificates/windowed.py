"""Coefficients that are 0 outside of a window of a layer: a number of a convolution depends on few of its input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Shape = tuple[int, ...]
"""The shape of one sample, without the batch."""


@dataclass(frozen=True)
class Windowed:
    """Rows of coefficients of the numbers of a layer.

    Attributes:
        values: ``[R, C, h, ...]``, of the numbers in the window.
        shape: ``(C, H, ...)`` of the layer.
        window: a range of each side of the layer but the first; elsewhere coefficients are 0.

    Example:
        >>> one = Windowed(torch.ones(1, 2, 1), (2, 4), (slice(2, 3),))
        >>> one.dense().tolist(), (one + Windowed.full(torch.ones(1, 2, 4))).values.tolist()
        ([[[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]], [[[1.0, 1.0, 2.0, 1.0], [1.0, 1.0, 2.0, 1.0]]])
    """

    values: Tensor
    shape: Shape
    window: tuple[slice, ...]

    @classmethod
    def full(cls, values: Tensor) -> Windowed:
        """Return coefficients of all numbers of a layer."""
        return cls(values, tuple(values.shape[1:]), tuple(slice(0, side) for side in values.shape[2:]))

    @classmethod
    def units(cls, places: Tensor, shape: Shape, like: Tensor) -> Windowed:
        """Return rows of one number each, at ``places`` [R] of the flattened layer, in a window around all of them."""
        at = torch.unravel_index(places, shape)
        window = tuple(slice(int(side.min()), int(side.max()) + 1) for side in at[1:])
        values = like.new_zeros(len(places), shape[0], *(part.stop - part.start for part in window))
        inside = (side - part.start for side, part in zip(at[1:], window, strict=True))
        values[(torch.arange(len(places), device=places.device), at[0], *inside)] = 1.0
        return cls(values, shape, window)

    def crop(self, layer: Tensor) -> Tensor:
        """Return the part in the window of a tensor ``[..., C, H, ...]``, or of one that is broadcast to such."""
        for side, part in enumerate(self.window, -len(self.window)):
            if layer.dim() >= -side and layer.shape[side] > 1:
                layer = layer.narrow(side, part.start, part.stop - part.start)
        return layer

    def dense(self) -> Tensor:
        """Return all coefficients ``[R, C, H, ...]``."""
        return self._padded_values(tuple(slice(0, side) for side in self.shape[1:]))

    def with_values(self, values: Tensor) -> Windowed:
        """Return other values in the same window."""
        return Windowed(values, self.shape, self.window)

    def summed_to(self, shape: Shape) -> Windowed:
        """Return rows of a layer of the ``shape``, of which this one repeats the sides that are 1: the sums over them.

        Example:
            >>> Windowed.full(torch.ones(1, 3, 2)).summed_to((1, 2)).values.tolist()
            [[[3.0, 3.0]]]
        """
        sides = [side for side, (one, other) in enumerate(zip(shape, self.shape, strict=True)) if one < other]
        if not sides:
            return self
        window = tuple(slice(0, 1) if side in sides else part for side, part in enumerate(self.window, 1))
        return Windowed(self.values.sum([side + 1 for side in sides], keepdim=True), shape, window)

    def __add__(self, other: Windowed) -> Windowed:
        window = tuple(
            slice(min(one.start, two.start), max(one.stop, two.stop))
            for one, two in zip(self.window, other.window, strict=True)
        )
        return Windowed(self._padded_values(window) + other._padded_values(window), self.shape, window)

    def _padded_values(self, window: tuple[slice, ...]) -> Tensor:
        """Return the values in a window around this one."""
        if window == self.window:
            return self.values
        pads = [
            pad
            for mine, whole in zip(reversed(self.window), reversed(window), strict=True)
            for pad in (mine.start - whole.start, whole.stop - mine.stop)
        ]
        return F.pad(self.values, pads)


def lowest_on_boxes(rows: Windowed, low: Tensor, high: Tensor, owner: Tensor) -> Tensor:
    """Return the smallest values [R] of rows on boxes ``low`` to ``high`` [B, ...], each on that of its ``owner``."""
    values = rows.values
    lowest = values.clamp_min(0) * rows.crop(low)[owner] + values.clamp_max(0) * rows.crop(high)[owner]
    return lowest.flatten(1).sum(1)


def neighbouring_places(place: Tensor, shape: Shape, most: int) -> Iterator[Tensor]:
    """Yield positions in ``place`` [R], of numbers of a layer, that go backwards together: at most ``most``, near each
    other in the image, so that a window around them is small."""
    position = place % torch.Size(shape[1:]).numel()
    return (part for part in torch.split(position.argsort(stable=True), most) if len(part))
