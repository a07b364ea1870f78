"""JPEG: perturbations of the quantised DCT coefficients, bounded in linf, l2 or l1 (Kang et al. 2019, and its code).

A change of the coefficients is a fixed pattern that is added to the image, whatever the image is. The image itself is
never compressed, rounded or subsampled.

``theta`` is ``[B, N]``: the 8 by 8 blocks of the luminance in rows, then (RGB images) those of Cb and of Cr, which have
half the resolution; in each block the coefficients, vertical frequency first. The unit is the step of the quality-50
quantisation tables, and ``theta`` moves a coefficient by ``theta / 2``, as published strengths mean it. Blocks reach
over the right and lower border of images whose sides are not multiples of 16 (grey images: 8).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.jpeg import CHROMINANCE, LUMINANCE, decode_plane, repeat_pixels, ycbcr_to_rgb
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import require_grey_or_colour
from robustatlas.threats.lp import project_l1_ball

COEFFICIENT_BOUND = 2.0
"""Under l2 and l1, each number of theta stays within this bound as well."""

_TINY = 1e-12


def _blocks(channels: int, height: int, width: int) -> tuple[int, int]:
    """Return rows and columns of luminance blocks that cover an image; even where there is chrominance."""
    step = 16 if channels == 3 else 8
    return math.ceil(height / step) * step // 8, math.ceil(width / step) * step // 8


def pattern(coefficients: Tensor, channels: int, height: int, width: int) -> Tensor:
    """Return ``[B, C, H, W]``: what ``coefficients`` [B, N] add to an image, for pixels in [0, 1]."""
    rows, columns = _blocks(channels, height, width)
    if channels == 1:
        pixels = decode_plane(coefficients, rows, columns, LUMINANCE)[:, None]
    else:
        half = (rows // 2) * (columns // 2) * 64
        luminance, cb, cr = torch.split(coefficients, [rows * columns * 64, half, half], dim=1)
        chrominance = (repeat_pixels(decode_plane(c, rows // 2, columns // 2, CHROMINANCE)) for c in (cb, cr))
        pixels = ycbcr_to_rgb(decode_plane(luminance, rows, columns, LUMINANCE), *chrominance)
    return pixels[..., :height, :width] / 255


def fill_largest_first(direction: Tensor, room: Tensor, budget: Tensor) -> Tensor:
    """Return the move ``[B, N]`` along the signs of ``direction`` that spends ``room``, up to a sum of ``budget`` [B].

    The coordinates with the largest directions move first.
    """
    order = direction.abs().argsort(dim=1, descending=True, stable=True)
    full = room.gather(1, order)
    left = (budget[:, None] - (full.cumsum(1) - full)).clamp_min(0)
    return direction.sign() * torch.zeros_like(room).scatter(1, order, torch.minimum(left, full))


def coefficient_count(x: Tensor) -> int:
    """Return the number of coefficients of all blocks that cover an image of ``x`` [B, C, H, W]."""
    rows, columns = _blocks(*x.shape[1:])
    return rows * columns * 64 * (3 if x.shape[1] == 3 else 2) // 2


class Ball(ABC):
    """Base of sets of coefficients ``[B, N]``."""

    @abstractmethod
    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        """Return a random start ``[B, count]``."""

    @abstractmethod
    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        """Return the coefficients projected into the set."""

    @abstractmethod
    def direction(self, gradient: Tensor) -> Tensor:
        """Return the direction of steepest ascent in the norm of the set."""

    @abstractmethod
    def norm(self, coefficients: Tensor) -> Tensor:
        """Return ``[B]``: the norm; infinite beyond the bound on single coefficients."""

    def step(self, coefficients: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """Return the coefficients after a step of ``length`` [B] times that of ``direction`` in the norm of the set."""
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


def _reject_large(coefficients: Tensor, norm: Tensor) -> Tensor:
    return norm.masked_fill((coefficients.abs() > COEFFICIENT_BOUND).any(dim=1), torch.inf)


def _clip_coefficients(coefficients: Tensor) -> Tensor:
    return coefficients.clamp(-COEFFICIENT_BOUND, COEFFICIENT_BOUND)


def _euclidean(values: Tensor) -> Tensor:
    return values.square().sum(dim=1).sqrt()


class L2Ball(Ball):
    """Euclidean norm at most epsilon, and every coefficient within [-2, 2]."""

    def uniform_in_ball(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        """Return coefficients uniform in the ball, without the bound on single coefficients."""
        direction = self.direction(noise.child(0).normal(count, dtype=epsilon.dtype))
        radius = epsilon * noise.child(1).uniform(dtype=epsilon.dtype) ** (1 / count)
        return radius[:, None] * direction

    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        return _clip_coefficients(self.uniform_in_ball(count, epsilon, noise))

    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        factor = (epsilon / _euclidean(coefficients).clamp_min(_TINY)).clamp_max(1)
        return _clip_coefficients(coefficients * factor[:, None])

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient / _euclidean(gradient).clamp_min(_TINY)[:, None]

    def norm(self, coefficients: Tensor) -> Tensor:
        return _reject_large(coefficients, _euclidean(coefficients))


class L1Ball(Ball):
    """Sum of absolute values at most epsilon, and every coefficient within [-2, 2].

    A :meth:`step` goes towards the best vertex of the ball that the coefficients are on, which has those with the
    largest gradients at their bound: sparse, and as many of them as the ball has room for.
    """

    def uniform_in_ball(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        """Return coefficients uniform in the ball, without the bound on single coefficients."""
        parts = noise.child(0).exponential(count, dtype=epsilon.dtype)
        rest = noise.child(1).exponential(dtype=epsilon.dtype)
        share = parts / (parts.sum(dim=1) + rest)[:, None]
        return epsilon[:, None] * share * noise.child(2).sign(count, dtype=epsilon.dtype)

    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        return _clip_coefficients(self.uniform_in_ball(count, epsilon, noise))

    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        return project_l1_ball(coefficients, epsilon, torch.full_like(coefficients, COEFFICIENT_BOUND))

    def direction(self, gradient: Tensor) -> Tensor:
        return gradient / gradient.abs().sum(dim=1, keepdim=True).clamp_min(_TINY)

    def norm(self, coefficients: Tensor) -> Tensor:
        return _reject_large(coefficients, coefficients.abs().sum(dim=1))

    def step(self, coefficients: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        length = length * direction.abs().sum(dim=1)
        budget = torch.maximum(length, coefficients.abs().sum(dim=1))
        vertex = fill_largest_first(direction, torch.full_like(coefficients, COEFFICIENT_BOUND), budget)
        return coefficients + (length / budget.clamp_min(_TINY))[:, None] * vertex


class Jpeg(Ball, ThreatModel):
    """Base of the three norms."""

    def check(self, x: Tensor) -> None:
        require_grey_or_colour(x, "jpeg")

    def neutral(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x), coefficient_count(x))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """Return a theta uniform in the set (l2 and l1: in the ball, then clipped to the bound on single
        coefficients).
        """
        return self.random(coefficient_count(x), epsilon, noise)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
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

    def max_size(self, x: Tensor) -> float:
        return COEFFICIENT_BOUND * math.sqrt(coefficient_count(x))


@dataclass(frozen=True)
class JpegL1(L1Ball, Jpeg):
    """Sum of absolute values of theta at most epsilon, and every number within [-2, 2]."""

    def max_size(self, x: Tensor) -> float:
        return COEFFICIENT_BOUND * coefficient_count(x)

    def linear_oracle(self, x: Tensor, theta: Tensor, gradient: Tensor, epsilon: Tensor) -> Tensor:
        """Return the theta of the set with the largest inner product with ``gradient`` (for Frank-Wolfe)."""
        return fill_largest_first(gradient, torch.full_like(gradient, COEFFICIENT_BOUND), epsilon)
