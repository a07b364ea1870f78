"""Spatial flow as run by MultiRobustBench."""

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.flow import StAdv
from robustatlas.threats.sampling import cell_centres, sample


@dataclass(frozen=True)
class HistoricalStAdv(StAdv):
    """Starts at the identity, along which plain sampling changes most images by about 1e-6."""

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.neutral(x)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return sample(x, (cell_centres(x.shape[2], x.shape[3], theta) + theta).clamp(-1, 1), False)
