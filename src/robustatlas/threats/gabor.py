"""Gabor noise: a field of numbers convolved with a random kernel of waves, the same grey pattern for all channels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel, per_sample
from robustatlas.threats.box import require_images

KERNEL = 23
SIDES = 10
GAIN = 2.0
"""Sum of the absolute values of the kernel; makes the default pattern as strong as the published one."""

SPARSITY = 14
"""One of this many numbers of the historical start is not zero."""


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


def stretched_noise(field: Tensor, kernel: Tensor) -> Tensor:
    """The published pattern ``[B, H, W]`` in [0, 1]: nearly the sign of the convolution.

    Mean, normalisation and range count as constants for the gradient. Where nothing varies, the pattern is 0.
    """
    convolved = convolve(field, kernel)
    mean = convolved.detach().mean(dim=(1, 2), keepdim=True)
    deviation = convolved - mean
    size = deviation.detach().abs()
    size = size / size.amax(dim=(1, 2), keepdim=True).clamp_min(1e-12)
    normalised = mean + deviation * (1.001 / (0.001 + size))
    fixed = normalised.detach()
    low, high = fixed.amin(dim=(1, 2), keepdim=True), fixed.amax(dim=(1, 2), keepdim=True)
    return (normalised - low) / (high - low).clamp_min(1e-12)


@dataclass(frozen=True)
class Gabor(ThreatModel):
    """Adversarial Gabor noise; ``epsilon`` in units of 1/255.

    ``theta`` is ``[B, H * W + 529]``: the field, in [-epsilon, epsilon], then the kernel of 23 by 23 numbers, drawn
    once and never optimised. The kernel is scaled to a sum of absolute values of 2. Then an adversarial pattern has a
    root mean square of about epsilon / 2, as much as the published one deviates from its mean, and no pixel changes by
    more than 2 epsilon.

    Differences from the published attack (Kang et al. 2019): there the pattern is stretched to [0, epsilon] whatever
    the field, so the sets are neither nested nor contain the clean image, and noise only brightens; here the pattern
    is the convolution itself and takes both signs.

    Args:
        faithful: the published map and update. ``theta`` is the strength, the field in [-1, 1], a mask and the
            kernel. The start is sparse, and the mask
            keeps everything *but* the numbers of the start: the first step removes them, and sets all others free.
            The start has exactly one in 14 numbers in each image (the code: in the whole batch), so that results do
            not depend on batch composition.

    Example:
        >>> threat = Gabor()
        >>> x = torch.rand(2, 3, 32, 32)
        >>> bool((threat.apply(x, threat.neutral(x)) == x).all())
        True
    """

    faithful: bool = False

    def check(self, x: Tensor) -> None:
        """Raise where ``x`` does not hold images."""
        require_images(x, "gabor")

    def neutral(self, x: Tensor) -> Tensor:
        """No noise, with one fixed draw of the kernel (historical form: strength 0)."""
        fixed = Noise.of(0, torch.zeros(len(x), dtype=torch.int64, device=x.device), "gabor")
        kernel = random_kernel(fixed, x.dtype).flatten(1)
        field = torch.zeros_like(x[:, 0]).flatten(1)
        if self.faithful:
            return torch.cat((x.new_zeros(len(x), 1), field, torch.ones_like(field), kernel), dim=1)
        return torch.cat((field, kernel), dim=1)

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        """A random kernel and a uniform field (historical form: sparse)."""
        count = x.shape[2] * x.shape[3]
        kernel = random_kernel(noise.child(0), x.dtype).flatten(1)
        field = noise.child(1).symmetric(count, dtype=x.dtype)
        if not self.faithful:
            return torch.cat((epsilon[:, None] * field, kernel), dim=1)
        first = noise.child(2).uniform(count).argsort(dim=1)[:, : round(count / SPARSITY)]
        mask = torch.ones_like(field).scatter(1, first, 0.0)
        return torch.cat((epsilon[:, None], field * (1 - mask), mask, kernel), dim=1)

    def _parts(self, theta: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Of the historical form: strength ``[B, 1]``, field, mask, kernel."""
        count = (theta.shape[1] - 1 - KERNEL * KERNEL) // 2
        strength, field, mask, kernel = torch.split(theta, [1, count, count, KERNEL * KERNEL], dim=1)
        return strength, field, mask, kernel

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        """The image with the noise added, clipped to [0, 1]."""
        height, width = x.shape[2:]
        kernel = theta[:, -KERNEL * KERNEL :].view(-1, KERNEL, KERNEL)
        if self.faithful:
            strength, field, _, _ = self._parts(theta)
            pattern = per_sample(strength, x[:, 0]) * stretched_noise(field.view(-1, height, width), kernel)
        else:
            field = theta[:, : -KERNEL * KERNEL].view(-1, height, width)
            pattern = convolve(field, GAIN * kernel / kernel.abs().sum(dim=(1, 2), keepdim=True))
        return (x + pattern[:, None] / 255).clamp(0, 1)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        """The field clipped to its interval; in the historical form the strength becomes ``epsilon`` itself."""
        if self.faithful:
            _, field, mask, kernel = self._parts(theta)
            return torch.cat((epsilon[:, None], field.clamp(-1, 1), mask, kernel), dim=1)
        field, kernel = theta[:, : -KERNEL * KERNEL], theta[:, -KERNEL * KERNEL :]
        return torch.cat((field.clamp(-epsilon[:, None], epsilon[:, None]), kernel), dim=1)

    def steepest(self, gradient: Tensor) -> Tensor:
        """The sign of the gradient on the field, zero elsewhere."""
        direction = gradient.sign()
        if self.faithful:
            strength, field, mask, kernel = self._parts(direction)
            rest = (torch.zeros_like(mask), torch.zeros_like(kernel))
            return torch.cat((torch.zeros_like(strength), field, *rest), dim=1)
        direction[:, -KERNEL * KERNEL :] = 0
        return direction

    def move(self, theta: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """A step; in the historical form the mask is applied to its end."""
        moved = theta + length[:, None] * direction
        if self.faithful:
            strength, field, mask, kernel = self._parts(moved)
            return torch.cat((strength, field.clamp(-1, 1) * mask, mask, kernel), dim=1)
        return moved

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        """The largest absolute number of the field (historical form: the strength)."""
        return theta[:, 0].clone() if self.faithful else theta[:, : -KERNEL * KERNEL].abs().amax(dim=1)
