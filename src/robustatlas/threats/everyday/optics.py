"""Everyday changes by lens, sensor and file: blur, motion blur, noise, resolution, JPEG quality, occlusion."""

import io
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from robustatlas.common.bundle import per_sample
from robustatlas.common.errors import UserError
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.everyday.change import Bordered, Change, FreeKind, border_level, pattern_noise
from robustatlas.threats.everyday.geometry import translate

_TRUNCATED = 4.0
"""Standard deviations at which the Gaussian of a blur is truncated, as in SciPy."""
_TINY = 1e-6


@dataclass(frozen=True)
class Unfocused(Bordered):
    """Out of focus: blurred by a Gaussian whose standard deviation is at most epsilon pixels."""

    def max_size(self, x: Tensor) -> float:
        return max(x.shape[2:]) / _TRUNCATED

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        rows, columns = (_gaussian(theta[:, 0], side, self.border == "reflect") for side in x.shape[2:])
        seen = rows @ x @ columns.mT
        beyond = 1 - rows.sum(3, keepdim=True) * columns.sum(3, keepdim=True).mT
        return (seen + border_level(self.border) * beyond).clamp(0, 1)


def _gaussian(sigma: Tensor, side: int, mirrors: bool) -> Tensor:
    """Return ``[B, 1, side, side]``: Gaussian filters along one axis, with mirrored or empty ends."""
    reach = side - 1
    source = torch.arange(-reach, side + reach, device=sigma.device)
    distance = (source - torch.arange(side, device=sigma.device)[:, None]).to(sigma.dtype)
    sigma = sigma[:, None, None]
    within = distance.abs() <= (_TRUNCATED * sigma.detach() + 0.5).floor()
    weights = torch.exp(-0.5 * (distance / sigma.clamp_min(_TINY)) ** 2) * within
    weights = weights / weights.sum(2, keepdim=True)
    middle, before, after = weights[..., reach : reach + side], weights[..., :reach], weights[..., reach + side :]
    if mirrors:
        nothing = torch.zeros_like(weights[..., :1])
        middle = middle + torch.cat([nothing, before.flip(2)], 2) + torch.cat([after.flip(2), nothing], 2)
    return middle[:, None]


@dataclass(frozen=True)
class Shaken(Bordered):
    """Displaced while exposed: the mean along a straight line of at most epsilon pixels in any direction."""

    free: ClassVar[tuple[tuple[FreeKind, int], ...]] = (("angle", 4),)

    def max_size(self, x: Tensor) -> float:
        return 2.0 * _max_reach(x) + 1

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        length, angle = theta[:, 0], torch.pi * theta[:, 1]
        steps = torch.arange(_max_reach(x) + 1, dtype=x.dtype, device=x.device)
        weights = (length[:, None] / 2 + 0.5 - steps).clamp(0, 1)
        weights = torch.cat([torch.ones_like(weights[:, :1]), weights[:, 1:]], 1)
        weights = weights / (1 + 2 * weights[:, 1:].sum(1, keepdim=True))
        along = torch.stack([angle.cos(), -angle.sin()], 1)
        blurred = x * per_sample(weights[:, 0], x)
        for step in range(1, _max_reach(x) + 1):
            both = translate(x, step * along, self.border) + translate(x, -step * along, self.border)
            blurred = blurred + per_sample(weights[:, step], x) * both
        return blurred.clamp(0, 1)


def _max_reach(x: Tensor) -> int:
    """Return the largest reach of a motion blur in pixels, either way."""
    return max(4, max(x.shape[2:]) // 8)


@dataclass(frozen=True)
class Grainy(Change):
    """Normal noise on every number, with a standard deviation of at most epsilon grey levels of 255."""

    free: ClassVar[tuple[tuple[FreeKind, int], ...]] = (("draw", 3),)
    largest_size: ClassVar[float] = 255.0

    def check(self, x: Tensor) -> None:
        """Any shape is fine."""

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        grains = pattern_noise(theta).normal(*x.shape[1:], dtype=x.dtype)
        return (x + per_sample(theta[:, 0] / 255, x) * grains).clamp(0, 1)


@dataclass(frozen=True)
class Coarse(Change):
    """Made smaller, to at least 100 - epsilon per cent of the side, and enlarged again, each as Pillow does it
    (bilinear)."""

    largest_size: ClassVar[float] = 99.0

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        kept = (1 - theta[:, 0] / 100).clamp(0, 1)
        rows, columns = (_coarsening((kept * side).round().clamp_min(1), side)[:, None] for side in x.shape[2:])
        small = (rows @ x @ columns.mT).clamp(0, 1)
        return torch.where(per_sample(theta[:, 0] > 0, x), small, x) + 0 * per_sample(theta[:, 0], x)


def _coarsening(small: Tensor, side: int) -> Tensor:
    """Return ``[B, side, side]``: from ``side`` pixels to ``small`` [B] and back."""
    down, up = _resizing(small.new_full((), side), small, side), _resizing(small, small.new_full((), side), side)
    return up @ down


def _resizing(before: Tensor, after: Tensor, side: int) -> Tensor:
    """Return ``[B, side, side]``: bilinear resizing of so many pixels to so many, of ``side`` at most; a triangle as
    wide as the larger of both pixels.
    """
    before, after = before + torch.zeros_like(after), after + torch.zeros_like(before)
    place = torch.arange(side, dtype=before.dtype, device=before.device)
    ratio = (before / after)[:, None, None]
    width, centre = ratio.clamp_min(1), (place[:, None] + 0.5) * ratio
    weights = (1 - ((place + 0.5 - centre) / width).abs()).clamp_min(0) * (place < before[:, None, None])
    return weights / weights.sum(2, keepdim=True).clamp_min(_TINY)


@dataclass(frozen=True)
class Recompressed(Change):
    """Saved as JPEG, at a quality of 100 - epsilon or better, by Pillow (chrominance at half the resolution).

    The quality has no slope; the slope for the image is that of the image itself.
    """

    largest_size: ClassVar[float] = 99.0
    levels: ClassVar[tuple[float, ...]] = tuple(map(float, range(1, 100)))

    @property
    def has_whole_sizes(self) -> bool:
        return True

    def check(self, x: Tensor) -> None:
        if x.dim() != 4 or x.shape[1] not in (1, 3):
            raise UnsupportedInputError(
                f"jpeg-quality needs grey or RGB images [B, C, H, W]; got shape {tuple(x.shape)}: leave this attack "
                "out for this data."
            )

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        lost = theta[:, 0].detach().round().clamp(0, 99)
        levels = (x.detach() * 255).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        qualities = [100 - int(loss) for loss in lost.tolist()]
        saved = [_compress(image, quality) for image, quality in zip(levels, qualities, strict=True)]
        read = torch.from_numpy(np.stack(saved)).to(x).permute(0, 3, 1, 2) / 255
        changed = torch.where(per_sample(lost > 0, x), read - x.detach(), 0)
        return (x + changed).clamp(0, 1) + 0 * per_sample(theta[:, 0], x)


def _compress(image: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Return an image ``[H, W, C]`` after a file of that quality."""
    file = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file)).reshape(image.shape)


@dataclass(frozen=True)
class Occluded(Change):
    """A rectangle of the image's shape, of at most epsilon per cent of its area, laid over any place of it.

    Args:
        grey: of the rectangle, from 0 (black) to 1.
    """

    free: ClassVar[tuple[tuple[FreeKind, int], ...]] = (("place", 3), ("place", 3))
    largest_size: ClassVar[float] = 100.0

    grey: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.grey <= 1:
            raise UserError(f"grey={self.grey!r} of an occlusion; expected a number from 0 (black) to 1 (white).")

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        share = (theta[:, 0] / 100).clamp(0, 1)
        length = torch.where(share > 0, share.clamp_min(_TINY).sqrt(), 0)
        height, width = x.shape[2:]
        across, down = _bar_cover(length * width, theta[:, 1], width), _bar_cover(length * height, theta[:, 2], height)
        cover = (down[:, :, None] * across[:, None])[:, None]
        return x + cover * (self.grey - x)


def _bar_cover(length: Tensor, place: Tensor, side: int) -> Tensor:
    """Return ``[B, side]``: how much of each pixel along an axis lies under a bar of that ``length`` [B]."""
    pixel = torch.arange(side, dtype=length.dtype, device=length.device)
    begin = (place * (side - length))[:, None]
    return (torch.minimum(begin + length[:, None], pixel + 1) - torch.maximum(begin, pixel)).clamp(0, 1)
