"""JPEG of ImageNet-UA as published."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from robustatlas.common.noise import Noise
from robustatlas.threats.base import UnsupportedInputError
from robustatlas.threats.historical.imagenet_ua.starts import one_sided
from robustatlas.threats.imagenet_ua.jpeg import UaJpeg


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
        return one_sided(self.shape(x), epsilon, noise)
