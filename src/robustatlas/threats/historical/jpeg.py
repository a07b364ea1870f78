"""JPEG as published (Kang et al. 2019)."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from robustatlas.common.bundle import Bundle, Fixed
from robustatlas.common.jpeg import repeat_pixels, ycbcr_to_rgb
from robustatlas.common.noise import Noise
from robustatlas.threats.base import ThreatModel, UnsupportedInputError
from robustatlas.threats.jpeg import (
    COEFFICIENT_BOUND,
    Ball,
    L1Ball,
    L2Ball,
    LinfBall,
    coefficient_count,
    fill_largest_first,
    pattern,
)
from robustatlas.threats.lp import project_l1_ball


def subsample_chrominance(x: Tensor) -> Tensor:
    """Return RGB images after a conversion to YCbCr and back in which Cb and Cr are averaged over squares of 2 by 2
    pixels.
    """
    red, green, blue = x.unbind(1)
    luminance = 0.299 * red + 0.587 * green + 0.114 * blue
    cb = -0.168736 * red - 0.331264 * green + 0.5 * blue
    cr = 0.5 * red - 0.418688 * green - 0.081312 * blue
    return ycbcr_to_rgb(luminance, *(repeat_pixels(avg_pool2d(c[:, None], 2)[:, 0]) for c in (cb, cr)))


@dataclass(frozen=True)
class HistoricalJpegTheta(Bundle):
    """``gain`` [B], by which the ``coefficients`` [B, N] are multiplied."""

    gain: Fixed
    coefficients: Tensor


class HistoricalJpeg(Ball, ThreatModel):
    """Base of the three norms.

    Chrominance is averaged over 2 by 2 pixels even at ``theta = 0``, so the clean image is not in the set. Images must
    be RGB with sides that are multiples of 16.

    The gain is epsilon at the start and 1 after the first step: the code evaluates its first gradient at epsilon times
    the random start.
    """

    def check(self, x: Tensor) -> None:
        """Raise where the images are not RGB with sides that are multiples of 16."""
        if x.dim() != 4 or x.shape[1] != 3 or x.shape[2] % 16 or x.shape[3] % 16:
            raise UnsupportedInputError(
                "jpeg in its historical form needs RGB images [B, 3, H, W] whose height and width are multiples of 16; "
                f"got shape {tuple(x.shape)}: use the default form, which takes any size and grey images."
            )

    def neutral(self, x: Tensor) -> HistoricalJpegTheta:
        """Return no change of any coefficient."""
        return HistoricalJpegTheta(Fixed(x.new_ones(len(x))), x.new_zeros(len(x), coefficient_count(x)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> HistoricalJpegTheta:
        return HistoricalJpegTheta(Fixed(epsilon), self.random(coefficient_count(x), epsilon, noise))

    def apply(self, x: Tensor, theta: HistoricalJpegTheta) -> Tensor:
        """Return the image with averaged chrominance plus the pattern of the changed coefficients, clipped to [0,
        1].
        """
        change = pattern(theta.gain.values[:, None] * (theta.coefficients / 2), *x.shape[1:])
        return (subsample_chrominance(x) + change).clamp(0, 1)

    def project(self, x: Tensor, theta: HistoricalJpegTheta, epsilon: Tensor) -> HistoricalJpegTheta:
        return HistoricalJpegTheta(theta.gain, self.shrink(theta.coefficients, epsilon))

    def steepest(self, x: Tensor, gradient: HistoricalJpegTheta) -> HistoricalJpegTheta:
        return HistoricalJpegTheta(gradient.gain, self.direction(gradient.coefficients))

    def move(
        self, x: Tensor, theta: HistoricalJpegTheta, direction: HistoricalJpegTheta, length: Tensor
    ) -> HistoricalJpegTheta:
        return self._with_coefficients(theta, self.step(theta.coefficients, direction.coefficients, length))

    def size(self, x: Tensor, theta: HistoricalJpegTheta) -> Tensor:
        return self.norm(theta.coefficients)

    @staticmethod
    def _with_coefficients(theta: HistoricalJpegTheta, coefficients: Tensor) -> HistoricalJpegTheta:
        return HistoricalJpegTheta(Fixed(torch.ones_like(theta.gain.values)), coefficients)


@dataclass(frozen=True)
class HistoricalJpegLinf(LinfBall, HistoricalJpeg):
    """Every coefficient within [-epsilon, epsilon]."""


@dataclass(frozen=True)
class HistoricalJpegL2(L2Ball, HistoricalJpeg):
    """Euclidean norm at most epsilon; the start ignores the bound on single coefficients."""

    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.uniform_in_ball(count, epsilon, noise)


@dataclass(frozen=True)
class HistoricalJpegL1(L1Ball, HistoricalJpeg):
    """Sum of absolute values at most epsilon; single coefficients are bounded in the linear oracle only, which counts
    the bound from the current coefficients."""

    def random(self, count: int, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.uniform_in_ball(count, epsilon, noise)

    def shrink(self, coefficients: Tensor, epsilon: Tensor) -> Tensor:
        return project_l1_ball(coefficients, epsilon)

    def norm(self, coefficients: Tensor) -> Tensor:
        return coefficients.abs().sum(dim=1)

    def linear_oracle(
        self, x: Tensor, theta: HistoricalJpegTheta, gradient: HistoricalJpegTheta, epsilon: Tensor
    ) -> HistoricalJpegTheta:
        """Return the theta with the largest inner product with ``gradient`` that Frank-Wolfe walks towards."""
        slope = gradient.coefficients
        room = torch.full_like(slope, COEFFICIENT_BOUND) - slope.sign() * theta.coefficients
        return self._with_coefficients(theta, fill_largest_first(slope, room, epsilon))
