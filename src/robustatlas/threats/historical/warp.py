"""Global warps as run by MultiRobustBench."""

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.sampling import sample
from robustatlas.threats.warp import Affine, Perspective, Warp


class _OneSided(Warp):
    """Starts in [0, epsilon]; plain sampling changes most images by about 1e-6 along the identity."""

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        theta = super().start(x, epsilon, noise)
        return (theta + per_sample(epsilon, theta)) / 2

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return sample(x, self.grid(x, theta), True)


@dataclass(frozen=True)
class HistoricalAffine(_OneSided, Affine):
    """:class:`~robustatlas.threats.warp.Affine`, searched from one side."""


@dataclass(frozen=True)
class HistoricalPerspective(_OneSided, Perspective):
    """:class:`~robustatlas.threats.warp.Perspective`, searched from one side."""
