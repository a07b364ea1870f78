"""Spatial flow: each pixel is read from a place nearby (Xiao et al. 2018, "Spatially transformed examples")."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.box import BoxThreat, require_images
from robustatlas.threats.sampling import cell_centres, resample


def neighbour_variation(field: Tensor) -> Tensor:
    """Return ``[B]``: sum over the points of ``field`` [B, *grid, k] and their axis neighbours of their Euclidean
    distance.

    Every edge counts twice and a point at the border is its own missing neighbour; 1e-10 under the root keeps the
    gradient finite.
    """
    axes = range(1, field.dim() - 1)
    total = field.new_zeros(len(field))
    for axis in axes:
        steps = field.diff(dim=axis)
        border = 2 * field.shape[1:-1].numel() // field.shape[axis]
        total = total + 2 * (steps.square().sum(-1) + 1e-10).sqrt().flatten(1).sum(1) + border * 1e-5
    return total


@dataclass(frozen=True)
class StAdv(BoxThreat):
    """Every pixel q of the result is ``x`` read at q + theta_q, bilinear, nothing (black) outside of the image.

    theta is ``[B, H, W, 2]``, (x, y) displacements in units of half the image side. Every one is at most epsilon, and
    no pixel is read from beyond the border. epsilon = .05 is .8 pixels at 32x32 (Laidlaw et al. 2021,
    MultiRobustBench).

    Example:
        >>> x = torch.rand(2, 3, 8, 8)
        >>> flow = StAdv()
        >>> bool((flow.apply(x, flow.neutral(x)) == x).all())
        True
    """

    largest_size: ClassVar[float] = 2.0

    def check(self, x: Tensor) -> None:
        require_images(x, "stadv")

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (*x.shape[2:], 2)

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.project(x, super().start(x, epsilon, noise), epsilon)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        identity = cell_centres(x.shape[2], x.shape[3], theta)
        return resample(x, (identity + theta).clamp(-1, 1), identity, False)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        identity = cell_centres(x.shape[2], x.shape[3], theta)
        bound = per_sample(epsilon, theta)
        lower, upper = torch.maximum(-1 - identity, -bound), torch.minimum(1 - identity, bound)
        return torch.minimum(torch.maximum(theta, lower), upper)

    def smoothness(self, theta: Tensor) -> Tensor:
        """Return ``[B]``: the roughness of the flow, the sum of distances of neighbouring displacements (eq. 4)."""
        return neighbour_variation(theta)
