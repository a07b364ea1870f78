"""Elastic deformation: a coarse field of displacements, enlarged to the image."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.host import constant_tensor
from robustatlas.threats.elastic import displace
from robustatlas.threats.imagenet_ua.geometry import BALL, Geometry
from robustatlas.threats.imagenet_ua.latents import LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize


def enlarge_flow(flow: Tensor, x: Tensor) -> Tensor:
    """Return ``[B, 2, H, W]``: a coarse ``flow`` [B, 2, h, w] as large as ``x``, by bicubic interpolation."""
    return F.interpolate(flow, x.shape[2:], mode="bicubic", align_corners=False)


def half_sides(x: Tensor) -> Tensor:
    """Return ``[2]``: half the width and half the height of ``x``, in pixels: the unit of the grid."""
    return constant_tensor((x.shape[3] / 2, x.shape[2] / 2), like=x)


@dataclass(frozen=True)
class UaElastic(LatentThreat):
    """Elastic deformation of ImageNet-UA: displacements on a coarse grid (half the side of the image is 1), with a
    Euclidean norm of all of them of at most epsilon, are enlarged to the image by bicubic interpolation.

    In the published attack no displacement zooms the image and darkens its border, and steps go along the sign.

    Example:
        >>> import torch
        >>> threat = UaElastic()
        >>> threat.neutral(torch.rand(2, 3, 32, 32)).latent.shape
        torch.Size([2, 2, 16, 16])
    """

    title: ClassVar[str] = "ua-elastic"
    geometry: ClassVar[Geometry] = BALL
    factor: BySize[int] = field(default=BySize(2, 32))

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (2, *(max(1, side // self.factor.value(x)) for side in x.shape[2:]))

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return displace(x, enlarge_flow(latent, x) * half_sides(x).view(2, 1, 1)).clamp(0, 1)
