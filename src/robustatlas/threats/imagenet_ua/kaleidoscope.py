"""Kaleidoscope: coloured, half transparent shapes with bright outlines, whose colours are optimised."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.box import require_colour
from robustatlas.threats.imagenet_ua import shapes
from robustatlas.threats.imagenet_ua.hsv import to_rgb
from robustatlas.threats.imagenet_ua.latents import Faded, LatentThreat
from robustatlas.threats.imagenet_ua.sizes import BySize

LEAST_VALUE, LEAST_SATURATION = 0.8, 0.7
OUTLINE = 5


def random_colours(noise: Noise, count: int, dtype: torch.dtype) -> Tensor:
    """Return ``[B, count, 3]``: bright colours."""
    hue, saturation, value = (noise.child(k).uniform(count, dtype=dtype) for k in range(3))
    saturation = LEAST_SATURATION + (1 - LEAST_SATURATION) * saturation
    value = LEAST_VALUE + (1 - LEAST_VALUE) * value
    return to_rgb(torch.stack([hue, saturation, value], 1)).transpose(1, 2)


def overlay_shapes(
    x: Tensor, colours: Tensor, grey: Tensor, spans: Tensor, outline: Tensor, transparency: float
) -> Tensor:
    """Return ``x`` [B, 3, H, W] behind shapes.

    Args:
        x: the images.
        colours: ``[B, K, 3]`` of the shapes; overlapping ones are added.
        grey: ``[B, 1, H, W]``, of which the absolute value is shown on the outlines.
        spans: of the shapes, as :func:`~robustatlas.threats.imagenet_ua.shapes.spans` gives them.
        outline: ``[B, 1, H, W]``, 1 on the outlines of shapes.
        transparency: of the shapes.
    """
    masks = shapes.masks(spans, x.shape[2]).to(x.dtype)
    laid = torch.einsum("bkc,bkhw->bchw", colours, masks)
    behind = masks.amax(1, keepdim=True)
    shown = laid + (1 - (1 - transparency) * behind) * x
    return torch.where(outline > 0, torch.where(grey < 0, -grey, grey), shown)


@dataclass(frozen=True)
class KaleidoscopeMap(LatentThreat):
    """Latent numbers, draws and the published map."""

    title: ClassVar[str] = "ua-kaleidoscope"
    largest_size: ClassVar[float] = 1.0
    count: BySize[int] = field(default=BySize(5, 40))
    extent: BySize[int] = field(default=BySize(4, 15))
    transparency: BySize[float] = field(default=BySize(0.2, 0.1))

    def check(self, x: Tensor) -> None:
        require_colour(x, self.title)
        least = shapes.least_side(self.extent.value(x))
        if min(x.shape[2:]) < least:
            raise UnsupportedInputError(
                f"{self.title} lays shapes over images, which need at least {least}x{least} pixels; got shape "
                f"{tuple(x.shape)}: leave this attack out for this data."
            )

    def shape(self, x: Tensor) -> tuple[int, ...]:
        """Return the number of values of colours and outlines."""
        return (3 * self.count.value(x) + x[0, 0].numel(),)

    def draw(self, x: Tensor, noise: Noise) -> tuple[Tensor, ...]:
        count, size, sides = self.count.value(x), self.extent.value(x), x.shape[2:]
        drawn = shapes.random_shapes(noise.child(0), count, size, *sides)
        spans = shapes.spans(drawn, size, *sides).to(x.dtype)
        outline = shapes.outlines(spans, sides[0], OUTLINE).to(x.dtype)[:, None]
        return random_colours(noise.child(1), count, x.dtype), spans, outline

    def active(self, *drawn: Tensor) -> Tensor:
        colours, _, outline = drawn
        return torch.cat([torch.ones_like(colours).flatten(1), outline.flatten(1)], 1)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        colours, spans, outline = drawn
        change, grey = torch.split(latent, [colours[0].numel(), outline[0].numel()], dim=1)
        colours = colours + change.view_as(colours)
        return overlay_shapes(x, colours, grey.view_as(outline), spans, outline, self.transparency.value(x)).clamp(0, 1)


@dataclass(frozen=True)
class UaKaleidoscope(Faded, KaleidoscopeMap):
    """Kaleidoscope of ImageNet-UA: circles, triangles and squares of random places and colours lie over the image. Each
    number of their colours, and the brightness of each pixel of their outlines, changes by at most epsilon (pixels in
    [0, 1])."""

    varied: ClassVar[bool] = True
    whole: ClassVar[BySize[float]] = BySize(0.05, 0.05)
