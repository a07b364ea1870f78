"""The perceptual threat model as searched by the code of Laidlaw et al. 2021."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.common.noise import Noise
from robustatlas.threats.lp import clip_to_box
from robustatlas.threats.perceptual import Perceptual, small_noise


@dataclass(frozen=True)
class HistoricalPerceptual(Perceptual):
    """A start is not drawn into the set; in the projection gradients accumulate over the Newton steps, and the last
    tested point of ten halvings is returned even where it is slightly outside."""

    def start(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return small_noise(x, noise)

    def project(self, x: Tensor, theta: Tensor, epsilon: Tensor) -> Tensor:
        theta = clip_to_box(x, theta)
        total = torch.zeros_like(theta)
        outside = torch.ones_like(epsilon, dtype=torch.bool)
        for _ in range(10):
            distance, slope = self.linearised(x, theta)
            outside = outside & (distance > epsilon)
            if not bool(outside.any()):
                return theta
            total = select(outside, total + slope(), total)
            length = 1.1 * (distance - epsilon + 0.1) / total.square().flatten(1).sum(1).clamp_min(1e-12)
            theta = select(outside, clip_to_box(x, theta - per_sample(length, theta) * total), theta)
        outside = outside & (self.size(x, theta) > epsilon)
        share, width, tested = torch.full_like(epsilon, 0.5), 0.5, theta
        for _ in range(10):
            tested = per_sample(share, theta) * theta
            width /= 2
            share = torch.where(self.size(x, tested) > epsilon, share - width, share + width)
        return select(outside, tested, theta)
