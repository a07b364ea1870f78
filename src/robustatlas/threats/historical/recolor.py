"""Recolouring as run by MultiRobustBench (the code of Laidlaw and Feizi 2019)."""

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.recolor import Recolor, interpolate, lattice_identity, luv_to_rgb, rgb_to_luv


@dataclass(frozen=True)
class HistoricalRecolor(Recolor):
    """The published attack. theta is first moved to colours that sRGB can show, which moves most of the lattice even at
    theta = 0. Strongly saturated colours are clipped to the lattice, so the clean image is not reachable. The start is
    the identity."""

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.neutral(x)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return luv_to_rgb(interpolate(lattice_identity(theta) + theta, rgb_to_luv(x)))

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        identity = lattice_identity(theta)
        colours = (identity + theta).clamp(0, 1).movedim(-1, 1)
        return super().project(x, rgb_to_luv(luv_to_rgb(colours)).movedim(1, -1) - identity, epsilon)
