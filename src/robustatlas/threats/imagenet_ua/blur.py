"""Blur: the image fades into a blurred one, more here and less there."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.threats.imagenet_ua.geometry import Geometry, Rectangle
from robustatlas.threats.imagenet_ua.latents import LatentThreat
from robustatlas.threats.imagenet_ua.smoothing import require_room, smooth_field

KERNEL, SIGMA = 17, 25.0
MAP_KERNEL, MAP_SIGMA = 9, 18.0


def blend_blur(x: Tensor, weights: Tensor) -> Tensor:
    """Return ``x`` [B, C, H, W] mixed with its blurred self, by the smoothed ``weights`` [B, 1, H, W]."""
    weight = smooth_field(weights, MAP_KERNEL, MAP_SIGMA)
    return weight * smooth_field(x, KERNEL, SIGMA) + (1 - weight) * x


@dataclass(frozen=True)
class UaBlur(LatentThreat):
    """Blur of ImageNet-UA: every pixel is mixed with the blurred image (17 by 17 pixels), by a smoothed weight of at
    most epsilon, and at most 1."""

    title: ClassVar[str] = "ua-blur"
    geometry: ClassVar[Geometry] = Rectangle(positive=True, most=1.0)
    largest_size: ClassVar[float] = 1.0

    def check(self, x: Tensor) -> None:
        require_room(x, KERNEL, self.title)

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (1, *x.shape[2:])

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return blend_blur(x, latent).clamp(0, 1)
