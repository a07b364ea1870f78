"""Max pooling between a number of each window and its largest bound."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.certificates.windowed import Shape


@dataclass(frozen=True)
class Picked:
    """Of each window [B, C, h, w]: the position of the number that the maximum is at least (``below``, flat in the
    image), whether it is that number (``sure``), and the largest value it may have (``top``)."""

    below: Tensor
    sure: Tensor
    top: Tensor


@dataclass(frozen=True)
class MaxPool:
    """The maximum over windows ``kernel`` of images, ``stride`` apart, with ``padding`` that never is the maximum.

    It is at least the number of the window with the largest middle, exactly that where no other can be larger, and
    elsewhere at most the largest upper bound.
    """

    kernel: Shape
    stride: Shape
    padding: Shape

    def apply(self, *inputs: Tensor) -> Tensor:
        return F.max_pool2d(inputs[0], self.kernel, self.stride, self.padding)

    def picked(self, low: Tensor, high: Tensor) -> Picked:
        """What is known of each window, of numbers between ``low`` and ``high`` [B, C, H, W]."""
        _, middle = F.max_pool2d((low + high) / 2, self.kernel, self.stride, self.padding, return_indices=True)
        top = self.apply(high)
        least = low.flatten(2).gather(2, middle.flatten(2)).view_as(top)
        others = self._windows(high, -torch.inf)
        position = torch.arange(high[0, 0].numel(), dtype=torch.float64, device=high.device).view(1, 1, *high.shape[2:])
        where = self._windows(position, -1.0)
        rest = torch.where(where == middle.unsqueeze(2), -torch.inf, others).amax(2)
        return Picked(middle, rest <= least, top)

    def _windows(self, x: Tensor, fill: float) -> Tensor:
        """``[B, C, K, h, w]``: the numbers of each window."""
        x = F.pad(x, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]), value=fill)
        cut = x.unfold(2, self.kernel[0], self.stride[0]).unfold(3, self.kernel[1], self.stride[1])
        return cut.flatten(4).movedim(4, 2)

    def back(self, rows: Tensor, picked: Picked, owner: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
        """``rows`` [R, C, h, w] of the maxima as rows of the numbers, and what is added to the lower bound [R]."""
        sure, top = picked.sure[owner], picked.top[owner]
        kept = torch.where(sure | (rows > 0), rows, 0.0)
        fixed = (torch.where(sure | (rows > 0), 0.0, rows) * top).flatten(1).sum(1)
        back = rows.new_zeros(len(rows), shape[0], shape[1] * shape[2])
        back = back.scatter_add(2, picked.below[owner].flatten(2), kept.flatten(2))
        return back.view(len(rows), *shape), fixed
