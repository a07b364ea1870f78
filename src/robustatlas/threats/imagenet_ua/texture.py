"""Texture: black edges, and all between them fades to white."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.edges import find_edges
from robustatlas.threats.imagenet_ua.geometry import Geometry, Rectangle
from robustatlas.threats.imagenet_ua.latents import Faded, LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize


def engrave(x: Tensor, weights: Tensor, edge: Tensor) -> Tensor:
    """Return ``x`` [B, C, H, W] whitened by ``weights`` [B, H, W], and black where ``edge`` [B, 1, H, W] is 1."""
    weight = weights[:, None]
    return torch.where(edge > 0, 0, weight + (1 - weight) * x)


@dataclass(frozen=True)
class TextureMap(LatentThreat):
    """Latent numbers, draws and the published map."""

    title: ClassVar[str] = "ua-texture"
    largest_size: ClassVar[float] = 1.0

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return tuple(x.shape[2:])

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        """Return the mask of edges, which is not random."""
        return (find_edges(x),)

    def active(self, *drawn: Tensor) -> Tensor:
        return 1 - drawn[0][:, 0]

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return engrave(x, latent, drawn[0]).clamp(0, 1)


@dataclass(frozen=True)
class UaTexture(Faded, TextureMap):
    """Texture of ImageNet-UA: edges are black, and every other pixel is mixed with white, by a weight of at most
    epsilon."""

    geometry: ClassVar[Geometry] = Rectangle(positive=True, most=1.0)
    whole: ClassVar[BySize[float]] = BySize(0.01, 0.01)
