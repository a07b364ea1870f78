"""Glitches of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.historical.imagenet_ua.sampling import sampled
from robustatlas.threats.historical.imagenet_ua.starts import one_sided
from robustatlas.threats.imagenet_ua.glitch import UaGlitch, bars


@dataclass(frozen=True)
class HistoricalUaGlitch(UaGlitch):
    """Reads half a pixel off, so that the image is blurred even by no shift; starts on one side."""

    def check(self, x: Tensor) -> None:
        """Raise where the bars are not equally high, or the images not square."""
        super().check(x)
        if x.shape[2] % self.count.at(x) or x.shape[2] != x.shape[3]:
            raise UnsupportedInputError(
                f"{self.title} in its historical form needs square images whose side is a multiple of "
                f"{self.count.at(x)}; got shape {tuple(x.shape)}: use the default form, which takes any size."
            )

    def begin(self, x: Tensor, epsilon: Tensor, noise: Noise) -> Tensor:
        return one_sided(self.shape(x), epsilon, noise)

    def distort(self, x: Tensor, latent: Tensor, *drawn: Tensor) -> Tensor:
        rows = latent.index_select(2, bars(x, self.count.at(x)))
        shift = rows.flatten(0, 1)[..., None].expand(-1, -1, x.shape[3])
        moved = sampled(x.flatten(0, 1)[:, None], torch.stack([shift, torch.zeros_like(shift)], 1), "reflection")
        return moved.view_as(x)
