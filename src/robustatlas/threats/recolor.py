"""Recolouring: one smooth function of colour for the whole image (Laidlaw and Feizi 2019).

Colours are CIE LUV, normalised to about [0, 1]. The function is given on a lattice of 16 x 32 x 32 colours.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from robustatlas.threats.box import BoxThreat, require_colour
from robustatlas.threats.flow import neighbour_variation

LATTICE = (16, 32, 32)
_WHITE_U, _WHITE_V = 0.1978, 0.4683
_TINY = 1e-10


def _channels(*channels: Tensor) -> Tensor:
    return torch.stack(channels, 1)


def rgb_to_luv(rgb: Tensor) -> Tensor:
    """Return sRGB ``[B, 3, ...]`` in [0, 1] to CIE LUV, normalised: (L / 100, (u + 100) / 200, (v + 100) / 200)."""
    linear = torch.where(rgb < 0.04045, rgb / 12.92, ((rgb.clamp_min(0.04045) + 0.055) / 1.055) ** 2.4)
    r, g, b = linear.unbind(1)
    x = 0.4124 * r + 0.3576 * g + 0.1805 * b
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = 0.0193 * r + 0.1192 * g + 0.9504 * b
    total = x + 15 * y + 3 * z + _TINY
    light = torch.where(y < (6 / 29) ** 3, (29 / 3) ** 3 * y, 116 * y.clamp_min(_TINY) ** (1 / 3) - 16)
    u = 13 * light * (4 * x / total - _WHITE_U)
    v = 13 * light * (9 * y / total - _WHITE_V)
    return _channels(light / 100, (u + 100) / 200, (v + 100) / 200)


def luv_to_rgb(luv: Tensor) -> Tensor:
    """Return the inverse of :func:`rgb_to_luv`; colours that sRGB cannot show are clipped."""
    light, u, v = luv.unbind(1)
    light, u, v = 100 * light, 200 * u - 100, 200 * v - 100
    u = u / (13 * light + _TINY) + _WHITE_U
    v = v / (13 * light + _TINY) + _WHITE_V
    y = torch.where(light <= 8, light * (3 / 29) ** 3, ((light.clamp_min(0) + 16) / 116) ** 3)
    x = 9 * y * u / (4 * v + _TINY)
    z = y * (12 - 3 * u - 20 * v) / (4 * v + _TINY)
    x, y, z = (c.clamp(0, 1.1) for c in (x, y, z))
    linear = _channels(
        3.2406 * x - 1.5372 * y - 0.4986 * z,
        -0.9689 * x + 1.8758 * y + 0.0415 * z,
        0.0557 * x - 0.2040 * y + 1.0570 * z,
    )
    bright = 1.055 * linear.clamp_min(0.0031308) ** (1 / 2.4) - 0.055
    return torch.where(linear < 0.0031308, 12.92 * linear, bright).clamp(0, 1)


def interpolate(lattice: Tensor, colours: Tensor) -> Tensor:
    """Return ``lattice`` [B, 16, 32, 32, 3] read at ``colours`` [B, 3, H, W], trilinear; beyond the lattice its end
    counts.
    """
    grid = (2 * colours - 1).permute(0, 2, 3, 1).flip(-1)[:, None]
    read = F.grid_sample(lattice.movedim(-1, 1), grid, mode="bilinear", padding_mode="border", align_corners=True)
    return read[:, :, 0]


def lattice_identity(like: Tensor) -> Tensor:
    """Return ``[16, 32, 32, 3]``: the colours of the lattice's points."""
    axes = [torch.linspace(0, 1, n, dtype=like.dtype, device=like.device) for n in LATTICE]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)


@dataclass(frozen=True)
class Recolor(BoxThreat):
    """Each colour c of the image becomes c + f(c), with f the interpolation of theta; every component of theta is at
    most epsilon.

    theta is ``[B, 16, 32, 32, 3]`` in normalised LUV units (epsilon = .06 in the paper). Needs colour images.

    Example:
        >>> x = torch.rand(2, 3, 8, 8)
        >>> recolor = Recolor()
        >>> bool((recolor.apply(x, recolor.neutral(x)) == x).all())
        True
    """

    largest_size: ClassVar[float] = 1.0

    def check(self, x: Tensor) -> None:
        require_colour(x, "recolor")

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (*LATTICE, 3)

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        colours = rgb_to_luv(x)
        shifted = colours + interpolate(theta, colours)
        light = shifted[:, :1].clamp_min(0)
        rounding = x - luv_to_rgb(colours)
        return (luv_to_rgb(torch.cat([light, shifted[:, 1:]], 1)) + rounding).clamp(0, 1)

    def smoothness(self, theta: Tensor) -> Tensor:
        """Return ``[B]``: the roughness of f, the sum of distances of neighbouring points' shifts (the paper's eq.
        6).
        """
        return neighbour_variation(theta)
