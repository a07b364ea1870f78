"""Operations of networks, as bounds see them: affine ones, their transposes, and what rounding may add.

Every operation takes tensors ``[B, ...]``. An affine one is also run backwards: coefficients ``[R, ...]`` of its output
become coefficients of each of its inputs, within windows where it keeps these.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.certificates.windowed import Shape, Windowed

Count = int | Tensor


def accumulated_error(terms: Count, unit: float) -> float | Tensor:
    """Return the relative error, at most, of a sum of ``terms`` products, in whatever order: n u / (1 - n u).

    Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.1.

    Example:
        >>> accumulated_error(1000, 2.0**-24) < 6e-5
        True
    """
    return terms * unit / (1 - terms * unit)


class AffineOperation(ABC):
    """An operation x -> W x + b of one or more inputs."""

    terms: int
    """Products that are summed for one number of the output; 0: there is no arithmetic."""
    noise: float = 0.0
    """By how much each number of the output may be off besides, at most."""

    @abstractmethod
    def apply(self, *inputs: Tensor) -> Tensor:
        """Return W x + b."""

    @abstractmethod
    def spread(self, *widths: Tensor) -> Tensor:
        """Return |W| r, of widths r >= 0."""

    @abstractmethod
    def transpose(self, rows: Windowed, shapes: tuple[Shape, ...]) -> tuple[Windowed, ...]:
        """Return ``rows`` [R, ...] times W, for each input of the ``shapes``."""

    def count(self, *largest: Tensor) -> Count:
        """Return the number of products that are summed, but for those with numbers whose ``largest`` |x| is 0."""
        return self.terms

    def size(self, *largest: Tensor) -> Tensor:
        """Return |W| |x| + |b|, which rounding is relative to, given the ``largest`` |x|."""
        zeros = [torch.zeros_like(each[:1]) for each in largest]
        return self.spread(*largest) + self.apply(*zeros).abs()

    def largest_sum(self, size: Tensor) -> Tensor:
        """Return how large sums may become on the way to numbers of a :meth:`size`."""
        return size


@dataclass(frozen=True)
class Dense(AffineOperation):
    """A linear layer on the last dimension: ``weight`` [O, I], ``bias`` [O]."""

    weight: Tensor
    bias: Tensor | None

    @property
    def terms(self) -> int:  # type: ignore[override]
        return self.weight.shape[1] + 1

    def apply(self, *inputs: Tensor) -> Tensor:
        return F.linear(inputs[0], self.weight, self.bias)

    def spread(self, *widths: Tensor) -> Tensor:
        return F.linear(widths[0], self.weight.abs())

    def transpose(self, rows: Windowed, shapes: tuple[Shape, ...]) -> tuple[Windowed, ...]:
        return (Windowed.full(rows.dense() @ self.weight),)

    def count(self, *largest: Tensor) -> Count:
        return (largest[0] > 0).sum(-1, keepdim=True) + 1


# By the number of sides of an image.
_CONVOLUTIONS: dict[int, tuple[Callable[..., Tensor], Callable[..., Tensor]]] = {
    1: (F.conv1d, F.conv_transpose1d),
    2: (F.conv2d, F.conv_transpose2d),
    3: (F.conv3d, F.conv_transpose3d),
}


@dataclass(frozen=True)
class Convolution(AffineOperation):
    """A convolution with zeros around: ``weight`` [O, I / groups, ...], ``bias`` [O]."""

    weight: Tensor
    bias: Tensor | None
    stride: Shape
    padding: Shape
    dilation: Shape
    groups: int

    @property
    def terms(self) -> int:  # type: ignore[override]
        return self.weight[0].numel() + 1

    def apply(self, *inputs: Tensor) -> Tensor:
        return self._run(inputs[0], self.weight, self.bias)

    def spread(self, *widths: Tensor) -> Tensor:
        return self._run(widths[0], self.weight.abs(), None)

    def count(self, *largest: Tensor) -> Count:
        return self._run((largest[0] > 0).to(largest[0].dtype), torch.ones_like(self.weight), None) + 1

    def transpose(self, rows: Windowed, shapes: tuple[Shape, ...]) -> tuple[Windowed, ...]:
        transposed = _CONVOLUTIONS[self.weight.dim() - 2][1]
        values = transposed(rows.values, self.weight, None, self.stride, 0, 0, self.groups, self.dilation)
        window = []
        for side, (part, stride, pad, size) in enumerate(
            zip(rows.window, self.stride, self.padding, shapes[0][1:], strict=True), 2
        ):
            first = part.start * stride - pad
            low, high = max(first, 0), min(first + values.shape[side], size)
            if low >= high:  # zeros around the image alone
                return (Windowed.full(values.new_zeros(len(values), *shapes[0])),)
            values = values.narrow(side, low - first, high - low)
            window.append(slice(low, high))
        return (Windowed(values, shapes[0], tuple(window)),)

    def _run(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        run = _CONVOLUTIONS[weight.dim() - 2][0]
        return run(x, weight, bias, self.stride, self.padding, self.dilation, self.groups)


@dataclass(frozen=True)
class Scaled(AffineOperation):
    """factor x + shift, number by number: normalisation, arithmetic with constants. A side of x that is 1 is repeated.

    ``terms``: roundings on the way; ``shift_size``: what of the shift rounding is relative to.
    """

    factor: Tensor
    shift: Tensor
    shift_size: Tensor
    terms: int = 2

    def apply(self, *inputs: Tensor) -> Tensor:
        return inputs[0] * self.factor + self.shift

    def spread(self, *widths: Tensor) -> Tensor:
        return widths[0] * self.factor.abs()

    def size(self, *largest: Tensor) -> Tensor:
        return self.spread(*largest) + self.shift_size

    def transpose(self, rows: Windowed, shapes: tuple[Shape, ...]) -> tuple[Windowed, ...]:
        return (rows.with_values(rows.values * rows.crop(self.factor)).summed_to(shapes[0]),)


@dataclass(frozen=True)
class Sum(AffineOperation):
    """The sum of inputs of one shape, each times its weight in ``signs``."""

    signs: tuple[float, ...]
    terms: int = 1

    def apply(self, *inputs: Tensor) -> Tensor:
        return sum(sign * each for sign, each in zip(self.signs, inputs, strict=True))  # type: ignore[return-value]

    def spread(self, *widths: Tensor) -> Tensor:
        return sum(abs(sign) * each for sign, each in zip(self.signs, widths, strict=True))  # type: ignore[return-value]

    def transpose(self, rows: Windowed, shapes: tuple[Shape, ...]) -> tuple[Windowed, ...]:
        return tuple(rows.with_values(sign * rows.values) for sign in self.signs)


@dataclass(frozen=True)
class LinearMap(AffineOperation):
    """An affine operation that torch also runs backwards: views, slices, averages, upsampling, transposed convolutions.

    Attributes:
        run: W x + b.
        terms: 0 where no arithmetic is done.
        magnitude: |W| x; None: ``run`` itself, whose weights are all >= 0 and which adds nothing.
        noise: by how much each number may be off besides.
    """

    run: Callable[..., Any]
    terms: int = 0
    magnitude: Callable[..., Any] | None = None
    noise: float = 0.0

    def apply(self, *inputs: Tensor) -> Tensor:
        values: Tensor = self.run(*inputs)
        return values

    def spread(self, *widths: Tensor) -> Tensor:
        values: Tensor = (self.magnitude or self.run)(*widths)
        return values

    def largest_sum(self, size: Tensor) -> Tensor:
        return size * self.terms  # a mean is a sum first

    def transpose(self, rows: Windowed, shapes: tuple[Shape, ...]) -> tuple[Windowed, ...]:
        zeros = [rows.values.new_zeros(len(rows.values), *shape) for shape in shapes]
        transposed = torch.func.vjp(self.run, *zeros)[1]
        return tuple(map(Windowed.full, transposed(rows.dense())))


@dataclass(frozen=True)
class Picked:
    """A number of each window [B, C, h, w]: ``below``, its position (flat in the image), which the maximum is at least;
    ``sure``, if the maximum is that number; ``top``, the largest value that the maximum may have."""

    below: Tensor
    sure: Tensor
    top: Tensor


@dataclass(frozen=True)
class MaxPool:
    """The maximum over windows ``kernel`` of images, ``stride`` apart, with ``padding`` that never is the maximum: at
    least the number of the window with the largest middle, elsewhere at most the largest upper bound."""

    kernel: Shape
    stride: Shape
    padding: Shape

    def apply(self, *inputs: Tensor) -> Tensor:
        return F.max_pool2d(inputs[0], self.kernel, self.stride, self.padding)

    def pick(self, low: Tensor, high: Tensor) -> Picked:
        """Return a number of each window of numbers between ``low`` and ``high`` [B, C, H, W]."""
        _, middle = F.max_pool2d((low + high) / 2, self.kernel, self.stride, self.padding, return_indices=True)
        top = self.apply(high)
        least = low.flatten(2).gather(2, middle.flatten(2)).view_as(top)
        others = self._windows(high, -torch.inf)
        position = torch.arange(high[0, 0].numel(), dtype=torch.float64, device=high.device).view(1, 1, *high.shape[2:])
        where = self._windows(position, -1.0)
        rest = torch.where(where == middle.unsqueeze(2), -torch.inf, others).amax(2)
        return Picked(middle, rest <= least, top)

    def _windows(self, x: Tensor, fill: float) -> Tensor:
        """Return the numbers [B, C, K, h, w] of each window."""
        x = F.pad(x, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]), value=fill)
        cut = x.unfold(2, self.kernel[0], self.stride[0]).unfold(3, self.kernel[1], self.stride[1])
        return cut.flatten(4).movedim(4, 2)

    def transpose(self, rows: Tensor, picked: Picked, owner: Tensor, shape: Shape) -> tuple[Tensor, Tensor]:
        """Return ``rows`` [R, C, h, w] of the maxima as rows of the numbers, and constants [R]."""
        sure, top = picked.sure[owner], picked.top[owner]
        kept = torch.where(sure | (rows > 0), rows, 0.0)
        fixed = (torch.where(sure | (rows > 0), 0.0, rows) * top).flatten(1).sum(1)
        back = rows.new_zeros(len(rows), shape[0], shape[1] * shape[2])
        back = back.scatter_add(2, picked.below[owner].flatten(2), kept.flatten(2))
        return back.view(len(rows), *shape), fixed
