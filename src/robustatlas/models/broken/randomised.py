"""Outputs that depend on chance, or on the rest of the batch."""

import torch
from torch import Tensor, nn

from robustatlas.models.broken.defense import Behind, BrokenDefense, Net, digits, fitted


def _noisy(x: Tensor) -> Tensor:
    return x + 0.2 * torch.randn_like(x)


class WithFeatures(nn.Module):
    """The shipped network, with a function of its last features."""

    def __init__(self, through: Net) -> None:
        super().__init__()
        net = digits()
        self.features, self.readout, self.through = net[:7], net[7], through

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.readout(self.through(self.features(x)))
        return outputs


def _pruned(a: Tensor) -> Tensor:
    """Hidden units kept at random, with probability 1 - exp(-n/3 |a| / sum |a|)."""
    share = a.abs() / a.abs().sum(1, keepdim=True).clamp_min(1e-9)
    keep = 1 - (-a.shape[1] / 3 * share).exp()
    return a * (torch.rand_like(a) < keep) / keep.clamp_min(1e-6)


def _centred(a: Tensor) -> Tensor:
    """Features less half of the batch's mean, as batch normalisation in training mode has them."""
    return a - 0.5 * a.mean(0, keepdim=True)


_EOT = "gradients averaged over draws (EOT), and errors by the majority of draws"

RANDOMISED = (
    BrokenDefense(
        "noise",
        lambda: Behind(_noisy),
        "each call draws another gradient",
        "He et al. 2019; Athalye et al. 2018",
        _EOT,
        draws=20,
    ),
    BrokenDefense(
        "noise-trained",
        lambda: Behind(_noisy, net=fitted(41, transformed=_noisy)),
        "each call draws another gradient",
        "He et al. 2019; Athalye et al. 2018",
        _EOT,
        draws=20,
    ),
    BrokenDefense(
        "neuron-drop",
        lambda: WithFeatures(_pruned),
        "each call drops other units",
        "Dhillon et al. 2018 (stochastic activation pruning); selfstudy-adversarial-robustness",
        _EOT,
        draws=20,
    ),
    BrokenDefense(
        "batch-statistics",
        lambda: WithFeatures(_centred),
        "what a sample gives depends on the samples beside it",
        "Carlini et al. 2019 (evaluation mode)",
        "evaluate samples one by one",
    ),
)
