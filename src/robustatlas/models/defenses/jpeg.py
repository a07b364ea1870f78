"""JPEG as a defense."""

from collections.abc import Callable
from itertools import chain

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.common.errors import UserError
from robustatlas.common.host import cached_tensor, constant_tensor
from robustatlas.common.jpeg import CHROMINANCE, LUMINANCE, decode_plane, repeat_pixels, synthesis_matrix, ycbcr_to_rgb
from robustatlas.models.classifier.backward import Backward
from robustatlas.models.defenses.transformation import Transformation
from robustatlas.models.gradients import straight_through

Table = tuple[tuple[int, ...], ...]
Rounding = Callable[[Tensor], Tensor]
_ONES: Table = ((1,) * 8,) * 8


def _rounded(x: Tensor) -> Tensor:
    """To the nearest integer, halves away from zero; its gradient is zero."""
    return x.sign() * (x.abs() + 0.5).floor()


_passed = straight_through(_rounded)


def _cubic(x: Tensor) -> Tensor:
    """r + (x - r)^3 with r = round(x) (Shin and Song 2017)."""
    nearest = _rounded(x).detach()
    return nearest + (x - nearest) ** 3


class JPEGCompression(Transformation):
    """Compress and decompress images as JPEG does (Guo et al. 2018, Dziugaite et al. 2016).

    Baseline JPEG with the standard's tables, scaled and applied as libjpeg does. The colours of subsampled images are
    repeated in 2 by 2 pixels, where some decoders smooth them. In its smooth stand-in the rounding of the quantised
    coefficients is r + (x - r)^3 (Shin and Song 2017), and all other rounding, to bytes, the identity.

    Args:
        quality: 1..100.
        subsample: average the chrominance of RGB images over 2 by 2 pixels, as most encoders do (4:2:0).
        backward: see :class:`Transformation`.
    """

    luminance: Tensor
    chrominance: Tensor

    def __init__(self, quality: int = 75, subsample: bool = True, backward: Backward = "identity") -> None:
        super().__init__(backward)
        if not 1 <= quality <= 100:
            raise UserError(f"The JPEG quality must lie in 1..100, got {quality}.")
        self.tables = (_scaled(LUMINANCE, quality), _scaled(CHROMINANCE, quality))
        for name, table in zip(("luminance", "chrominance"), self.tables, strict=True):
            self.register_buffer(name, torch.tensor(table).flatten(), persistent=False)
        self.quality, self.subsample = quality, subsample

    def extra_repr(self) -> str:
        return f"quality {self.quality}{', subsampled' if self.subsample else ''}"

    def exact(self, x: Tensor) -> Tensor:
        """``x`` is ``[B, 1 or 3, H, W]`` in [0, 1]; so is the result."""
        return self._decoded(x, _rounded, _rounded)

    def smooth(self, x: Tensor) -> Tensor:
        """The same with the stand-ins of its roundings."""
        return self._decoded(x, _passed, _cubic)

    def _decoded(self, x: Tensor, to_bytes: Rounding, quantised: Rounding) -> Tensor:
        if x.dim() != 4 or x.shape[1] not in (1, 3):
            raise UserError(f"JPEG needs grey or RGB images [B, 1 or 3, H, W], got shape {tuple(x.shape)}.")
        height, width = x.shape[2:]
        step = 16 if x.shape[1] == 3 and self.subsample else 8
        bytes_ = F.pad(to_bytes(x * 255), (0, -width % step, 0, -height % step), mode="replicate")
        if x.shape[1] == 1:
            decoded = (_coded(bytes_[:, 0] - 128, self.tables[0], to_bytes, quantised) + 128)[:, None]
        else:
            red, green, blue = bytes_.unbind(1)
            luminance = to_bytes(0.299 * red + 0.587 * green + 0.114 * blue)
            cb = to_bytes(-0.168736 * red - 0.331264 * green + 0.5 * blue)
            cr = to_bytes(0.5 * red - 0.418688 * green - 0.081312 * blue)
            light = _coded(luminance - 128, self.tables[0], to_bytes, quantised) + 128
            decoded = ycbcr_to_rgb(light, *(self._chrominance(plane, to_bytes, quantised) for plane in (cb, cr)))
        return to_bytes(decoded[..., :height, :width].clamp(0, 255)) / 255

    def _chrominance(self, plane: Tensor, to_bytes: Rounding, quantised: Rounding) -> Tensor:
        if not self.subsample:
            return _coded(plane, self.tables[1], to_bytes, quantised)
        halved = to_bytes(F.avg_pool2d(plane[:, None], 2)[:, 0])
        return repeat_pixels(_coded(halved, self.tables[1], to_bytes, quantised))


def _scaled(table: Table, quality: int) -> Table:
    """A quantisation table at ``quality`` (libjpeg, jcparam.c)."""
    scale = 5000 // quality if quality < 50 else 200 - 2 * quality
    return tuple(tuple(min(max((step * scale + 50) // 100, 1), 255) for step in row) for row in table)


def _cosine_transform() -> Tensor:
    inverse: Tensor = torch.linalg.inv(synthesis_matrix(_ONES))
    return inverse


def _coded(plane: Tensor, table: Table, to_bytes: Rounding, quantised: Rounding) -> Tensor:
    """``plane`` ``[B, H, W]`` after quantising the discrete cosine transform of its 8 by 8 blocks."""
    rows, columns = plane.shape[1] // 8, plane.shape[2] // 8
    blocks = plane.view(-1, rows, 8, columns, 8).transpose(2, 3).reshape(-1, rows * columns, 64)
    # In eighths: the precision of libjpeg's integer transform.
    coefficients = to_bytes(8 * blocks @ cached_tensor(_cosine_transform, like=blocks)) / 8
    steps = constant_tensor(list(chain(*table)), blocks)
    return to_bytes(decode_plane(quantised(coefficients / steps).flatten(1), rows, columns, table))
