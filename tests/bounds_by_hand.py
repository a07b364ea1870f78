"""Lower bounds of margins in linf balls, layer by layer as papers print them, and how far linear pieces reach.

Of networks x -> relu(W1 x + b1) -> relu(W2 . + b2) -> W3 . + b3 without batch normalisation; differentiable.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.training.recipes.base import Batch

Layers = list[tuple[Tensor, Tensor]]


def layers(net: nn.Sequential, x: Tensor) -> Layers:
    """Weights [O, I] and biases [O], the convolution in front as a matrix."""
    first, second, third = (layer for layer in net if isinstance(layer, nn.Conv2d | nn.Linear))
    at_zero = first(torch.zeros_like(x[:1])).flatten(1)
    eye = torch.eye(x[0].numel(), dtype=x.dtype).view(-1, *x.shape[1:])
    matrix = (first(eye).flatten(1) - at_zero).T
    return [(matrix, at_zero[0]), (second.weight, second.bias), (third.weight, third.bias)]


def worst_loss(margins: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy of the worst logits, 0 of the label."""
    return F.cross_entropy(-margins.scatter(1, y[:, None], 0.0), y)


def box(b: Batch, epsilon: float) -> tuple[Tensor, Tensor]:
    x = b.x.flatten(1)
    return (x - epsilon).clamp_min(0), (x + epsilon).clamp_max(1)


def intervals(given: Layers, low: Tensor, high: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Gowal et al. 2018, eq. 6: what goes into each ReLU, as middle and radius through |W|."""
    found = []
    for weight, bias in given[:2]:
        middle, radius = (low + high) / 2 @ weight.T + bias, (high - low) / 2 @ weight.abs().T
        found.append((middle - radius, middle + radius))
        low, high = (edge.relu() for edge in found[-1])
    return found


def specifications(given: Layers, y: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [B, C, I] and constants [B, C] of the margins f_y - f_j before the last layer."""
    weight, bias = given[2]
    return weight[y][:, None] - weight, bias[y][:, None] - bias


def ibp(net: nn.Sequential, b: Batch, epsilon: float) -> Tensor:
    """``[B, C]``: Gowal et al. 2018, the last layer in the specification."""
    given = layers(net, b.x)
    low, high = (edge.relu() for edge in intervals(given, *box(b, epsilon))[1])
    rows, constant = specifications(given, b.labels)
    return ((rows.clamp_min(0) * low[:, None]) + (rows.clamp_max(0) * high[:, None])).sum(2) + constant


def crown_ibp(net: nn.Sequential, b: Batch, epsilon: float) -> Tensor:
    """``[B, C]``: Zhang et al. 2020, by lines over the intervals of the layers."""
    given, (lowest, highest) = layers(net, b.x), box(b, epsilon)
    rows, total = specifications(given, b.labels)
    for (weight, bias), (low, high) in zip(given[1::-1], intervals(given, lowest, highest)[::-1], strict=True):
        up = high.clamp_min(0) / (high.clamp_min(0) - low.clamp_max(0))
        down = torch.where(low >= 0, 1.0, torch.where(high <= 0, 0.0, (high > -low).to(low.dtype)))
        above = rows.clamp_max(0)
        total = total + (above * (-up * low.clamp_max(0))[:, None]).sum(2)
        rows = rows.clamp_min(0) * down[:, None] + above * up[:, None]
        total, rows = total + (rows * bias).sum(2), rows @ weight
    return total + (rows.clamp_min(0) * lowest[:, None]).sum(2) + (rows.clamp_max(0) * highest[:, None]).sum(2)


def kw(net: nn.Sequential, b: Batch, epsilon: float) -> Tensor:
    """``[B, C]``: Wong and Kolter 2018, algorithm 1, with nu of the unstable neurons written out, and the dual
    objective."""
    given = layers(net, b.x)
    (w1, b1), (w2, b2), _ = given
    x, count = b.x.flatten(1), len(b.x)
    middle, reach = x @ w1.T + b1, epsilon * w1.abs().sum(1)
    low, high = middle - reach, middle + reach

    def through(rows: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """Rows before a ReLU, and what its unstable neurons add: sum of l [nu]_+ with nu = -rows x slope."""
        unstable = (low < 0) & (high > 0)
        nu = rows * torch.where(unstable, high / (high - low), (low >= 0).to(low.dtype))[:, None]
        return nu, (unstable * low)[:, None].mul((-nu).clamp_min(0)).sum(2)

    nu, fixed = through(w2.expand(count, -1, -1), low, high)
    centre = middle[:, None].mul(nu).sum(2) + b2
    low2 = centre - epsilon * (nu @ w1).abs().sum(2) + fixed
    nu_up, fixed_up = through(-w2.expand(count, -1, -1), low, high)
    high2 = centre + epsilon * (nu_up @ w1).abs().sum(2) - fixed_up
    rows, constant = specifications(given, b.labels)
    nu, fixed2 = through(rows, low2, high2)
    nu1, fixed1 = through(nu @ w2, low, high)
    margins = constant + (nu * b2).sum(2) + (nu1 * middle[:, None]).sum(2)
    return margins + fixed1 + fixed2 - epsilon * (nu1 @ w1).abs().sum(2)


def pieces(net: nn.Sequential, x: Tensor) -> Layers:
    """What goes into each ReLU, then the logits ``[B, U]``, and their slopes [B, U, D] with the ReLUs as they are at
    ``x`` (max-andr/provable-robustness-max-linear-regions)."""
    found = []
    at, slope = x.flatten(1), torch.eye(x[0].numel(), dtype=x.dtype).expand(len(x), -1, -1)
    for weight, bias in layers(net, x):
        z, v = at @ weight.T + bias, weight @ slope
        found.append((z, v))
        on = (z > 0).to(z.dtype)
        at, slope = z * on, v * on[..., None]
    return found
