"""Activations between two lines: what is known of each function, and the lines that enclose it on an interval.

f(x) - s x is smallest at an end of the interval, at a knot, or where f is curved. A curved function is cut into cells:
fine ones where it bends, few ones outside, where its slope only rises or only falls. Within a cell it leaves its chord
by at most curvature * width^2 / 8, and where the slope lies between m and M, and c is that of the chord, by at most
(c - m) (M - c) / (M - m) * width. So the error of the lines does not grow with the interval.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor

# With these numbers the lines of each smooth activation are, in the median of random intervals, less than 5 % further
# apart than any lines that enclose it must be: test_lines_of_smooth_activations_are_nearly_as_close_as_lines_can_be.
_CELLS = 24
"""Cells into which the part of an interval is cut where a function bends; their share of the gap between the lines is
then about 1 / 24^2."""
_TAIL = (1.5, 2.25, 3.5, 6.0)
"""Ends of the cells outside, relative to where the function bends."""
_TANGENTS = 4
"""Cells between two points whose tangents are tried as lines."""
_TINY = torch.finfo(torch.float64).tiny


@dataclass(frozen=True)
class Lines:
    """Lines below and above each number of a layer: ``lower_A`` x + ``lower_bias`` <= f(x) <= ``upper_A`` x +
    ``upper_bias``, all [B, ...]."""

    lower_A: Tensor  # noqa: N815  # the name in the literature
    lower_bias: Tensor
    upper_A: Tensor  # noqa: N815
    upper_bias: Tensor

    def select(self, rows: Tensor) -> "Lines":
        """Return the lines of the samples ``rows``."""
        return Lines(self.lower_A[rows], self.lower_bias[rows], self.upper_A[rows], self.upper_bias[rows])


@dataclass(frozen=True)
class _Cells:
    """Points between two ends, with the values there, and how far the function leaves its chord between neighbours."""

    points: Tensor
    values: Tensor
    slack: Tensor

    def lowest_gap(self, slope: Tensor) -> Tensor:
        """Return a lower bound of f(x) - slope x between the ends."""
        gap = self.values - slope * self.points
        return (torch.minimum(gap[:-1], gap[1:]) - self.slack).amin(0)

    def highest_gap(self, slope: Tensor) -> Tensor:
        """Return an upper bound of f(x) - slope x between the ends."""
        gap = self.values - slope * self.points
        return (torch.maximum(gap[:-1], gap[1:]) + self.slack).amax(0)


@dataclass(frozen=True)
class Activation:
    """A function of one number.

    Attributes:
        function: elementwise, differentiable between its knots.
        knots: where its slope jumps, increasing.
        turns: where it has a smallest or largest value and no knot.
        curvature: the largest |second derivative| between knots; 0 of functions that are linear in pieces.
        bend: beyond ``-bend`` and ``bend`` the slope of a curved function only rises or only falls; knots lie within.
        slopes: between which all its slopes lie.
        roundings: of the function in float32, in units relative to |x| + |f(x)| + ``offset``.
        offset: of intermediate results whose size does not follow from x or f(x).
        error: by which the function of a network differs from this one, at most.
    """

    function: Callable[[Tensor], Tensor]
    knots: tuple[float, ...] = ()
    turns: tuple[float, ...] = ()
    curvature: float = 0.0
    bend: float = 4.0
    slopes: tuple[float, float] = (0.0, 1.0)
    roundings: int = 8
    offset: float = 0.0
    error: float = 0.0

    @property
    def convex_pieces(self) -> tuple[float, float] | None:
        """The slopes left and right of 0 of a convex function of two straight pieces that meet there in 0, such as
        ReLU; None of other functions."""
        if self.curvature or self.knots != (0.0,):
            return None
        left, middle, right = self.function(torch.tensor([-1.0, 0.0, 1.0], dtype=torch.float64)).tolist()
        return (-left, right) if middle == 0 and -left < right else None

    def value_range(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smallest and largest value between ``low`` and ``high``."""
        inner = [low.clamp(min=at).minimum(high) for at in (*self.knots, *self.turns)]
        values = self.function(torch.stack([low, high, *inner]))
        return values.amin(0), values.amax(0)

    def is_bent(self, low: Tensor, high: Tensor) -> Tensor:
        """Return where the function is not one line between ``low`` and ``high``."""
        if self.curvature:
            return high > low
        inside = torch.zeros_like(low, dtype=torch.bool)
        for knot in self.knots:
            inside |= (low < knot) & (high > knot)
        return inside

    def lines(self, low: Tensor, high: Tensor) -> Lines:
        """Return the lines below and above that leave the least area between ``low`` and ``high``; for ReLU those of
        CROWN."""
        cells, middle = self._cells(low, high), (low + high) / 2
        below = above = None
        for slope in self._slopes_to_try(cells):
            under, over = cells.lowest_gap(slope), cells.highest_gap(slope)
            below, above = _higher(below, slope, under, middle), _higher(above, -slope, -over, middle)
        assert below is not None and above is not None
        return Lines(below[0], below[1], -above[0], -above[1])

    def _slopes_to_try(self, cells: _Cells) -> list[Tensor]:
        """Return slopes of lines: of the chord, of the pieces, or where curved of tangents, and 0."""
        (low, high), (first, last) = (cells.points[0], cells.points[-1]), (cells.values[0], cells.values[-1])
        # A point has no chord: a quotient by almost nothing would have a derivative of noise.
        is_wide = high > low
        chord = torch.where(is_wide, (last - first) / torch.where(is_wide, high - low, 1.0), 0.0)
        if not self.curvature:
            edges = (self.knots[0] - 2, *self.knots, self.knots[-1] + 2)
            pieces = [self._slope(chord.new_tensor((a + b) / 2)) for a, b in pairwise(edges)]
            return [chord, *(piece.expand_as(chord) for piece in pieces)]
        tangents = self._slope(cells.points[::_TANGENTS])
        return [chord, torch.zeros_like(chord), *tangents.unbind()]

    def _cells(self, low: Tensor, high: Tensor) -> _Cells:
        """Return the ends ``low`` and ``high``, and what lies between, all ``[K, ...]``."""
        if not self.curvature:
            x = torch.stack([low, *(low.clamp(min=knot).minimum(high) for knot in self.knots), high])
            return _Cells(x, self.function(x), torch.zeros_like(x[1:]))
        left, right = low.clamp(min=-self.bend).minimum(high), high.clamp(max=self.bend).maximum(low)
        inner = [left + (right - left) * (k / _CELLS) for k in range(_CELLS)]
        inner = [*inner, *(left.clamp(min=knot).minimum(right) for knot in self.knots)]
        outer = [self.bend * share for share in _TAIL]
        before = [left.clamp(max=-at).maximum(low) for at in reversed(outer)]
        after = [right.clamp(min=at).minimum(high) for at in outer]
        fine = torch.stack([*inner, right])
        x = torch.cat([torch.stack([low, *before]), fine.sort(0).values if self.knots else fine])
        x = torch.cat([x, torch.stack([*after, high])])
        values, slope = self.function(x), self._slope(x)
        width, rise = x[1:] - x[:-1], values[1:] - values[:-1]
        chord = rise / width.clamp_min(_TINY)
        least, most = torch.minimum(slope[1:], slope[:-1]), torch.maximum(slope[1:], slope[:-1])
        by_slope = (chord - least).clamp_min(0) * (most - chord).clamp_min(0) / (most - least).clamp_min(_TINY) * width
        by_curvature = self.curvature * width.square() / 8
        number = torch.arange(len(width), device=x.device).view(-1, *[1] * low.dim())
        inside = (number >= len(_TAIL) + 1) & (number < len(_TAIL) + len(fine))
        # Where an end of the interval is beyond the bend on the other side, inner cells lie outside and have width 0.
        return _Cells(x, values, torch.where(inside, by_curvature, torch.minimum(by_slope, by_curvature)))

    def _slope(self, x: Tensor) -> Tensor:
        with torch.enable_grad():
            at = x.detach().clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.function(at).sum(), at)
        return slope.detach()


Line = tuple[Tensor, Tensor]


def _higher(line: Line | None, slope: Tensor, offset: Tensor, middle: Tensor) -> Line:
    """Return of two lines, at each number, the one that is higher at the ``middle``."""
    if line is None:
        return slope, offset
    higher = slope * middle + offset > line[0] * middle + line[1]
    return torch.where(higher, slope, line[0]), torch.where(higher, offset, line[1])


def clipped(low: float, high: float) -> Activation:
    """Return x between ``low`` and ``high``: ReLU6, hardtanh, clamp."""
    knots = tuple(edge for edge in (low, high) if math.isfinite(edge))
    return Activation(lambda x: x.clamp(low, high), knots, roundings=0)


def leaky(slope: float) -> Activation:
    """Return max(x, 0) + slope min(x, 0)."""
    return Activation(lambda x: F.leaky_relu(x, slope), (0.0,), slopes=(min(slope, 1.0), max(slope, 1.0)))


def elu(alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Activation:
    """Return scale (x or alpha (exp(input_scale x) - 1)): ELU, CELU and SELU."""
    curvature = abs(alpha * scale) * input_scale**2

    def function(x: Tensor) -> Tensor:
        return scale * torch.where(x > 0, x, alpha * torch.expm1(input_scale * x.clamp_max(0)))

    slope = scale * alpha * input_scale
    slopes = (min(0.0, slope), max(scale, slope))
    return Activation(function, (0.0,), curvature=curvature, bend=4 / input_scale, slopes=slopes)


def softplus(beta: float = 1.0, threshold: float = 20.0) -> Activation:
    """Return log(1 + exp(beta x)) / beta; torch takes x where beta x is above a threshold."""
    error = math.log1p(math.exp(-threshold)) / beta
    return Activation(
        lambda x: F.softplus(x, beta, 700.0),
        curvature=beta / 4,
        bend=5 / beta,
        roundings=16,
        offset=1 / beta,
        error=error,
    )


def gelu(approximate: str = "none") -> Activation:
    """Return x Phi(x), or by tanh; |f''| is at most 2 phi(0) = 0.798, by tanh 0.8 at the same place."""
    turn = -0.7517915 if approximate == "none" else -0.7524615
    return Activation(
        lambda x: F.gelu(x, approximate=approximate), turns=(turn,), curvature=0.81, bend=3.0, slopes=(-0.13, 1.13)
    )


RELU = Activation(F.relu, (0.0,), roundings=0)
HARD_SIGMOID = Activation(F.hardsigmoid, (-3.0, 3.0), slopes=(0.0, 1 / 6), offset=1.0)
HARD_SWISH = Activation(F.hardswish, (-3.0, 3.0), (-1.5,), curvature=1 / 3, bend=3.0, slopes=(-0.5, 1.5))
SIGMOID = Activation(torch.sigmoid, curvature=0.0963, bend=5.0, slopes=(0.0, 0.25), offset=1.0)
"""|f''| is at most 1 / (6 sqrt 3)."""
TANH = Activation(torch.tanh, curvature=0.7699, bend=3.0, offset=1.0)
"""|f''| is at most 4 / (3 sqrt 3)."""
SILU = Activation(F.silu, turns=(-1.2784645,), curvature=0.5, slopes=(-0.1, 1.1))
"""|f''| is at most 1 / 2, at 0."""
MISH = Activation(F.mish, turns=(-1.1924397,), curvature=0.65, slopes=(-0.12, 1.1))
"""|f''| is at most 0.64, at 0."""
ABSOLUTE = Activation(torch.abs, (0.0,), slopes=(-1.0, 1.0), roundings=0)
