"""JPEG: perturbations of the quantised DCT coefficients, bounded in linf, l2 or l1.

The step from coefficients to pixels is linear, so a change of the coefficients is a fixed pattern that is added to the
image, whatever the image is. That is what happens here: the image itself is never compressed, rounded or subsampled,
and ``theta = 0`` returns it.

``theta`` is ``[B, N]``: the 8 by 8 blocks of the luminance in rows, then (RGB images) those of Cb and of Cr, which have
half the resolution; in each block the coefficients, vertical frequency first. The unit is the step of the quality-50
quantisation tables, and ``theta`` moves a coefficient by ``theta / 2``: the public code does so, and published
strengths mean that. Images whose sides are not multiples of 16 (grey images: 8) are covered by blocks that reach over
the right and the lower border.

Source: Kang et al., Testing Robustness Against Unforeseen Adversaries, 2019, and its code (``advex-uar``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.host import cached
from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel, UnsupportedInputError
from robustatlas.threats.lp import project_l1_ball

COEFFICIENT_BOUND = 2.0
"""Under l2 and l1, each number of theta stays within this bound as well."""

_TINY = 1e-12

_LUMINANCE = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
_CHROMINANCE = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)


def _synthesis(table: tuple[tuple[int, ...], ...]) -> Tensor:
    """``[64, 64]``: the 8 by 8 pixels (in [0, 255]) of one unit of each quantised coefficient."""
    frequency = torch.arange(8, dtype=torch.float64)[:, None]
    position = torch.arange(8, dtype=torch.float64)
    cosines = torch.cos((2 * position + 1) * frequency * math.pi / 16) / 2
    cosines[0] /= math.sqrt(2)
    waves = torch.einsum("uy,vx->uvyx", cosines, cosines)
    return (waves * torch.tensor(table, dtype=torch.float64)[..., None, None]).view(64, 64)


def _plane(coefficients: Tensor, rows: int, columns: int, table: tuple[tuple[int, ...], ...]) -> Tensor:
    """``[B, rows * 8, columns * 8]``: the pixels of ``coefficients`` [B, rows * columns * 64]."""
    blocks = coefficients.view(-1, rows, columns, 64) @ cached(_synthesis, table, like=coefficients)
    return blocks.view(-1, rows, columns, 8, 8).transpose(2, 3).reshape(-1, rows * 8, columns * 8)


def _blocks(channels: int, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of luminance blocks that cover an image; even where there is chrominance."""
    step = 16 if channels == 3 else 8
    return math.ceil(height / step) * step // 8, math.ceil(width / step) * step // 8


def _double(plane: Tensor) -> Tensor:
    """Each pixel of ``[..., H, W]`` repeated in a 2 by 2 square."""
    return plane.repeat_interleave(2, -2).repeat_interleave(2, -1)


def _to_rgb(luminance: Tensor, cb: Tensor, cr: Tensor) -> Tensor:
    """``[B, 3, H, W]`` from three ``[B, H, W]``; chrominance centred at 0."""
    return torch.stack(
        (luminance + 1.402 * cr, luminance - 0.344136 * cb - 0.714136 * cr, luminance + 1.772 * cb), dim=1
    )


def pattern(coefficients: Tensor, channels: int, height: int, width: int) -> Tensor:
    """``[B, C, H, W]``: what ``coefficients`` [B, N] add to an image, for pixels in [0, 1]."""
    rows, columns = _blocks(channels, height, width)
    if channels == 1:
        pixels = _plane(coefficients, rows, columns, _LUMINANCE)[:, None]
    else:
        half = (rows // 2) * (columns // 2) * 64
        luminance, cb, cr = torch.split(coefficients, [rows * columns * 64, half, half], dim=1)
        chrominance = (_double(_plane(c, rows // 2, columns // 2, _CHROMINANCE)) for c in (cb, cr))
        pixels = _to_rgb(_plane(luminance, rows, columns, _LUMINANCE), *chrominance)
    return pixels[..., :height, :width] / 255


def fill(direction: Tensor, room: Tensor, budget: Tensor) -> Tensor:
    """``[B, N]``: ``room`` spent along the signs of ``direction``, largest first, up to a sum of ``budget`` [B]."""
    order = direction.abs().argsort(dim=1, descending=True, stable=True)
    full = room.gather(1, order)
    left = (budget[:, None] - (full.cumsum(1) - full)).clamp_min(0)
    return direction.sign() * torch.zeros_like(room).scatter(1, order, torch.minimum(left, full))


def coefficient_count(x: Tensor) -> int:
    """Coefficients of all blocks that cover an image of ``x`` [B, C, H, W]."""
    rows, columns = _blocks(*x.shape[1:])
    return rows * columns * 64 * (3 if x.shape[1] == 3 else 2) // 2


class Ball(ABC):
    """A set of coefficients ``[B, N]``."""

    @abstractmethod
    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        """A random start ``[B, count]``."""

    @abstractmethod
    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        """Coefficients brought back into the set."""

    @abstractmethod
    def direction(self, gradient: Tensor) -> Tensor:
        """Steepest ascent in the norm of the set."""

    @abstractmethod
    def norm(self, coefficients: Tensor) -> Tensor:
        """``[B]``: the norm; infinite beyond the bound on single coefficients."""

    def step(self, coefficients: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """Coefficients after a step of ``length`` [B] times that of ``direction`` in the norm of the set."""
        return coefficients + length[:, None] * direction


class LinfBall(Ball):
    """Every coefficient within [-epsilon, epsilon]."""

    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        return epsilon[:, None] * noise.symmetric(count, dtype=epsilon.dtype)

    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        return coefficients.clamp(-epsilon[:, None], epsilon[:, None])

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def norm(self, coefficients: Tensor) -> Tensor:
        return coefficients.abs().amax(dim=1)


def _within_bound(coefficients: Tensor, norm: Tensor) -> Tensor:
    return norm.masked_fill((coefficients.abs() > COEFFICIENT_BOUND).any(dim=1), torch.inf)


def _bounded(coefficients: Tensor) -> Tensor:
    return coefficients.clamp(-COEFFICIENT_BOUND, COEFFICIENT_BOUND)


def _euclidean(values: Tensor) -> Tensor:
    return values.square().sum(dim=1).sqrt()


class L2Ball(Ball):
    """Euclidean norm at most epsilon, and every coefficient within [-2, 2]."""

    def inside(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        """Uniform in the ball, without the bound on single coefficients."""
        direction = self.direction(noise.child(0).normal(count, dtype=epsilon.dtype))
        radius = epsilon * noise.child(1).uniform(dtype=epsilon.dtype) ** (1 / count)
        return radius[:, None] * direction

    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        return _bounded(self.inside(count, epsilon, noise))

    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        factor = (epsilon / _euclidean(coefficients).clamp_min(_TINY)).clamp_max(1)
        return _bounded(coefficients * factor[:, None])

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient / _euclidean(gradient).clamp_min(_TINY)[:, None]

    def norm(self, coefficients: Tensor) -> Tensor:
        return _within_bound(coefficients, _euclidean(coefficients))


class L1Ball(Ball):
    """Sum of absolute values at most epsilon, and every coefficient within [-2, 2].

    A :meth:`step` goes towards the best vertex of the ball that the coefficients are on, which has those with the
    largest gradients at their bound: sparse, and as many of them as the ball has room for.
    """

    def inside(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        """Uniform in the ball, without the bound on single coefficients."""
        parts = noise.child(0).exponential(count, dtype=epsilon.dtype)
        rest = noise.child(1).exponential(dtype=epsilon.dtype)
        share = parts / (parts.sum(dim=1) + rest)[:, None]
        return epsilon[:, None] * share * noise.child(2).sign(count, dtype=epsilon.dtype)

    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        return _bounded(self.inside(count, epsilon, noise))

    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        return project_l1_ball(coefficients, epsilon, torch.full_like(coefficients, COEFFICIENT_BOUND))

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient / gradient.abs().sum(dim=1, keepdim=True).clamp_min(_TINY)

    def norm(self, coefficients: Tensor) -> Tensor:
        return _within_bound(coefficients, coefficients.abs().sum(dim=1))

    def step(self, coefficients: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        length = length * direction.abs().sum(dim=1)
        budget = torch.maximum(length, coefficients.abs().sum(dim=1))
        vertex = fill(direction, torch.full_like(coefficients, COEFFICIENT_BOUND), budget)
        return coefficients + (length / budget.clamp_min(_TINY))[:, None] * vertex


class Jpeg(Ball, ThreatModel):
    """What the three norms share."""

    def check(self, x: Tensor) -> None:
        """Raise where the images are neither grey nor RGB."""
        if x.dim() != 4 or x.shape[1] not in (1, 3):
            raise UnsupportedInputError(
                f"jpeg needs grey or RGB images [B, 1 or 3, H, W]; got shape {tuple(x.shape)}: "
                "leave this attack out for this data."
            )

    def neutral(self, x: Tensor) -> Tensor:
        """No change of any coefficient."""
        return x.new_zeros(len(x), coefficient_count(x))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """Uniform in the set (l2 and l1: in the ball, then cut to the bound on single coefficients)."""
        return self.random(coefficient_count(x), epsilon, noise)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        """The image plus the pattern of the changed coefficients, clipped to [0, 1]."""
        return (x + pattern(theta / 2, *x.shape[1:])).clamp(0, 1)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        return self.shrink(theta, epsilon)

    def steepest(self, x: Tensor, gradient: Tensor) -> Tensor:
        return self.direction(gradient)

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        return self.norm(theta)

    def move(self, x: Tensor, theta: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        return self.step(theta, direction, length)


@dataclass(frozen=True)
class JpegLinf(LinfBall, Jpeg):
    """Every number of theta within [-epsilon, epsilon].

    Example:
        >>> threat = JpegLinf()
        >>> x = torch.rand(2, 3, 28, 28)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
        >>> threat.neutral(x).shape  # 32 by 32 pixels cover the image
        torch.Size([2, 1536])
    """


@dataclass(frozen=True)
class JpegL2(L2Ball, Jpeg):
    """Euclidean norm of theta at most epsilon, and every number within [-2, 2]."""


@dataclass(frozen=True)
class JpegL1(L1Ball, Jpeg):
    """Sum of absolute values of theta at most epsilon, and every number within [-2, 2]."""

    def linear_oracle(self, x: Tensor, theta: Tensor, gradient: Tensor, epsilon: Tensor) -> Tensor:
        """The theta of the set with the largest inner product with ``gradient`` (for Frank-Wolfe)."""
        return fill(gradient, torch.full_like(gradient, COEFFICIENT_BOUND), epsilon)
