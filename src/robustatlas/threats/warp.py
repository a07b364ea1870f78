"""Global warps: affine, perspective, rotation.

A matrix maps pixels of the input (column, row, 1; the origin is the centre of the top left pixel) to pixels of the
result, which is read by bilinear sampling along the inverse map; black outside.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.host import constant_tensor
from robustatlas.threats.box import BoxThreat, OneNumber, require_images
from robustatlas.threats.sampling import Padding, pixels, resample

_FAR = 1e4


def _adjugate(m: Tensor) -> Tensor:
    """The inverse of ``m`` [B, 3, 3] times its determinant: the same map of the plane, also where ``m`` is singular."""
    rows = [torch.linalg.cross(m[:, :, (i + 1) % 3], m[:, :, (i + 2) % 3], dim=1) for i in range(3)]
    return torch.stack(rows, 1)


def _sources(matrix: Tensor, height: int, width: int) -> Tensor:
    """``[B, H, W, 2]``: the place in the input (column, row) that each pixel shows under ``matrix`` [B, 3, 3]."""
    inverse = _adjugate(matrix)
    where = pixels(height, width, matrix)
    homogeneous = torch.cat([where, torch.ones_like(where[..., :1])], -1).view(1, -1, 3) @ inverse.transpose(1, 2)
    scale = homogeneous[..., 2:]
    safe = torch.where(scale.abs() > 1e-8, scale, torch.ones_like(scale))
    return (homogeneous[..., :2] / safe).clamp(-_FAR, _FAR).view(-1, height, width, 2)


class Warp(BoxThreat):
    """A warp by a matrix made from theta."""

    @abstractmethod
    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        """``[B, 3, 3]``: the map from pixels of ``x`` to pixels of the result."""

    def check(self, x: Tensor) -> None:
        require_images(x, type(self).__name__.lower())

    def grid(self, x: Tensor, theta: Tensor) -> Tensor:
        """``[B, H, W, 2]``: where each pixel is read; -1 and 1 are the middles of the outermost pixels."""
        return units(x, _sources(self.matrix(x, theta), *x.shape[2:]))

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return warped(x, self.matrix(x, theta))


def warped(x: Tensor, matrix: Tensor, padding: Padding = "zeros", level: float = 0.0) -> Tensor:
    """``x`` moved by ``matrix`` [B, 3, 3], which maps pixels of it to pixels of the result; bit for bit ``x`` under the
    identity. ``padding``: what lies beyond the edges; ``level``: of zeros, the pixel value there."""
    grid, identity = units(x, _sources(matrix, *x.shape[2:])), units(x, pixels(x.shape[2], x.shape[3], matrix))
    return resample(x, grid, identity, True, padding, level)


def about_centre(x: Tensor, matrix: Tensor) -> Tensor:
    """``matrix`` [B, 3, 3] of a map whose origin is the middle of the image, with the corner as origin."""
    there = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
    there[:2, 2] = constant_tensor(((x.shape[3] - 1) / 2, (x.shape[2] - 1) / 2), matrix)
    back = 2 * torch.eye(3, dtype=matrix.dtype, device=matrix.device) - there
    return there @ matrix @ back


def turned(x: Tensor, degrees: Tensor) -> Tensor:
    """``[B, 3, 3]``: the rotation about the image's centre by ``degrees`` [B], counter-clockwise."""
    angle = torch.deg2rad(degrees)
    cos, sin = angle.cos(), angle.sin()
    row, column = (x.shape[2] - 1) / 2, (x.shape[3] - 1) / 2
    return matrix_of((cos, sin, (1 - cos) * column - sin * row), (-sin, cos, (1 - cos) * row + sin * column), (0, 0, 1))


def matrix_of(*rows: tuple[Tensor | float, ...]) -> Tensor:
    """``[B, n, m]``: matrices from their entries, [B] or one number for all."""
    like = next(entry for row in rows for entry in row if isinstance(entry, Tensor))
    filled = [[entry if isinstance(entry, Tensor) else torch.full_like(like, entry) for entry in row] for row in rows]
    return torch.stack([torch.stack(row, 1) for row in filled], 1)


def units(x: Tensor, places: Tensor) -> Tensor:
    """Columns and rows ``places`` [..., 2] where -1 and 1 are the middles of the outermost pixels."""
    last = constant_tensor((x.shape[3] - 1, x.shape[2] - 1), places)
    return 2 * places / last - 1


def _identity(theta: Tensor) -> Tensor:
    return torch.eye(3, dtype=theta.dtype, device=theta.device).expand(len(theta), 3, 3)


@dataclass(frozen=True)
class Affine(Warp):
    """The six entries of an affine matrix, each at most epsilon from the identity's (MultiRobustBench, App. C).

    theta is ``[B, 2, 3]``; its last column is a shift in pixels.
    """

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (2, 3)

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        return _identity(theta) + torch.cat([theta, torch.zeros_like(theta[:, :1])], 1)


@dataclass(frozen=True)
class Perspective(Warp):
    """The eight free entries of a homography, each at most epsilon from the identity's (MultiRobustBench, App. C).

    theta is ``[B, 8]``, the matrix row by row without its last entry, which stays 1. The third row is multiplied by
    pixel coordinates.
    """

    def shape(self, x: Tensor) -> tuple[int, ...]:
        return (8,)

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        return _identity(theta) + torch.cat([theta, torch.zeros_like(theta[:, :1])], 1).view(-1, 3, 3)


@dataclass(frozen=True)
class Rotation(OneNumber, Warp):
    """Rotation about the image's centre by at most epsilon degrees, counter-clockwise; theta is ``[B, 1]``."""

    largest_size: ClassVar[float] = 180.0

    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        return turned(x, theta[:, 0])
