"""An adversarial patch: a square of the image is replaced, its side is the strength (Brown et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.noise import Noise
from robustatlas.threats.base import ThreatModel, per_sample
from robustatlas.threats.box import require_images


@dataclass(frozen=True)
class Patch(ThreatModel):
    """Anything inside of a square whose side is at most epsilon times the image's shorter side (in whole pixels,
    rounded down).

    theta is ``[B, C * H * W + 3]``: the change of each pixel, the place of the square (row and column, 0 at the top or
    left, 1 at the bottom or right end; drawn per sample and not optimised) and the strength it was last projected to,
    which sets the length of a step. At one place, squares of growing side contain each other. The size of theta is
    that of the smallest of them that holds every changed pixel.

    Example:
        >>> x, patch = torch.rand(1, 3, 8, 8), Patch()
        >>> noise = Noise.of(seed=0, indices=torch.tensor([0]), purpose="patch")
        >>> theta = patch.start(x, torch.tensor([0.25]), noise)
        >>> int((patch.apply(x, theta) != x).any(1).sum())
        4
    """

    def check(self, x: Tensor) -> None:
        require_images(x, "patch")

    def neutral(self, x: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(x).flatten(1), x.new_tensor([0.5, 0.5, 0.0]).expand(len(x), 3)], 1)

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        content = noise.child(0).uniform(*x.shape[1:], dtype=x.dtype) - x
        place = noise.child(1).uniform(2, dtype=x.dtype)
        return self.project(x, torch.cat([content.flatten(1), place, epsilon[:, None].to(x.dtype)], 1), epsilon)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return (x + theta[:, :-3].view_as(x)).clamp(0, 1)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        change = theta[:, :-3].view_as(x)
        inside = self._side_needed(x, theta) <= per_sample(self._pixels(x, epsilon), x[:, 0])
        change = torch.where(inside[:, None], torch.minimum(torch.maximum(change, -x), 1 - x), torch.zeros_like(x))
        return torch.cat([change.flatten(1), theta[:, -3:-1], epsilon[:, None].clamp_max(1).to(theta.dtype)], 1)

    def steepest(self, gradient: Tensor) -> Tensor:
        return gradient.sign()

    def move(self, theta: Tensor, direction: Tensor, length: Tensor) -> Tensor:
        """A step as long as the strength changes a pixel by 1, its whole range."""
        return super().move(theta, direction, length / theta[:, -1].clamp_min(1e-3))

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        changed = (theta[:, :-3].view_as(x) != 0).any(1)
        needed = torch.where(changed, self._side_needed(x, theta), torch.zeros_like(x[:, 0]))
        return needed.flatten(1).amax(1) / min(x.shape[2:])

    @staticmethod
    def _pixels(x: Tensor, epsilon: Tensor) -> Tensor:
        """The side in pixels; the tiny excess keeps a strength such as 3/32 from rounding down to 2."""
        return (epsilon * min(x.shape[2:]) * (1 + 1e-6)).floor().clamp_max(min(x.shape[2:]))

    @staticmethod
    def _side_needed(x: Tensor, theta: Tensor) -> Tensor:
        """``[B, H, W]``: side of the smallest square at the place of ``theta`` that holds the pixel (infinite where
        none does).

        A square of side s covers the rows floor(r (H - s)) + 0 .. s - 1: as s grows its ends only move outwards.
        """
        height, width = x.shape[2:]
        sides = torch.arange(1, min(height, width) + 1, device=x.device, dtype=x.dtype)

        def covered(place: Tensor, count: int) -> Tensor:
            first = (place[:, None] * (count - sides)).floor()[..., None]
            index = torch.arange(count, device=x.device, dtype=x.dtype)
            return (index >= first) & (index < first + sides[:, None])

        def needed(place: Tensor, count: int) -> Tensor:
            inside = covered(place, count)
            return torch.where(inside.any(1), inside.int().argmax(1).to(x.dtype) + 1, torch.inf)

        return torch.maximum(needed(theta[:, -3], height)[:, :, None], needed(theta[:, -2], width)[:, None, :])
