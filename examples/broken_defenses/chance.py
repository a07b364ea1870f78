"""Defenses whose outputs depend on chance, or on the other samples of a batch.

An adaptive attack averages gradients over draws (EOT), and errors count by the majority of draws.
``arguments={"attacked": True}`` gives a classifier whose attacks do so, over 20 draws.
"""

import torch
from torch import Tensor, nn

import robustatlas as ra
from digits_networks import Function, Wrapped, attackable_by_draws, shipped_network, trained_network

Model = nn.Module | ra.Classifier


class WithFeatures(nn.Module):
    """The shipped network, with a function of its last features."""

    def __init__(self, change: Function) -> None:
        super().__init__()
        net = shipped_network()
        self.features, self.readout, self.change = net[:7], net[7], change

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.readout(self.change(self.features(x)))
        return outputs


def _add_noise(x: Tensor) -> Tensor:
    return x + 0.2 * torch.randn_like(x)


def input_noise(attacked: bool = False) -> Model:
    """Noise on the pixels gives each call another gradient (He et al. 2019; Athalye et al. 2018)."""
    return attackable_by_draws(Wrapped(_add_noise), attacked)


def input_noise_in_training(attacked: bool = False) -> Model:
    """Noise on the pixels, in training too (He et al. 2019; Athalye et al. 2018)."""
    return attackable_by_draws(Wrapped(_add_noise, net=trained_network(41, transform=_add_noise)), attacked)


def _drop_units(features: Tensor) -> Tensor:
    """Keep each of n hidden units with probability 1 - exp(-n/3 |a| / sum |a|), and rescale those that are kept."""
    share = features.abs() / features.abs().sum(1, keepdim=True).clamp_min(1e-9)
    keep = 1 - (-features.shape[1] / 3 * share).exp()
    return features * (torch.rand_like(features) < keep) / keep.clamp_min(1e-6)


def neuron_drop(attacked: bool = False) -> Model:
    """Each call drops other units (Dhillon et al. 2018, stochastic activation pruning)."""
    return attackable_by_draws(WithFeatures(_drop_units), attacked)


def batch_statistics() -> Model:
    """Features less half of the batch's mean, as batch normalisation in training mode has them.

    What a sample gives depends on the samples beside it (Carlini et al. 2019). An adaptive attack evaluates samples one
    by one; no gradient of the batch is that attack's, so this defense takes no `attacked`.
    """
    return WithFeatures(lambda features: features - 0.5 * features.mean(0, keepdim=True))
