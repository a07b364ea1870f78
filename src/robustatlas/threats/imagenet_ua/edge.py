"""Edges: grey, and then any colour, along the edges of the image."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.edges import find_edges
from robustatlas.threats.imagenet_ua.latents import Faded, LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize

GREY = 0.5


def repaint(x: Tensor, change: Tensor, where: Tensor) -> Tensor:
    """Return ``x``, replaced by grey plus ``change`` (shaped like it) if ``where`` [B, 1, H, W] is 1."""
    return torch.where(where > 0, GREY + change, x)


@dataclass(frozen=True)
class EdgeMap(LatentThreat):
    """Latent numbers, draws and the published map."""

    title: ClassVar[str] = "ua-edge"
    largest_size: ClassVar[float] = 1.0

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        """Return the mask of edges, which is not random."""
        return (find_edges(x),)

    def active(self, *drawn: Tensor) -> Tensor:
        return drawn[0]

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return repaint(x, latent, drawn[0]).clamp(0, 1)


@dataclass(frozen=True)
class UaEdge(Faded, EdgeMap):
    """Edges of ImageNet-UA: the edges of the image are painted grey, and each of their numbers then changes by at most
    epsilon (pixels in [0, 1]).

    The published attack paints the edges at every strength and starts outside of what it may make.
    """

    whole: ClassVar[BySize[float]] = BySize(0.03, 0.03)
