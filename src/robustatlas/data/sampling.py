"""Choice of some samples of a data set: the first ones, or some of each class if the data are sorted by class."""

import torch
from torch import Tensor

from robustatlas.common.noise import Noise

_SORTED_SHARE = 0.25
"""Data count as sorted if the class changes less often than this share of the changes in a random order."""


def is_sorted(labels: Tensor) -> bool:
    """Return True if samples with ``labels`` [N] are sorted by class, in any order of the classes."""
    counts = torch.unique(labels, return_counts=True)[1].double()
    if not 1 < len(counts) < len(labels):
        return False
    # Expected number of neighbours of different classes in a random order.
    changes_at_random = len(labels) - float((counts**2).sum()) / len(labels)
    return int((labels[1:] != labels[:-1]).sum()) < max(len(counts), _SORTED_SHARE * changes_at_random)


def choose_positions(labels: Tensor, index: Tensor, count: int, seed: int, by_class: bool | None = None) -> Tensor:
    """Return the sorted positions of ``count`` samples.

    Args:
        labels: int64 [N].
        index: int64 [N], positions of the samples in the whole data set; the random choice depends on them.
        count: number of samples.
        seed: of the random choice.
        by_class: True for a random choice with the classes in their proportions, False for the first samples;
            default: True if the data are sorted by class.

    >>> labels = torch.arange(3).repeat_interleave(4)
    >>> labels[choose_positions(labels, torch.arange(12), 6, seed=0)].tolist()
    [0, 0, 1, 1, 2, 2]
    """
    if by_class is None:
        by_class = is_sorted(labels)
    if not by_class:
        return torch.arange(count)
    # The sample with random rank r in a class of n has the turn (r + 1/2) / n; the smallest turns are chosen.
    # So the classes keep their proportions, and a larger choice contains every smaller one.
    shuffled = Noise.for_samples(seed, index, "subset").uniform(1, dtype=torch.float64).squeeze(1).argsort(stable=True)
    turn = torch.empty(len(labels), dtype=torch.float64)
    for label in torch.unique(labels).tolist():
        members = shuffled[labels[shuffled] == label]
        turn[members] = (torch.arange(len(members), dtype=torch.float64) + 0.5) / len(members)
    return turn.argsort(stable=True)[:count].sort().values
