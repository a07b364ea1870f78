"""Images brought to the size that a network takes, as its publisher does it; differentiable."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.errors import UserError

_MODES = {"bicubic": "bicubic", "bilinear": "bilinear", "nearest": "nearest-exact"}


@dataclass(frozen=True)
class Resizing:
    """Resize images ``[B, C, H, W]``, then cut out their middle. Images that have the final size already stay as they
    are.

    Args:
        resize: length of the shorter side, or (height, width) whatever the proportions.
        crop: (height, width) of the middle that is kept (None: all of it).
        interpolation: ``"bicubic"``, ``"bilinear"`` (both antialiased, as Pillow's), or ``"nearest"``.
    """

    resize: int | tuple[int, int]
    crop: tuple[int, int] | None = None
    interpolation: str = "bicubic"

    def __post_init__(self) -> None:
        if self.interpolation not in _MODES:
            raise UserError(f"Images cannot be resized by {self.interpolation!r} here; expected {', '.join(_MODES)}.")

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [B, C, H, W] in [0, 1]; so is the result."""
        if x.dim() != 4:
            raise UserError(f"The model resizes images [B, C, H, W]; the inputs have shape {tuple(x.shape)}.")
        if tuple(x.shape[2:]) == (self.resize if self.crop is None else self.crop):
            return x
        target = self._target(x.shape[2], x.shape[3])
        mode = _MODES[self.interpolation]
        smooth = mode.startswith("bi")
        x = F.interpolate(x, target, mode=mode, antialias=smooth, align_corners=False if smooth else None)
        x = x.clamp(0, 1)
        if self.crop is None:
            return x
        height, width = self.crop
        if height > x.shape[2] or width > x.shape[3]:
            raise UserError(f"Images resized to {target} are smaller than the {self.crop} that the model cuts out.")
        top, left = round((x.shape[2] - height) / 2), round((x.shape[3] - width) / 2)
        return x[:, :, top : top + height, left : left + width]

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if not isinstance(self.resize, int):
            return self.resize
        short = min(height, width)
        return (self.resize * height // short, self.resize * width // short)
