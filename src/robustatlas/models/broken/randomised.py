"""Outputs that depend on chance, or on the rest of the batch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from robustatlas.models.broken.defense import BrokenDefense, digits
from robustatlas.models.broken.fitting import fitted


class Noisy(nn.Module):
    """Adds noise to its input at each call."""

    def __init__(self, deviation: float = 0.2) -> None:
        super().__init__()
        self.deviation = deviation
        self.net: nn.Module = digits()

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 10]."""
        outputs: Tensor = self.net(x + self.deviation * torch.randn_like(x))
        return outputs


class Pruned(nn.Module):
    """Keeps hidden units at random, with probability 1 - exp(-n/3 |a| / sum |a|)."""

    def __init__(self) -> None:
        super().__init__()
        net = digits()
        self.features, self.readout = net[:7], net[7]

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 10]."""
        a = self.features(x)
        share = a.abs() / a.abs().sum(1, keepdim=True).clamp_min(1e-9)
        keep = 1 - (-a.shape[1] / 3 * share).exp()
        kept = a * (torch.rand_like(a) < keep) / keep.clamp_min(1e-6)
        outputs: Tensor = self.readout(kept)
        return outputs


class Company(nn.Module):
    """Centres features by the mean of the batch, as batch normalisation in training mode does."""

    def __init__(self) -> None:
        super().__init__()
        net = digits()
        self.features, self.readout = net[:7], net[7]

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 10]."""
        a = self.features(x)
        outputs: Tensor = self.readout(a - 0.5 * a.mean(0, keepdim=True))
        return outputs


def _company() -> nn.Module:
    return Company()


def _trained_with_noise() -> nn.Module:
    noisy = Noisy()
    noisy.net = fitted(41, transformed=lambda x: x + 0.2 * torch.randn_like(x))
    return noisy


_EOT = "gradients averaged over draws (EOT), and errors by the majority of draws"

RANDOMISED = (
    BrokenDefense(
        "noise", Noisy, "each call draws another gradient", "He et al. 2019; Athalye et al. 2018", _EOT, draws=20
    ),
    BrokenDefense(
        "noise-trained",
        _trained_with_noise,
        "each call draws another gradient",
        "He et al. 2019; Athalye et al. 2018",
        _EOT,
        draws=20,
    ),
    BrokenDefense(
        "neuron-drop",
        Pruned,
        "each call drops other units",
        "Dhillon et al. 2018 (stochastic activation pruning); selfstudy-adversarial-robustness",
        _EOT,
        draws=20,
    ),
    BrokenDefense(
        "batch-statistics",
        _company,
        "what a sample gives depends on the samples beside it",
        "Carlini et al. 2019 (evaluation mode)",
        "evaluate samples one by one",
    ),
)
