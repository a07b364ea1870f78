"""Gabor noise: a field of numbers convolved with a random kernel of waves, the same grey pattern for all channels."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.bundle import Bundle, Fixed, max_abs, per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.base import EachBounded
from robustatlas.threats.box import require_images

KERNEL = 23
SIDES = 10
GAIN = 2.0
"""Sum of the absolute values of the kernel; it makes the pattern as strong as the published one."""

_REDRAW_REACHES = (0.5, 0.25, 0.1)
"""Radius of each round of draws around the best kernels, as a share of the parameters' range."""

_KEPT_SHAPES, _REDRAW_DIVISOR = 8, 4
"""Number of best kernels that are kept, and the divisor of the number of draws for each further round."""

_SHAPES_AT_ONCE = 64
"""Number of kernels that are scored together, to limit memory."""

_SCORED_STRIDE = 3
"""Stride of the pixels at which a kernel is scored in images larger than a kernel.

Gradients repeat with the patches and strides of a network, so the stride is no divisor or multiple of usual ones.
"""


def gabor_kernel(sides: Tensor, sigma: Tensor, wavelength: Tensor, angle: Tensor) -> Tensor:
    """Return ``[B, 23, 23]``: waves under a Gaussian, summed over as many directions as there are ``sides`` [B].

    ``sigma`` [B] is the width on a square of side 1, ``wavelength`` [B] (the published name) the number of waves
    across it, ``angle`` [B] in radians.
    """
    axis = torch.linspace(-0.5, 0.5, KERNEL, dtype=sigma.dtype, device=sigma.device)
    number = torch.arange(SIDES, dtype=sigma.dtype, device=sigma.device)
    turned = angle[:, None] + math.pi * number / sides[:, None]
    turns = 2 * math.pi * wavelength[:, None]
    # cos(x + y) = cos x cos y - sin x sin y: a wave in any direction from numbers along the two axes
    right, down = (turns * turned.cos())[..., None] * axis, (turns * turned.sin())[..., None] * axis
    there = (number < sides[:, None])[..., None]
    waves = (down.cos() * there).mT @ right.cos() - (down.sin() * there).mT @ right.sin()
    bell = torch.exp(-0.5 * (axis / (sigma + 1e-3)[:, None]) ** 2)
    return waves * bell[:, :, None] * bell[:, None, :]


def random_shapes(noise: Noise, *count: int, dtype: torch.dtype) -> Tensor:
    """Return ``[B, *count, 4]`` in [0, 1): the parameters of a kernel (see :func:`shaped_kernel`)."""
    sides = noise.child(0).uniform(*count, 1, dtype=dtype)
    return torch.cat([sides, noise.child(1).uniform(*count, 3, dtype=dtype)], -1)


def shaped_kernel(shapes: Tensor) -> Tensor:
    """Return ``[B, 23, 23]``: the kernels with 1 to 10 directions, of some width, number of waves and angle, each a
    share of its range in ``shapes`` [B, 4].
    """
    sides, sigma, wavelength, angle = shapes.unbind(dim=1)
    sides = 1 + (SIDES * sides).floor().clamp_max(SIDES - 1)
    return gabor_kernel(sides, 0.1 + 0.3 * sigma, 3 + 2.75 * wavelength, math.pi * angle)


def random_kernel(noise: Noise, dtype: torch.dtype) -> Tensor:
    """Return ``[B, 23, 23]``: a random kernel for each sample."""
    return shaped_kernel(random_shapes(noise, dtype=dtype))


def convolve(field: Tensor, kernel: Tensor) -> Tensor:
    """Convolve ``field`` [B, H, W] with the ``kernel`` [B, 23, 23] of its sample, zeros outside."""
    return F.conv2d(field[None], kernel[:, None], padding=KERNEL // 2, groups=len(field))[0]


def gradient_gain(gradient: Tensor, shapes: Tensor) -> Tensor:
    """Return ``[B, K]``: how fast a small field at some of the pixels can raise an objective with this ``gradient`` [B,
    H, W] of the grey image, through the kernels of each of the ``shapes`` [B, K, 4].
    """
    found, apart = [], _SCORED_STRIDE if min(gradient.shape[1:]) > KERNEL else 1
    for some in torch.split(shapes, _SHAPES_AT_ONCE, dim=1):
        kernels = shaped_kernel(some.flatten(0, 1))
        weights = (kernels / kernels.abs().sum(dim=(1, 2), keepdim=True))[:, None]
        slopes = F.conv2d(gradient[None], weights, padding=KERNEL // 2, groups=len(gradient), stride=apart)[0]
        found.append(slopes.abs().sum(dim=(1, 2)).view(some.shape[:2]))
    return torch.cat(found, 1)


def _select_shapes(gradient: Tensor, shapes: Tensor, count: int) -> Tensor:
    """Return ``[B, count, 4]``: the best of ``shapes`` [B, K, 4], best first."""
    best = gradient_gain(gradient, shapes).topk(min(count, shapes.shape[1]), dim=1).indices
    return shapes.take_along_dim(best[:, :, None], dim=1)


def neutral_kernel(x: Tensor) -> Tensor:
    """Return ``[B, 23, 23]``: one fixed draw, where no noise is added and the kernel does not matter."""
    return random_kernel(
        Noise.for_samples(0, torch.zeros(len(x), dtype=torch.int64, device=x.device), "gabor"), x.dtype
    )


@dataclass(frozen=True)
class GaborTheta(Bundle):
    """``field`` [B, H, W] and ``kernel`` [B, 23, 23]."""

    field: Tensor
    kernel: Fixed


@dataclass(frozen=True)
class Gabor(EachBounded):
    """Adversarial Gabor noise; ``epsilon`` in units of 1/255.

    The field is in [-epsilon, epsilon]; the kernel of 23 by 23 numbers is scaled to a sum of absolute values of 2. So a
    pattern is about as strong as the published one, and no pixel changes by more than 2 epsilon. Of ``draws`` random
    kernels the eight through which the gradient of the clean image is steepest are drawn around three times, ever
    nearer.

    The published attack (:class:`~robustatlas.threats.historical.gabor.HistoricalGabor`) stretches the pattern to [0,
    epsilon] whatever the field: it is neither nested nor contains the clean image, and noise only brightens.

    Example:
        >>> threat = Gabor()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    draws: int = 4096

    @property
    def chooses(self) -> bool:
        return True

    def check(self, x: Tensor) -> None:
        require_images(x, "gabor")

    def neutral(self, x: Tensor) -> GaborTheta:
        return GaborTheta(torch.zeros_like(x[:, 0]), Fixed(neutral_kernel(x)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> GaborTheta:
        field = noise.child(1).symmetric(*x.shape[2:], dtype=x.dtype)
        return GaborTheta(per_sample(epsilon, field) * field, Fixed(random_kernel(noise.child(0), x.dtype)))

    def choose(self, x: Tensor, gradient: Tensor, noise: Noise) -> GaborTheta:
        grey = gradient.sum(dim=1)
        shapes = random_shapes(noise.child(0), self.draws, dtype=x.dtype)
        best = _select_shapes(grey, shapes, _KEPT_SHAPES)
        for number, reach in enumerate(_REDRAW_REACHES, 1):
            count = max(1, self.draws // (_REDRAW_DIVISOR * best.shape[1]))
            moves = random_shapes(noise.child(number), count * best.shape[1], dtype=x.dtype) - 0.5
            around = best.repeat(1, count, 1) + reach * moves
            around = torch.cat([around[..., :3].clamp(0, 1), around[..., 3:].remainder(1)], -1)  # angles are periodic
            best = _select_shapes(grey, torch.cat([best, around], 1), _KEPT_SHAPES)
        return GaborTheta(torch.zeros_like(grey), Fixed(shaped_kernel(best[:, 0])))

    def apply(self, x: Tensor, theta: GaborTheta) -> Tensor:
        kernel = theta.kernel.values
        pattern = convolve(theta.field, GAIN * kernel / kernel.abs().sum(dim=(1, 2), keepdim=True))
        return (x + pattern[:, None] / 255).clamp(0, 1)

    def project(self, x: Tensor, theta: GaborTheta, epsilon: Tensor) -> GaborTheta:
        bound = per_sample(epsilon, theta.field)
        return GaborTheta(theta.field.clamp(-bound, bound), theta.kernel)

    def size(self, x: Tensor, theta: GaborTheta) -> Tensor:
        return max_abs(theta)
