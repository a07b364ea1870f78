"""Coefficients that are 0 outside of a window of a layer: a number of a convolution depends on few of its input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Shape = tuple[int, ...]
"""Of one sample, without the batch."""


@dataclass(frozen=True)
class Windowed:
    """Rows of coefficients of the numbers of a layer.

    Attributes:
        values: ``[R, C, h, ...]``, of the numbers in the window.
        shape: ``(C, H, ...)`` of the layer.
        window: of each side of the layer but the first, from where to where; elsewhere coefficients are 0.

    Example:
        >>> one = Windowed(torch.ones(1, 2, 1), (2, 4), (slice(2, 3),))
        >>> one.whole().tolist(), (one + Windowed.all(torch.ones(1, 2, 4))).values.tolist()
        ([[[0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]]], [[[1.0, 1.0, 2.0, 1.0], [1.0, 1.0, 2.0, 1.0]]])
    """

    values: Tensor
    shape: Shape
    window: tuple[slice, ...]

    @classmethod
    def all(cls, values: Tensor) -> Windowed:
        """Of all numbers of a layer."""
        return cls(values, tuple(values.shape[1:]), tuple(slice(0, side) for side in values.shape[2:]))

    @classmethod
    def units(cls, places: Tensor, shape: Shape, like: Tensor) -> Windowed:
        """``[R, ...]``: of each row one number, at ``places`` [R] of the flattened layer, in a window around all."""
        at = torch.unravel_index(places, shape)
        window = tuple(slice(int(side.min()), int(side.max()) + 1) for side in at[1:])
        values = like.new_zeros(len(places), shape[0], *(part.stop - part.start for part in window))
        inside = (side - part.start for side, part in zip(at[1:], window, strict=True))
        values[(torch.arange(len(places), device=places.device), at[0], *inside)] = 1.0
        return cls(values, shape, window)

    def of(self, layer: Tensor) -> Tensor:
        """What a tensor ``[..., C, H, ...]``, or one that is broadcast to such, has in the window."""
        for side, part in enumerate(self.window, -len(self.window)):
            if layer.dim() >= -side and layer.shape[side] > 1:
                layer = layer.narrow(side, part.start, part.stop - part.start)
        return layer

    def whole(self) -> Tensor:
        """``[R, C, H, ...]``."""
        return self._in(tuple(slice(0, side) for side in self.shape[1:]))

    def but(self, values: Tensor) -> Windowed:
        """Others of the same window."""
        return Windowed(values, self.shape, self.window)

    def repeated(self, shape: Shape) -> Windowed:
        """Rows of a layer of the ``shape``, of which this one repeats the sides that are 1: what is added up there.

        Example:
            >>> Windowed.all(torch.ones(1, 3, 2)).repeated((1, 2)).values.tolist()
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
        return Windowed(self._in(window) + other._in(window), self.shape, window)

    def _in(self, window: tuple[slice, ...]) -> Tensor:
        """In a window around this one."""
        if window == self.window:
            return self.values
        pads = [
            pad
            for mine, whole in zip(reversed(self.window), reversed(window), strict=True)
            for pad in (mine.start - whole.start, whole.stop - mine.stop)
        ]
        return F.pad(self.values, pads)


def least(rows: Windowed, low: Tensor, high: Tensor, owner: Tensor) -> Tensor:
    """``[R]``: the smallest values of rows on boxes ``low`` to ``high`` [B, ...], each of its ``owner`` [R]."""
    values = rows.values
    lowest = values.clamp_min(0) * rows.of(low)[owner] + values.clamp_max(0) * rows.of(high)[owner]
    return lowest.flatten(1).sum(1)


def side_by_side(place: Tensor, shape: Shape, most: int) -> Iterator[Tensor]:
    """Which of the numbers of a layer, at ``place`` [R], to take together: at most so many, near each other in the
    image, so that a window around them is small."""
    position = place % torch.Size(shape[1:]).numel()
    return (part for part in torch.split(position.argsort(stable=True), most) if len(part))
