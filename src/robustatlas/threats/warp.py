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
from robustatlas.threats.sampling import Padding, pixel_grid, resample

_FAR = 1e4
"""Bound on places in pixels, so that points near the horizon of a homography stay finite."""


def _adjugate(m: Tensor) -> Tensor:
    """Return the inverse of ``m`` [B, 3, 3] times its determinant.

    As a homography it is the same map as the inverse, and it exists for singular ``m`` too.
    """
    rows = [torch.linalg.cross(m[:, :, (i + 1) % 3], m[:, :, (i + 2) % 3], dim=1) for i in range(3)]
    return torch.stack(rows, 1)


def _source_places(matrix: Tensor, height: int, width: int) -> Tensor:
    """Return ``[B, H, W, 2]``: the place in the input (column, row) that each pixel shows under ``matrix`` [B, 3,
    3].
    """
    inverse = _adjugate(matrix)
    where = pixel_grid(height, width, matrix)
    homogeneous = torch.cat([where, torch.ones_like(where[..., :1])], -1).view(1, -1, 3) @ inverse.transpose(1, 2)
    scale = homogeneous[..., 2:]
    safe = torch.where(scale.abs() > 1e-8, scale, torch.ones_like(scale))
    return (homogeneous[..., :2] / safe).clamp(-_FAR, _FAR).view(-1, height, width, 2)


class Warp(BoxThreat):
    """Warp by a matrix that depends on theta."""

    @abstractmethod
    def matrix(self, x: Tensor, theta: Tensor) -> Tensor:
        """Return ``[B, 3, 3]``: the map from pixels of ``x`` to pixels of the result."""

    def check(self, x: Tensor) -> None:
        require_images(x, type(self).__name__.lower())

    def grid(self, x: Tensor, theta: Tensor) -> Tensor:
        """Return ``[B, H, W, 2]``: where each pixel is read; -1 and 1 are the middles of the outermost pixels."""
        return to_unit_grid(x, _source_places(self.matrix(x, theta), *x.shape[2:]))

    def apply(self, x: Tensor, theta: Tensor) -> Tensor:
        return warp(x, self.matrix(x, theta))


def warp(x: Tensor, matrix: Tensor, padding: Padding = "zeros", level: float = 0.0) -> Tensor:
    """Warp ``x`` by ``matrix`` [B, 3, 3], which maps its pixels to pixels of the result.

    The identity returns ``x`` bit for bit. ``padding`` fills the outside; for "zeros" it has the pixel value ``level``.
    """
    grid, identity = (
        to_unit_grid(x, _source_places(matrix, *x.shape[2:])),
        to_unit_grid(x, pixel_grid(x.shape[2], x.shape[3], matrix)),
    )
    return resample(x, grid, identity, True, padding, level)


def centre_matrix(x: Tensor, matrix: Tensor) -> Tensor:
    """Return the map of ``matrix`` [B, 3, 3] about the middle of the image, for coordinates from the corner."""
    there = torch.eye(3, dtype=matrix.dtype, device=matrix.device)
    there[:2, 2] = constant_tensor(((x.shape[3] - 1) / 2, (x.shape[2] - 1) / 2), matrix)
    back = 2 * torch.eye(3, dtype=matrix.dtype, device=matrix.device) - there
    return there @ matrix @ back


def rotation_matrix(x: Tensor, degrees: Tensor) -> Tensor:
    """Return ``[B, 3, 3]``: the rotation about the image's centre by ``degrees`` [B], counter-clockwise."""
    angle = torch.deg2rad(degrees)
    cos, sin = angle.cos(), angle.sin()
    row, column = (x.shape[2] - 1) / 2, (x.shape[3] - 1) / 2
    return stack_matrix(
        (cos, sin, (1 - cos) * column - sin * row), (-sin, cos, (1 - cos) * row + sin * column), (0, 0, 1)
    )


def stack_matrix(*rows: tuple[Tensor | float, ...]) -> Tensor:
    """Return ``[B, n, m]``: matrices from their entries, [B] or one number for all."""
    like = next(entry for row in rows for entry in row if isinstance(entry, Tensor))
    filled = [[entry if isinstance(entry, Tensor) else torch.full_like(like, entry) for entry in row] for row in rows]
    return torch.stack([torch.stack(row, 1) for row in filled], 1)


def to_unit_grid(x: Tensor, places: Tensor) -> Tensor:
    """Return columns and rows ``places`` [..., 2] in units where -1 and 1 are the middles of the outermost pixels."""
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
        return rotation_matrix(x, theta[:, 0])
