"""CROWN once more, with dense matrices and nothing of the package: what bounds of residual networks are compared with.

A network is a list of layers; each gives what goes into a ReLU, or the logits, and is a sum of affine functions of the
input and of what came out of the ReLUs before: a mapping from positions of ReLUs (-1: the input) to these functions.

Source: Zhang et al. 2018, theorem 3.2; the lower line has the slope 1 where the upper bound is the larger one, else 0.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

Layer = Mapping[int, Callable[[Tensor], Tensor]]
Matrices = list[tuple[dict[int, Tensor], Tensor]]


def margins(net: Matrices, x: Tensor, label: int, radius: float) -> Tensor:
    """``[C]``: lower bounds of f_y - f_j over the images of [0, 1] within ``radius`` of ``x`` [1, ...] in linf.

    Args:
        net: of :func:`matrices`.
        x: one image, float64.
        label: y.
        radius: of the ball.
    """
    low, high = (x - radius).clamp_min(0).flatten(), (x + radius).clamp_max(1).flatten()
    found: list[tuple[Tensor, Tensor]] = []
    for k in range(len(net) - 1):
        eye = torch.eye(len(net[k][1]), dtype=torch.float64)
        found.append((lowest(net, k, eye, found, low, high), -lowest(net, k, -eye, found, low, high)))
    rows = -torch.eye(len(net[-1][1]), dtype=torch.float64)
    rows[:, label] += 1
    return lowest(net, len(net) - 1, rows, found, low, high)


def matrices(layers: Sequence[Layer], shape: tuple[int, ...]) -> Matrices:
    """Return the matrices of each layer, by what they are applied to, and its constant part; ``shape``: of an image."""
    shapes, found = {-1: torch.Size(shape)}, []
    for k, layer in enumerate(layers):
        weights, bias = {}, torch.zeros((), dtype=torch.float64)
        for j, function in layer.items():
            numbers = shapes[j].numel()
            constant = function(torch.zeros(1, *shapes[j], dtype=torch.float64))
            columns = function(torch.eye(numbers, dtype=torch.float64).view(-1, *shapes[j])) - constant
            weights[j], bias, shapes[k] = columns.flatten(1).T, bias + constant.flatten(), constant.shape[1:]
        found.append((weights, bias))
    return found


def lowest(
    net: Matrices, k: int, rows: Tensor, found: Sequence[tuple[Tensor, Tensor]], low: Tensor, high: Tensor
) -> Tensor:
    """``[R]``: lower bounds of rows [R, n] of what layer ``k`` gives."""
    waiting, total = {k: rows}, torch.zeros(len(rows), dtype=torch.float64)
    for i in range(k, -1, -1):
        if i not in waiting:
            continue
        at = waiting.pop(i)
        if i < k:  # behind a ReLU
            least, most = found[i]
            open_ = (least < 0) & (most > 0)
            slope = torch.where(open_, most / (most - least).clamp_min(1e-300), (least >= 0).double())
            lower = torch.where(open_, (most > -least).double(), slope)
            total = total + (at.clamp_max(0) * torch.where(open_, -slope * least, 0.0)).sum(1)
            at = at.clamp_min(0) * lower + at.clamp_max(0) * slope
        weights, bias = net[i]
        total = total + at @ bias
        for j, weight in weights.items():
            waiting[j] = waiting[j] + at @ weight if j in waiting else at @ weight
    return total + waiting[-1].clamp_min(0) @ low + waiting[-1].clamp_max(0) @ high
