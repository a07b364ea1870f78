"""Gabor noise: a field of numbers convolved with a random kernel of waves, the same grey pattern for all channels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.bundle import Bundle, Fixed, largest, over, per_sample
from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.box import require_images

KERNEL = 23
SIDES = 10
GAIN = 2.0
"""Sum of the absolute values of the kernel; makes the default pattern as strong as the published one."""


def gabor_kernel(sides: Tensor, sigma: Tensor, wavelength: Tensor, angle: Tensor) -> Tensor:
    """``[B, 23, 23]``: waves under a Gaussian, summed over as many directions as there are ``sides`` [B].

    ``sigma`` [B] is the width on a square of side 1, ``wavelength`` [B] (the published name) the number of waves
    across it, ``angle`` [B] in radians.
    """
    axis = torch.linspace(-0.5, 0.5, KERNEL, dtype=sigma.dtype, device=sigma.device)
    number = torch.arange(SIDES, dtype=sigma.dtype, device=sigma.device)
    turned = (angle[:, None] + math.pi * number / sides[:, None])[..., None, None]
    along = axis * turned.cos() + axis[:, None] * turned.sin()
    across = -axis * turned.sin() + axis[:, None] * turned.cos()
    width = (sigma + 1e-3)[:, None, None, None]
    waves = torch.exp(-0.5 * (along**2 + across**2) / width**2)
    waves = waves * torch.cos(2 * math.pi * wavelength[:, None, None, None] * along)
    return (waves * (number < sides[:, None])[..., None, None]).sum(dim=1)


def random_kernel(noise: Noise, dtype: torch.dtype) -> Tensor:
    """``[B, 23, 23]``: a kernel with 1 to 10 directions for each sample."""
    sides = 1 + noise.child(0).integers(SIDES, 1)[:, 0].to(dtype)
    sigma, wavelength, angle = noise.child(1).uniform(3, dtype=dtype).unbind(dim=1)
    return gabor_kernel(sides, 0.1 + 0.3 * sigma, 3 + 2.75 * wavelength, math.pi * angle)


def convolve(field: Tensor, kernel: Tensor) -> Tensor:
    """``field`` [B, H, W] with the ``kernel`` [B, 23, 23] of its sample, zeros outside."""
    return F.conv2d(field[None], kernel[:, None], padding=KERNEL // 2, groups=len(field))[0]


def neutral_kernel(x: Tensor) -> Tensor:
    """``[B, 23, 23]``: one fixed draw, where no noise is added and the kernel does not matter."""
    return random_kernel(Noise.of(0, torch.zeros(len(x), dtype=torch.int64, device=x.device), "gabor"), x.dtype)


@dataclass(frozen=True)
class GaborTheta(Bundle):
    """``field`` [B, H, W] and ``kernel`` [B, 23, 23]."""

    field: Tensor
    kernel: Fixed


@dataclass(frozen=True)
class Gabor(ThreatModel):
    """Adversarial Gabor noise; ``epsilon`` in units of 1/255.

    The field is in [-epsilon, epsilon]; the kernel of 23 by 23 numbers is drawn once and scaled to a sum of absolute
    values of 2. Then an adversarial pattern has a root mean square of about epsilon / 2, as much as the published one
    deviates from its mean, and no pixel changes by more than 2 epsilon.

    Differences from the published attack (:class:`~robustatlas.threats.historical.gabor.HistoricalGabor`): there the
    pattern is stretched to [0, epsilon] whatever the field, so the sets are neither nested nor contain the clean image,
    and noise only brightens; here the pattern is the convolution itself and takes both signs.

    Example:
        >>> threat = Gabor()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    def check(self, x: Tensor) -> None:
        require_images(x, "gabor")

    def neutral(self, x: Tensor) -> GaborTheta:
        """No noise."""
        return GaborTheta(torch.zeros_like(x[:, 0]), Fixed(neutral_kernel(x)))

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> GaborTheta:
        """A random kernel and a uniform field."""
        field = noise.child(1).symmetric(*x.shape[2:], dtype=x.dtype)
        return GaborTheta(per_sample(epsilon, field) * field, Fixed(random_kernel(noise.child(0), x.dtype)))

    def apply(self, x: Tensor, theta: GaborTheta) -> Tensor:
        """The image with the noise added, clipped to [0, 1]."""
        kernel = theta.kernel.values
        pattern = convolve(theta.field, GAIN * kernel / kernel.abs().sum(dim=(1, 2), keepdim=True))
        return (x + pattern[:, None] / 255).clamp(0, 1)

    def project(self, x: Tensor, theta: GaborTheta, epsilon: Tensor) -> GaborTheta:
        """The field clipped to its interval."""
        bound = per_sample(epsilon, theta.field)
        return GaborTheta(theta.field.clamp(-bound, bound), theta.kernel)

    def steepest(self, x: Tensor, gradient: GaborTheta) -> GaborTheta:
        return over(torch.sign, gradient)

    def size(self, x: Tensor, theta: GaborTheta) -> Tensor:
        """The largest absolute number of the field."""
        return largest(theta)
