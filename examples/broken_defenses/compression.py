"""JPEG whose rounding has no gradient, but for what leaks through.

Proposed by Guo et al. 2018, and broken by Shin and Song 2017 and by Athalye, Carlini and Wagner 2018. An adaptive
attack goes back as if nothing were rounded. ``arguments={"attacked": True}`` gives the network as that attack sees it.
"""

import math

import torch
from torch import Tensor, nn

import robustatlas as ra
from digits_networks import attackable, shipped_network

Model = nn.Module | ra.Classifier


def _cosine_transform() -> Tensor:
    place = torch.arange(8.0)
    rows = (math.pi * (2 * place[None] + 1) * place[:, None] / 16).cos() / 2
    rows[0] /= math.sqrt(2)
    return rows


class Compressed(nn.Module):
    """Round the cosine coefficients of the image to multiples of a step.

    A gradient leaks through the mean, which is not rounded ("mean"), or through a hundredth of all coefficients
    ("faint").
    """

    transform: Tensor

    def __init__(self, leak: str, step: float = 0.4) -> None:
        super().__init__()
        self.leak, self.step, self.net = leak, step, shipped_network()
        self.register_buffer("transform", _cosine_transform(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        coefficients = self.transform @ x @ self.transform.T
        rounded = (coefficients / self.step).round() * self.step
        if self.leak == "mean":
            is_mean = torch.zeros(8, 8, dtype=torch.bool)
            is_mean[0, 0] = True
            rounded = torch.where(is_mean, coefficients, rounded)
        else:
            rounded = rounded + 0.01 * (coefficients - 2 * coefficients.flip(-1))
        outputs: Tensor = self.net(self.transform.T @ rounded @ self.transform)
        return outputs


def jpeg(attacked: bool = False) -> Model:
    """Only the mean of the image has a gradient."""
    defense = Compressed("mean")
    return attackable(defense, defense.net, attacked)


def jpeg_with_faint_gradient(attacked: bool = False) -> Model:
    """A faint gradient leaks, and points elsewhere."""
    defense = Compressed("faint")
    return attackable(defense, defense.net, attacked)
