"""Dots: round patches of random colours, whose sizes are optimised."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import cached_tensor
from robustatlas.common.noise import Noise
from robustatlas.threats.imagenet_ua.geometry import POSITIVE_BALL, Geometry
from robustatlas.threats.imagenet_ua.latents import Faded, LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize

DOTS = 20
SCALING, THRESHOLD, EXPONENT = 5.0, 0.5, 5


def _places(height: int, width: int) -> Tensor:
    """Return ``[H * W, 2]``: column and row of every pixel, in sides of the image."""
    rows, columns = (torch.arange(side, dtype=torch.float64) / side for side in (height, width))
    return torch.stack(torch.meshgrid(rows, columns, indexing="ij")[::-1], -1).view(-1, 2)


def add_dots(x: Tensor, strengths: Tensor, centres: Tensor, colours: Tensor) -> Tensor:
    """Return ``x`` [B, C, H, W] under dots with ``strengths`` [B, 20], ``centres`` [B, 20, 2] (column, row, in sides of
    the image) and ``colours`` [B, C, 20].
    """
    places = cached_tensor(_places, *x.shape[2:], like=x)
    offset = places[:, None] - centres[:, None]
    near = 1 - offset.square().sum(3).sqrt()
    logits = SCALING * near**EXPONENT * strengths[:, None]
    image = torch.full_like(logits[..., :1], SCALING * THRESHOLD)
    weights = torch.cat([image, logits], 2).softmax(2)
    dots = (colours @ weights[..., 1:].transpose(1, 2)).view_as(x)
    return weights[..., 0].view(-1, 1, *x.shape[2:]) * x + dots


@dataclass(frozen=True)
class PolkadotMap(LatentThreat):
    """Latent numbers, draws and the published map."""

    title: ClassVar[str] = "ua-polkadot"

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (DOTS,)

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        centres = noise.child(0).uniform(DOTS, 2, dtype=x.dtype)
        return centres, noise.child(1).uniform(x.shape[1], DOTS, dtype=x.dtype)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return add_dots(x, latent, *drawn).clamp(0, 1)


@dataclass(frozen=True)
class UaPolkadot(Faded, PolkadotMap):
    """Polka dots of ImageNet-UA: twenty dots of random places and colours melt into the image. The Euclidean norm of
    their strengths, none of them negative, is at most epsilon.

    The published attack reflects negative strengths, which are cut here; its dots belong to the batch.
    """

    geometry: ClassVar[Geometry] = POSITIVE_BALL
    varied: ClassVar[bool] = True
    whole: ClassVar[BySize[float]] = BySize(1.0, 1.0)
