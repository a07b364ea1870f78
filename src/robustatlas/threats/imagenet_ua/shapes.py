"""Circles, triangles and squares as the kaleidoscope's public code draws them, in tensor code.

A shape is stored as spans, which take little memory: in each column the rows from ``low`` to before ``high``. It has
two parts, as a square is drawn as two triangles.
"""

import math

import torch
from torch import Tensor

from robustatlas.common.noise import Noise

CIRCLE, TRIANGLE, SQUARE = range(3)


def triangle_side(size: int) -> int:
    """Return the length of a triangle's side."""
    return int(size * 1.5 / math.sin(math.pi / 3))


def least_side(size: int) -> int:
    """Return the smallest image that shapes of this size have room in."""
    return 2 * triangle_side(size) + 3


def random_shapes(noise: Noise, count: int, size: int, height: int, width: int) -> tuple[Tensor, ...]:
    """Return kind, row, column and turn (0 to 1) of random shapes, each ``[B, count]`` float64."""
    kind = noise.child(0).integers(3, count)
    margin = torch.where(kind == CIRCLE, 0, torch.where(kind == TRIANGLE, triangle_side(size), size) + 1)
    rows, columns = (
        margin + noise.child(k).integers(side - 2 * margin, count) for k, side in ((1, height), (2, width))
    )
    return kind, rows.double(), columns.double(), noise.child(3).uniform(count, dtype=torch.float64)


def spans(drawn: tuple[Tensor, ...], size: int, height: int, width: int) -> Tensor:
    """Return the spans ``[B, K, 2, 2, width]`` (part, low and high) of shapes ``drawn`` (kind, row, column, turn)."""
    kind, row, column, turn = drawn
    centre = torch.stack([row, column], -1)
    empty = torch.zeros(*kind.shape, 2, width, dtype=torch.float64, device=kind.device)
    circle = torch.stack([_circle(centre, size, height, width), empty], 2)
    angle = 2 * math.pi * turn
    third, half = (_unit_vector(angle + more) for more in (math.pi / 3, math.pi / 2))
    side = triangle_side(size)
    corners = [centre, (centre + side * _unit_vector(angle)).trunc(), (centre + side * third).trunc()]
    triangle = torch.stack([_triangle(corners, height, width), empty], 2)
    one, other = size * _unit_vector(angle), size * half
    second, third_corner, fourth = (centre + one).trunc(), (centre + other).trunc(), (centre + one + other).trunc()
    halves = ([centre, second, fourth], [centre, third_corner, fourth])
    square = torch.stack([_triangle(corners, height, width) for corners in halves], 2)
    chosen = kind[..., None, None, None]
    return torch.where(chosen == CIRCLE, circle, torch.where(chosen == TRIANGLE, triangle, square))


def _unit_vector(angle: Tensor) -> Tensor:
    return torch.stack([angle.cos(), angle.sin()], -1)


def _circle(centre: Tensor, size: int, height: int, width: int) -> Tensor:
    """Return ``[B, K, 2, width]``: pixels nearer than half the size."""
    row, column = (part[..., None] for part in centre.unbind(-1))
    columns = torch.arange(width, dtype=torch.float64, device=centre.device)
    room = (size / 2) ** 2 - (columns - column).square()
    reach = room.clamp_min(0).sqrt()
    low, high = ((row - reach).floor() + 1).clamp_min(0), (row + reach).ceil().clamp(0, height)
    return torch.where((room > 0)[..., None, :], torch.stack([low, high], 2), 0)


def _triangle(corners: list[Tensor], height: int, width: int) -> Tensor:
    """Return ``[B, K, 2, width]``: the triangle of three corners [B, K, 2] (row, column), as two with a side along a
    row.
    """
    points = torch.stack(corners, 2)
    order = points[..., 1].argsort(dim=2, stable=True)
    first, second, third = points.take_along_dim(order[..., None], 2).unbind(2)
    share = (second[..., 1] - first[..., 1]) / (third[..., 1] - first[..., 1])
    opposite = torch.stack([(first[..., 0] + share * (third[..., 0] - first[..., 0])).trunc(), second[..., 1]], -1)
    right, left = second[..., 1] == third[..., 1], first[..., 1] == second[..., 1]
    before = _right_triangle(second, first, torch.where(right[..., None], third, opposite), height, width)
    after = _right_triangle(second, third, torch.where(left[..., None], first, opposite), height, width)
    before = torch.where((left & ~right)[..., None, None], 0, before)
    after = torch.where(right[..., None, None], 0, after)
    return torch.where(after[..., 1:, :] > 0, after, before)


def _right_triangle(base: Tensor, tip: Tensor, other: Tensor, height: int, width: int) -> Tensor:
    """Return ``[B, K, 2, width]``: a triangle whose side from ``base`` to ``other`` lies in one column.

    From that column towards the tip's, which is left out, both ends move by equal steps. As in the public code they do
    not move in columns outside of the image, and the first column of the image counts as outside.
    """
    near, far = torch.minimum(base[..., 0], other[..., 0]), torch.maximum(base[..., 0], other[..., 0])
    start, end = base[..., 1:], tip[..., 1:]
    length = (end - start).abs()
    columns = torch.arange(width, dtype=torch.float64, device=base.device)
    forth = (end > start) & (columns >= start) & (columns < end)
    back = (end < start) & (columns <= start) & (columns > end)
    inside = (forth | back) & (columns > 0)
    number = (columns - start.clamp(1, width - 1)).abs().clamp_max(width - 1).long()
    low, high = (
        _walk(side, (tip[..., 0] - side) / length[..., 0], width).gather(-1, number).trunc() for side in (near, far)
    )
    ends = torch.stack([low.clamp_min(0), high.clamp(0, height)], -2)
    return torch.where(inside[..., None, :], ends, 0)


def _walk(start: Tensor, step: Tensor, count: int) -> Tensor:
    """Return ``[B, K, count]``: ``start`` and so many steps from it, added one by one."""
    steps = torch.where(step.isfinite(), step, 0)[..., None].expand(*step.shape, count - 1)
    return torch.cat([start[..., None], steps], -1).cumsum(-1)


def masks(spans: Tensor, height: int) -> Tensor:
    """Return ``[B, K, height, width]`` bool: the pixels of every shape."""
    rows = torch.arange(height, dtype=spans.dtype, device=spans.device)[:, None]
    low, high = spans[..., None, :].unbind(3)
    return ((rows >= low) & (rows < high)).any(2)


def outlines(spans: Tensor, height: int, thickness: int) -> Tensor:
    """Return ``[B, height, width]`` bool: the outline of every shape, also where other shapes lie."""
    found = None
    for shape in masks_one_by_one(spans, height):
        around = torch.nn.functional.max_pool2d(shape.float()[:, None], thickness, 1, thickness // 2)[:, 0] > 0
        around &= ~shape
        found = around if found is None else found | around
    assert found is not None
    return found


def masks_one_by_one(spans: Tensor, height: int) -> list[Tensor]:
    """Return the masks of each shape ``[B, height, width]``, one after the other, to save memory."""
    return [masks(spans[:, k : k + 1], height)[:, 0] for k in range(spans.shape[1])]
