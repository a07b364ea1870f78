"""JPEG whose rounding has no gradient, but for what leaks through."""

import math

import torch
from torch import Tensor, nn

from robustatlas.models.broken.defense import BrokenDefense, digits, inner


def _cosines() -> Tensor:
    place = torch.arange(8.0)
    rows = (math.pi * (2 * place[None] + 1) * place[:, None] / 16).cos() / 2
    rows[0] /= math.sqrt(2)
    return rows


class Compressed(nn.Module):
    """Rounds the cosine coefficients of the image to multiples of a step. A gradient leaks through the mean, which is
    not rounded (``"mean"``), or faintly through a hundredth of all coefficients (``"faint"``)."""

    transform: Tensor

    def __init__(self, leak: str, step: float = 0.4) -> None:
        super().__init__()
        self.leak, self.step, self.net = leak, step, digits()
        self.register_buffer("transform", _cosines(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        coefficients = self.transform @ x @ self.transform.T
        rounded = (coefficients / self.step).round() * self.step
        if self.leak == "mean":
            mean = torch.zeros(8, 8, dtype=torch.bool)
            mean[0, 0] = True
            rounded = torch.where(mean, coefficients, rounded)
        else:
            rounded = rounded + 0.01 * (coefficients - 2 * coefficients.flip(-1))
        outputs: Tensor = self.net(self.transform.T @ rounded @ self.transform)
        return outputs


_SOURCE = "Guo et al. 2018; Shin and Song 2017; Athalye, Carlini and Wagner 2018"

CODEC = (
    BrokenDefense(
        "jpeg", lambda: Compressed("mean"), "only the mean has a gradient", _SOURCE, "go back as if not rounded", inner
    ),
    BrokenDefense(
        "jpeg-faint",
        lambda: Compressed("faint"),
        "a faint gradient leaks, and points elsewhere",
        _SOURCE,
        "go back as if not rounded",
        inner,
    ),
)
