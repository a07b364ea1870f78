"""Some samples of a data set: the first ones, or, of data that are sorted by class, some of each class."""

import torch
from torch import Tensor

from robustatlas.common.noise import Noise

_SORTED = 0.25
"""Data are sorted where the class changes less often than in this share of the places of a random order."""


def is_sorted(labels: Tensor) -> bool:
    """Whether samples with these ``labels`` [N] are sorted by class, in whatever order: neighbours differ as rarely as
    they can, or far more rarely than in a random order."""
    counts = torch.unique(labels, return_counts=True)[1].double()
    if not 1 < len(counts) < len(labels):
        return False
    at_random = len(labels) - float((counts**2).sum()) / len(labels)
    return int((labels[1:] != labels[:-1]).sum()) < max(len(counts), _SORTED * at_random)


def some_of(labels: Tensor, index: Tensor, count: int, seed: int, by_class: bool | None = None) -> Tensor:
    """Positions of ``count`` of the samples with these ``labels`` [N] and places ``index`` [N] in the whole data set:
    the first ones, or ``by_class``; default: by class where they are sorted by class.

    Samples are dealt evenly from their classes: that of random rank r in a class of n comes up at (r + 1/2) / n. They
    keep their order, and more of them hold all of fewer.

    >>> labels = torch.arange(3).repeat_interleave(4)
    >>> labels[some_of(labels, torch.arange(12), 6, seed=0)].tolist()
    [0, 0, 1, 1, 2, 2]
    """
    if by_class is None:
        by_class = is_sorted(labels)
    if not by_class:
        return torch.arange(count)
    shuffled = Noise.for_samples(seed, index, "subset").uniform(1, dtype=torch.float64).squeeze(1).argsort(stable=True)
    turn = torch.empty(len(labels), dtype=torch.float64)
    for label in torch.unique(labels).tolist():
        members = shuffled[labels[shuffled] == label]
        turn[members] = (torch.arange(len(members), dtype=torch.float64) + 0.5) / len(members)
    return turn.argsort(stable=True)[:count].sort().values
