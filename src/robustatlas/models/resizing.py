"""Images brought to the form that a network takes, as its publisher does it; differentiable."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.errors import UserError

INTERPOLATIONS = ("bicubic", "bilinear", "nearest")
"""Ways to resize; the first two antialiased."""


@dataclass(frozen=True)
class Resizing:
    """Resize images ``[B, C, H, W]``, then cut out their middle. Images that have the final size already are neither
    resized nor cut.

    Args:
        resize: length of the shorter side, or (height, width) whatever the proportions (None: as they are).
        crop: (height, width) of the middle that is kept (None: all of it).
        interpolation: ``"bicubic"``, ``"bilinear"`` (both antialiased, as Pillow's), or ``"nearest"``.
        middle: whose middle is cut out where a margin is odd: ``"torchvision"`` rounds half a pixel to the even one and
            takes no smaller images, ``"transformers"`` rounds down and puts smaller images on black.
        channels: the order of the channels that the network takes, such as (2, 1, 0) for blue, green, red.
    """

    resize: int | tuple[int, int] | None
    crop: tuple[int, int] | None = None
    interpolation: str = "bicubic"
    middle: Literal["torchvision", "transformers"] = "torchvision"
    channels: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.interpolation not in INTERPOLATIONS:
            raise UserError(
                f"Images cannot be resized by {self.interpolation!r} here; expected {', '.join(INTERPOLATIONS)}."
            )

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [B, C, H, W] in [0, 1]; so is the result."""
        if x.dim() != 4:
            raise UserError(f"The model resizes images [B, C, H, W]; the inputs have shape {tuple(x.shape)}.")
        if tuple(x.shape[2:]) != (self.resize if self.crop is None else self.crop):
            x = self.resized_and_cut(x)
        return x if self.channels is None else x[:, list(self.channels)]

    def resized_and_cut(self, x: Tensor) -> Tensor:
        """Return ``x`` [B, C, H, W] resized and cut, whatever its size; the order of its channels stays."""
        target = self._target(x.shape[2], x.shape[3])
        if target != tuple(x.shape[2:]):
            if self.interpolation == "nearest":
                rows, columns = (_nearest(*lengths).to(x.device) for lengths in zip(x.shape[2:], target, strict=True))
                x = x[:, :, rows[:, None], columns]
            else:
                x = F.interpolate(x, target, mode=self.interpolation, antialias=True, align_corners=False).clamp(0, 1)
        return x if self.crop is None else self._cut(x, self.crop)

    def _cut(self, x: Tensor, crop: tuple[int, int]) -> Tensor:
        (height, width), (rows, columns) = crop, x.shape[2:]
        if self.middle == "torchvision":
            if height > rows or width > columns:
                raise UserError(
                    f"Images resized to {(rows, columns)} are smaller than the {crop} that the model cuts out."
                )
            top, left = round((rows - height) / 2), round((columns - width) / 2)
        else:
            top, left = (rows - height) // 2, (columns - width) // 2
            black = max(-top, 0), max(-left, 0)
            x = F.pad(x, (black[1], max(width - columns, 0) - black[1], black[0], max(height - rows, 0) - black[0]))
            top, left = max(top, 0), max(left, 0)
        return x[:, :, top : top + height, left : left + width]

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if self.resize is None:
            return height, width
        if not isinstance(self.resize, int):
            return self.resize
        short = min(height, width)
        return (self.resize * height // short, self.resize * width // short)


def _nearest(length: int, resized: int) -> Tensor:
    """Return the positions [resized] that Pillow takes of `length` pixels. It adds up steps of float64, whose rounding
    decides where the middle of a pixel falls between two; torch decides otherwise."""
    step = length / resized
    return torch.from_numpy(np.add.accumulate(np.array([step / 2] + [step] * (resized - 1))).astype(np.int64))
