"""Feature squeezing (Xu et al. 2018): fewer bits a pixel, and medians of neighbouring pixels."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.models.classifier.backward import Backward
from robustatlas.models.defenses.transformation import Transformation

_STEEPNESS = 0.9


class BitDepthReduction(Transformation):
    """Round each pixel to ``bits`` bits: rint(x (2^b - 1)) / (2^b - 1).

    Its smooth stand-in is x (2^b - 1) - a sin(2 pi x (2^b - 1)) / 2 pi with a = 0.9: steepest where the rounding jumps,
    and nowhere flat.

    Example:
        >>> BitDepthReduction(1)(torch.tensor([0.2, 0.7]))
        tensor([0., 1.])
    """

    levels: Tensor

    def __init__(self, bits: int, backward: Backward = "identity") -> None:
        super().__init__(backward)
        if not 1 <= bits <= 16:
            raise UserError(f"The bit depth must lie in 1..16, got {bits}.")
        self.register_buffer("levels", torch.tensor(2.0**bits - 1), persistent=False)

    def extra_repr(self) -> str:
        return f"{int(self.levels + 1).bit_length() - 1} bits"

    def exact(self, x: Tensor) -> Tensor:
        """``x`` in [0, 1], of any shape, with ``2**bits`` values."""
        return (x * self.levels).round() / self.levels

    def smooth(self, x: Tensor) -> Tensor:
        """Steps without a jump."""
        scaled = x * self.levels
        return (scaled - _STEEPNESS * (2 * math.pi * scaled).sin() / (2 * math.pi)) / self.levels


class MedianSmoothing(Transformation):
    """Each pixel becomes the median of the ``size`` x ``size`` ones around it, channel by channel.

    As ``scipy.ndimage.median_filter``, which the authors use: images go on mirrored with their edge repeated, even
    windows reach one pixel further up and left, and of an even number of values the upper median counts. Its own
    gradient goes to the pixel that was chosen; its smooth stand-in is the mean of the window.
    """

    window: Tensor

    def __init__(self, size: int = 3, backward: Backward = "identity") -> None:
        super().__init__(backward)
        if size < 1:
            raise UserError(f"The window must have a positive side, got {size}.")
        self.size = size
        self.register_buffer("window", torch.tensor(size), persistent=False)

    def extra_repr(self) -> str:
        return f"{self.size} x {self.size}"

    def exact(self, x: Tensor) -> Tensor:
        """``x`` is ``[B, C, H, W]``."""
        windows = self._padded(x).unfold(2, self.size, 1).unfold(3, self.size, 1).flatten(4)
        return windows.kthvalue(self.size**2 // 2 + 1, dim=-1).values

    def smooth(self, x: Tensor) -> Tensor:
        """The mean of each window."""
        return F.avg_pool2d(self._padded(x), self.size, stride=1)

    def _padded(self, x: Tensor) -> Tensor:
        if x.dim() != 4 or min(x.shape[2:]) < self.size:
            raise UserError(
                f"A median over {self.size} x {self.size} pixels needs images [B, C, H, W] of that size at least, got "
                f"shape {tuple(x.shape)}."
            )
        before, after = self.size // 2, (self.size - 1) // 2
        for dim in (2, 3):
            length = x.shape[dim]
            places = torch.arange(-before, length + after, device=x.device)
            places = torch.where(places < 0, -1 - places, places)
            x = x.index_select(dim, torch.where(places >= length, 2 * length - 1 - places, places))
        return x
