"""Brightness as run by MultiRobustBench."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.color import Brightness


@dataclass(frozen=True)
class HistoricalBrightness(Brightness):
    """Only brightens (0 <= theta <= epsilon); a negative theta has infinite size."""

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        theta = super().start(x, epsilon, noise)
        return (theta + per_sample(epsilon, theta)) / 2

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        return super().project(x, theta, epsilon).clamp_min(0)

    def size(self, x: Tensor, theta: Tensor) -> Tensor:
        return torch.where(theta[:, 0] < 0, torch.inf, super().size(x, theta))
