"""Moved, blurred and compressed pixels of ImageNet-UA as published."""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.noise import Noise
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.historical.imagenet_ua.geometry import CLIPPED_BALL, SIGN_BALL
from robustatlas.threats.historical.imagenet_ua.sampling import sample_moved
from robustatlas.threats.historical.imagenet_ua.starts import draw_positive, draw_radial
from robustatlas.threats.imagenet_ua.blur import UaBlur
from robustatlas.threats.imagenet_ua.elastic import UaElastic, enlarge_flow
from robustatlas.threats.imagenet_ua.geometry import BALL, Geometry
from robustatlas.threats.imagenet_ua.glitch import UaGlitch, bars
from robustatlas.threats.imagenet_ua.jpeg import UaJpeg
from robustatlas.threats.imagenet_ua.kaleidoscope import KaleidoscopeMap
from robustatlas.threats.imagenet_ua.klotski import UaKlotski, spread
from robustatlas.threats.imagenet_ua.pixel import UaPixel, pixelate
from robustatlas.threats.imagenet_ua.whirlpool import UaWhirlpool, swirl_flow


@dataclass(frozen=True)
class HistoricalUaBlur(UaBlur):
    """The inputs and the start of the sound one."""


@dataclass(frozen=True)
class HistoricalUaElastic(UaElastic):
    """No displacement zooms the image and darkens its border. Starts lie at the border of the ball; steps go along
    signs."""

    geometry: ClassVar[Geometry] = SIGN_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return self.geometry.project(noise.symmetric(*self.shape(x), dtype=x.dtype), epsilon)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return sample_moved(x, enlarge_flow(latent, x), last=True)


@dataclass(frozen=True)
class HistoricalUaGlitch(UaGlitch):
    """Reads half a pixel off, so that the image is blurred even by no shift; starts on one side."""

    def check(self, x: Tensor) -> None:
        """Raise where the bars are not equally high, or the images not square."""
        super().check(x)
        if x.shape[2] % self.count.value(x) or x.shape[2] != x.shape[3]:
            raise UnsupportedInputError(
                f"{self.title} in its historical form needs square images whose side is a multiple of "
                f"{self.count.value(x)}; got shape {tuple(x.shape)}: use the default form, which takes any size."
            )

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_positive(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        rows = latent.index_select(2, bars(x, self.count.value(x)))
        shift = rows.flatten(0, 1)[..., None].expand(-1, -1, x.shape[3])
        moved = sample_moved(x.flatten(0, 1)[:, None], torch.stack([shift, torch.zeros_like(shift)], 1), "reflection")
        return moved.view_as(x)


@dataclass(frozen=True)
class HistoricalUaJpeg(UaJpeg):
    """Starts on one side; the map is that of the sound set up to rounding, since nothing is quantised."""

    def check(self, x: Tensor) -> None:
        """Raise where the images are not RGB with sides that are multiples of 8."""
        if x.dim() != 4 or x.shape[1] != 3 or x.shape[2] % 8 or x.shape[3] % 8:
            raise UnsupportedInputError(
                f"{self.title} in its historical form needs RGB images [B, 3, H, W] whose height and width are "
                f"multiples of 8; got shape {tuple(x.shape)}: use the default form, which takes all sizes and grey."
            )

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_positive(self.shape(x), epsilon, noise)


@dataclass(frozen=True)
class HistoricalUaKaleidoscope(KaleidoscopeMap):
    """The shapes lie over the image at every strength; the outlines start on one side."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        colours = noise.child(0).symmetric(3 * self.count.value(x), dtype=x.dtype)
        outlines = noise.child(1).uniform(x[0, 0].numel(), dtype=x.dtype)
        begun = torch.cat([colours, outlines], 1)
        return begun * per_sample(epsilon, begun)


@dataclass(frozen=True)
class HistoricalUaKlotski(UaKlotski):
    """Reads half a pixel off, so that the image is blurred even by no shift; starts on one side."""

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_positive(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return sample_moved(x, spread(latent, x))


@dataclass(frozen=True)
class HistoricalUaPixel(UaPixel):
    """Images whose sides are not multiples of the block are enlarged, and cut again after mixing."""

    geometry: ClassVar[Geometry] = CLIPPED_BALL

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_radial(self.shape(x), epsilon, noise).clamp(0, 1)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        block = self.block.value(x)
        whole = [block * count for count in latent.shape[2:]]
        if whole == list(x.shape[2:]):
            return super().distort(x, latent)
        enlarged = F.interpolate(x, whole, mode="bilinear", align_corners=False)
        return pixelate(enlarged, latent, block)[..., : x.shape[2], : x.shape[3]].clamp(0, 1)


LEAST = 0.5
"""Radians by which every whirlpool turns at least."""


@dataclass(frozen=True)
class HistoricalUaWhirlpool(UaWhirlpool):
    """Every whirlpool turns by half a radian at least, and every pixel is read half a pixel off; rotations have both
    signs, and count by their absolute values."""

    geometry: ClassVar[Geometry] = BALL
    varied: ClassVar[bool] = False

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return draw_radial(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        return sample_moved(x, swirl_flow(x, latent.abs() + LEAST, drawn[0]))
