"""Bars: grey bars in front of the image, whose pixels are optimised."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.imagenet_ua.edge import repaint
from robustatlas.threats.imagenet_ua.geometry import POSITIVE, Geometry
from robustatlas.threats.imagenet_ua.latents import Faded, LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize


def bar_columns(width: int, count: int, thickness: int) -> Tensor:
    """Return ``[width]`` bool: the columns that lie behind bars; as published there may be one less than ``count``."""
    distance = width // count
    centres = torch.arange(distance // 2, width - distance // 2, distance)
    return ((torch.arange(width)[:, None] - centres).abs() <= thickness // 2).any(1)


@dataclass(frozen=True)
class PrisonMap(LatentThreat):
    """Latent numbers, draws and the published map."""

    title: ClassVar[str] = "ua-prison"
    largest_size: ClassVar[float] = 1.0
    count: BySize[int] = field(default=BySize(8, 7))
    thickness: BySize[int] = field(default=BySize(1, 6))

    def check(self, x: Tensor) -> None:
        super().check(x)
        if x.shape[3] < self.count.value(x):
            raise UnsupportedInputError(
                f"{self.title} needs images that are at least {self.count.value(x)} pixels wide; got shape "
                f"{tuple(x.shape)}: leave this attack out for this data."
            )

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        """Return the mask of bars, which is not random."""
        columns = cached_tensor(bar_columns, x.shape[3], self.count.value(x), self.thickness.value(x), like=x)
        return (columns.expand(len(x), 1, 1, -1),)

    def active(self, *drawn: Tensor) -> Tensor:
        return drawn[0]

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return repaint(x, latent, drawn[0]).clamp(0, 1)


@dataclass(frozen=True)
class UaPrison(Faded, PrisonMap):
    """Prison bars of ImageNet-UA: vertical grey bars, each of whose numbers is brightened by at most epsilon (pixels in
    [0, 1])."""

    geometry: ClassVar[Geometry] = POSITIVE
    whole: ClassVar[BySize[float]] = BySize(0.01, 0.01)
