"""Defenses with discrete inputs or votes: their outputs jump, and gradients do not see the jumps.

An adaptive attack goes back as if nothing were rounded, or climbs a smooth vote. ``arguments={"attacked": True}`` gives
the network as that attack sees it.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import robustatlas as ra
from digits_networks import Function, Wrapped, attackable, shipped_network, trained_network

Model = nn.Module | ra.Classifier


def _round(x: Tensor, levels: int) -> Tensor:
    return (x * (levels - 1)).round() / (levels - 1)


def _thermometer_value(x: Tensor, steps: int = 20) -> Tensor:
    """Return the value of each pixel's thermometer code: flat, but for a ramp of a fifth of a step at each step."""
    places = (torch.arange(steps) + 0.5).view(1, -1, 1, 1) / steps
    return ((x - places) * 5 * steps).clamp(0, 1).mean(1, keepdim=True)


def _defense(before: Function, net: nn.Module, attacked: bool) -> Model:
    return attackable(Wrapped(before, net=net), net, attacked)


def eight_levels(attacked: bool = False) -> Model:
    """Pixels are rounded to 8 levels, which has gradient zero (Xu et al. 2018)."""
    return _defense(partial(_round, levels=8), shipped_network(), attacked)


def four_levels(attacked: bool = False) -> Model:
    """Pixels are rounded to 4 levels, in training too (Sen et al. 2020, EMPIR)."""
    two_bits = partial(_round, levels=4)
    return _defense(two_bits, trained_network(11, transform=two_bits), attacked)


def black_and_white(attacked: bool = False) -> Model:
    """A comparison makes pixels 0 or 1 and ends the gradient (Xu et al. 2018)."""
    return _defense(lambda x: (x > 0.5).float(), shipped_network(), attacked)


def thermometer_code(attacked: bool = False) -> Model:
    """Pixels go through steep ramps that are flat elsewhere (Buckman et al. 2018)."""
    return _defense(_thermometer_value, shipped_network(), attacked)


class MajorityVote(nn.Module):
    """Three networks vote: outputs are their numbers of votes, and a hundredth of their mean probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList([shipped_network(), shipped_network("l2"), shipped_network("linf")])

    def forward(self, x: Tensor) -> Tensor:
        logits = torch.stack([net(x) for net in self.nets])
        return F.one_hot(logits.argmax(2), 10).sum(0) + 0.01 * (1000 * logits).softmax(2).mean(0)

    def mean_probabilities(self, x: Tensor) -> Tensor:
        return torch.stack([net(x).softmax(1) for net in self.nets]).mean(0)


def majority_vote(attacked: bool = False) -> Model:
    """Votes have no gradient, and saturated probabilities leak one (Sen et al. 2020, EMPIR; Tramèr et al. 2020).

    The adaptive attack climbs the mean probability of the three networks.
    """
    defense = MajorityVote()
    return attackable(defense, defense.mean_probabilities, attacked)


class NearestNeighbours(nn.Module):
    """The votes of the five training images whose features are nearest, and next to nothing for the distance."""

    known: Tensor
    votes: Tensor

    def __init__(self) -> None:
        super().__init__()
        data = ra.load_dataset("digits", "train")
        self.features = shipped_network()[:-1]
        with torch.no_grad():
            self.register_buffer("known", self.features(data.images), persistent=False)
        self.register_buffer("votes", F.one_hot(data.labels, 10).float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        nearest = torch.cdist(self.features(x), self.known).topk(5, largest=False).indices
        return self.votes[nearest].sum(1) + 1e-6 * self.votes_by_distance(x)

    def votes_by_distance(self, x: Tensor) -> Tensor:
        return (-torch.cdist(self.features(x), self.known)).softmax(1) @ self.votes


def nearest_neighbours(attacked: bool = False) -> Model:
    """Votes of neighbours have no gradient (selfstudy-adversarial-robustness, k nearest neighbours on features).

    The adaptive attack weighs all neighbours by their distance.
    """
    defense = NearestNeighbours()
    return attackable(defense, defense.votes_by_distance, attacked)
