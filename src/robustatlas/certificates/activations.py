"""Activations between two lines: what each is known by, and the lines that enclose it on an interval.

An activation is its function, the ``knots`` at which its slope jumps, the ``turns`` at which it changes direction, and
a bound on its curvature. f(x) - s x is smallest at an end of the interval or at a knot. Where f is curved, its smallest
value lies within curvature * (grid step)^2 / 8 of that on a grid.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

_GRID = 24
"""Steps into which an interval is cut where the function is curved; its share of the gap between the lines is then
about 1 / 24^2."""


@dataclass(frozen=True)
class Lines:
    """Slopes and offsets of a line below and one above each number of a layer, ``[B, ...]``."""

    low_slope: Tensor
    low_offset: Tensor
    high_slope: Tensor
    high_offset: Tensor


@dataclass(frozen=True)
class Activation:
    """A function of one number.

    Attributes:
        function: elementwise, differentiable between its knots.
        knots: where its slope jumps, increasing.
        turns: where it has a smallest or largest value and no knot.
        curvature: the largest |second derivative| between knots; 0 of functions that are linear in pieces.
        slopes: between which all its slopes lie.
        roundings: of the function in float32, in units relative to |x| + |f(x)| + ``offset``.
        offset: of intermediate results whose size does not follow from x or f(x).
        error: by which the function of a network differs from this one, at most.
    """

    function: Callable[[Tensor], Tensor]
    knots: tuple[float, ...] = ()
    turns: tuple[float, ...] = ()
    curvature: float = 0.0
    slopes: tuple[float, float] = (0.0, 1.0)
    roundings: int = 8
    offset: float = 0.0
    error: float = 0.0

    def range(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest and largest value between ``low`` and ``high``."""
        inner = [low.clamp(min=at).minimum(high) for at in (*self.knots, *self.turns)]
        values = self.function(torch.stack([low, high, *inner]))
        return values.amin(0), values.amax(0)

    def bends(self, low: Tensor, high: Tensor) -> Tensor:
        """Where the function is not one line between ``low`` and ``high``."""
        if self.curvature:
            return high > low
        inside = torch.zeros_like(low, dtype=torch.bool)
        for knot in self.knots:
            inside |= (low < knot) & (high > knot)
        return inside

    def below(self, slope: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The largest b with slope x + b <= f(x) between ``low`` and ``high``; differentiable in the slope."""
        x, value = self._points(low, high)
        return (value - slope * x).amin(0) - self._between(low, high)

    def lines(self, low: Tensor, high: Tensor) -> Lines:
        """The lines below and above that leave the least area between ``low`` and ``high``; for ReLU those of CROWN."""
        x, value = self._points(low, high)
        middle, between = (low + high) / 2, self._between(low, high)
        below = above = None
        for slope in self._slopes(low, high):
            gap = value - slope * x
            under, over = gap.amin(0) - between, gap.amax(0) + between
            below, above = _higher(below, slope, under, middle), _higher(above, -slope, -over, middle)
        assert below is not None and above is not None
        return Lines(below[0], below[1], -above[0], -above[1])

    def _slopes(self, low: Tensor, high: Tensor) -> list[Tensor]:
        """Slopes worth trying: of the chord, of the pieces, or where curved of tangents, and none."""
        chord = (self.function(high) - self.function(low)) / (high - low).clamp_min(1e-12)
        if not self.curvature:
            edges = (self.knots[0] - 2, *self.knots, self.knots[-1] + 2)
            pieces = [self._slope(low.new_tensor((a + b) / 2)) for a, b in pairwise(edges)]
            return [chord, *(piece.expand_as(chord) for piece in pieces)]
        tangents = [self._slope(low + part * (high - low)) for part in (0.0, 0.25, 0.5, 0.75, 1.0)]
        return [chord, *tangents, torch.zeros_like(chord)]

    def _points(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """``[K, ...]`` points between ``low`` and ``high``, both among them, and the function's values."""
        points = [low, high, *(low.clamp(min=at).minimum(high) for at in (*self.knots, *self.turns))]
        if self.curvature:
            points += [low + (high - low) * (k / _GRID) for k in range(1, _GRID)]
        x = torch.stack(points)
        return x, self.function(x)

    def _between(self, low: Tensor, high: Tensor) -> Tensor | float:
        """How far a curved function may leave its values on the grid in between."""
        return self.curvature * ((high - low) / _GRID) ** 2 / 8 if self.curvature else 0.0

    def _slope(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            at = x.detach().clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.function(at).sum(), at)
        return slope.detach()


Line = tuple[Tensor, Tensor]


def _higher(line: Line | None, slope: Tensor, offset: Tensor, middle: Tensor) -> Line:
    """Of two lines, at each number, the one that is higher at the ``middle``."""
    if line is None:
        return slope, offset
    higher = slope * middle + offset > line[0] * middle + line[1]
    return torch.where(higher, slope, line[0]), torch.where(higher, offset, line[1])


def clipped(low: float, high: float) -> Activation:
    """x between ``low`` and ``high``: ReLU6, hardtanh, clamp."""
    knots = tuple(edge for edge in (low, high) if math.isfinite(edge))
    return Activation(lambda x: x.clamp(low, high), knots, roundings=0)


def leaky(slope: float) -> Activation:
    """max(x, 0) + slope min(x, 0)."""
    return Activation(lambda x: F.leaky_relu(x, slope), (0.0,), slopes=(min(slope, 1.0), max(slope, 1.0)))


def elu(alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Activation:
    """scale (x or alpha (exp(input_scale x) - 1)): ELU, CELU and SELU."""
    curvature = abs(alpha * scale) * input_scale**2

    def function(x: Tensor) -> Tensor:
        return scale * torch.where(x > 0, x, alpha * torch.expm1(input_scale * x.clamp_max(0)))

    slope = scale * alpha * input_scale
    return Activation(function, (0.0,), curvature=curvature, slopes=(min(0.0, slope), max(scale, slope)))


def softplus(beta: float = 1.0, threshold: float = 20.0) -> Activation:
    """log(1 + exp(beta x)) / beta; torch takes x where beta x is above a threshold."""
    error = math.log1p(math.exp(-threshold)) / beta
    return Activation(
        lambda x: F.softplus(x, beta, 700.0), curvature=beta / 4, roundings=16, offset=1 / beta, error=error
    )


def gelu(approximate: str = "none") -> Activation:
    """x Phi(x), or by tanh; |f''| is at most 2 phi(0) = 0.798, by tanh 0.8 at the same place."""
    turn = -0.7517915 if approximate == "none" else -0.7524615
    return Activation(lambda x: F.gelu(x, approximate=approximate), turns=(turn,), curvature=0.81, slopes=(-0.13, 1.13))


RELU = Activation(F.relu, (0.0,), roundings=0)
HARD_SIGMOID = Activation(F.hardsigmoid, (-3.0, 3.0), slopes=(0.0, 1 / 6), offset=1.0)
HARD_SWISH = Activation(F.hardswish, (-3.0, 3.0), (-1.5,), curvature=1 / 3, slopes=(-0.5, 1.5))
SIGMOID = Activation(torch.sigmoid, curvature=0.0963, slopes=(0.0, 0.25), offset=1.0)
"""|f''| is at most 1 / (6 sqrt 3)."""
TANH = Activation(torch.tanh, curvature=0.7699, offset=1.0)
"""|f''| is at most 4 / (3 sqrt 3)."""
SILU = Activation(F.silu, turns=(-1.2784645,), curvature=0.5, slopes=(-0.1, 1.1))
"""|f''| is at most 1 / 2, at 0."""
MISH = Activation(F.mish, turns=(-1.1924397,), curvature=0.65, slopes=(-0.12, 1.1))
"""|f''| is at most 0.64, at 0."""
ABSOLUTE = Activation(torch.abs, (0.0,), slopes=(-1.0, 1.0), roundings=0)
