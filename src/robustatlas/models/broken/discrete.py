"""Inputs or votes that are discrete: outputs change by jumps, and gradients do not see them."""

from functools import cache, partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from robustatlas.models.broken.defense import (
    Behind,
    BrokenDefense,
    Net,
    digits,
    features_of,
    fitted,
    inner,
    training_data,
)

_LEVELS = 20


def _rounded(x: Tensor, levels: int) -> Tensor:
    return (x * (levels - 1)).round() / (levels - 1)


def _binary(x: Tensor) -> Tensor:
    return (x > 0.5).float()


def _thermometer(x: Tensor) -> Tensor:
    """The value of each pixel's thermometer code of 20 steps: flat, but for a ramp of a fifth of a step at each."""
    steps = (torch.arange(_LEVELS) + 0.5).view(1, -1, 1, 1) / _LEVELS
    return ((x - steps) * 5 * _LEVELS).clamp(0, 1).mean(1, keepdim=True)


class Majority(nn.Module):
    """Three networks vote: outputs are their numbers of votes, and a hundredth of their mean probabilities."""

    def __init__(self) -> None:
        super().__init__()
        self.nets = nn.ModuleList([digits(), digits("l2"), digits("linf")])

    def forward(self, x: Tensor) -> Tensor:
        logits = torch.stack([net(x) for net in self.nets])
        return F.one_hot(logits.argmax(2), 10).sum(0) + 0.01 * (1000 * logits).softmax(2).mean(0)

    def soft(self, x: Tensor) -> Tensor:
        """The mean of the probabilities [B, 10], whose gradient is that of no vote."""
        return torch.stack([net(x).softmax(1) for net in self.nets]).mean(0)


class NearestNeighbours(nn.Module):
    """The votes of the five training images whose features are nearest."""

    known: Tensor
    votes: Tensor

    def __init__(self) -> None:
        super().__init__()
        images, labels = training_data()
        self.features = features_of(digits())
        with torch.no_grad():
            self.register_buffer("known", self.features(images), persistent=False)
        self.register_buffer("votes", F.one_hot(labels, 10).float(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [B, 10]: votes, and next to nothing for the distance."""
        distances = torch.cdist(self.features(x), self.known)
        nearest = distances.topk(5, largest=False).indices
        return self.votes[nearest].sum(1) + 1e-6 * self.soft(x)

    def soft(self, x: Tensor) -> Tensor:
        """Votes weighted by distance [B, 10]."""
        return (-torch.cdist(self.features(x), self.known)).softmax(1) @ self.votes


@cache
def _coarse() -> nn.Module:
    return fitted(11, transformed=_TWO_BITS)


def _soft(net: nn.Module) -> Net:
    assert isinstance(net, (Majority, NearestNeighbours))
    return net.soft


_TWO_BITS = partial(_rounded, levels=4)
_IDENTITY = "go back as if pixels were not rounded"

DISCRETE = (
    BrokenDefense(
        "rounded",
        lambda: Behind(partial(_rounded, levels=8)),
        "rounding has gradient zero",
        "Xu et al. 2018",
        _IDENTITY,
        inner,
    ),
    BrokenDefense(
        "two-bits",
        lambda: Behind(_TWO_BITS, net=_coarse()),
        "rounding has gradient zero",
        "Sen et al. 2020 (EMPIR)",
        _IDENTITY,
        inner,
    ),
    BrokenDefense(
        "black-and-white", lambda: Behind(_binary), "a comparison ends the gradient", "Xu et al. 2018", _IDENTITY, inner
    ),
    BrokenDefense(
        "thermometer",
        lambda: Behind(_thermometer),
        "steep ramps are flat elsewhere",
        "Buckman et al. 2018",
        _IDENTITY,
        inner,
    ),
    BrokenDefense(
        "majority",
        Majority,
        "votes have no gradient, and saturated probabilities leak one",
        "Sen et al. 2020 (EMPIR); Tramèr et al. 2020",
        "climb the mean probability of the three",
        _soft,
    ),
    BrokenDefense(
        "nearest-neighbours",
        NearestNeighbours,
        "votes of neighbours have no gradient",
        "selfstudy-adversarial-robustness (k nearest neighbours on features)",
        "weigh all neighbours by their distance",
        _soft,
    ),
)
