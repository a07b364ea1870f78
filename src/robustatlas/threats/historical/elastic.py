"""Elastic deformation as published (Kang et al. 2019)."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.host import constant_tensor
from robustatlas.threats.elastic import Elastic, displace, smooth


@dataclass(frozen=True)
class HistoricalElastic(Elastic):
    """Samples as the public code does under PyTorch 1.3 and later (``align_corners=False`` on a grid that reaches from
    -1 to 1).

    ``theta = 0`` is not the identity but a slight zoom with half-dark border pixels. Published figures of
    MultiRobustBench were made this way; the first release put the samples on the pixels.
    """

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        displacement = smooth(theta)
        height, width = x.shape[-2:]
        column = torch.linspace(-1, 1, width, dtype=x.dtype, device=x.device) + displacement[:, 0] * (2 / width)
        row = torch.linspace(-1, 1, height, dtype=x.dtype, device=x.device)[:, None] + displacement[:, 1] * (2 / height)
        grid = torch.stack((column, row), dim=-1)
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False).clamp(0, 1)


@dataclass(frozen=True)
class HistoricalElasticOnPixels(Elastic):
    """Samples as the first release did under PyTorch 1.0, with which UAR was calibrated (``align_corners=True``). A
    displacement is (side - 1) / side of what it is called; no displacement changes nothing."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        height, width = x.shape[-2:]
        share = constant_tensor(((width - 1) / width, (height - 1) / height), x).view(1, 2, 1, 1)
        return displace(x, smooth(theta) * share).clamp(0, 1)
