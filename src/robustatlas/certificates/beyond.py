"""What is known of hidden layers from larger sets: it holds on every smaller one too."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

Sides = Mapping[int, tuple[Tensor, Tensor]]
"""Positions of nodes -> lower and upper bounds [B, ...] of their numbers."""


class Beyond:
    """Bounds on what goes into the activations of samples, from the last set of each that was too large.

    What keeps its sign on a large set keeps it on a smaller one, so that nothing need be computed of it.
    """

    def __init__(self) -> None:
        self._sides: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, rows: Tensor) -> Sides:
        """What is known of some samples; infinite where nothing is."""
        return {position: (low[rows], high[rows]) for position, (low, high) in self._sides.items()}

    def learn(self, rows: Tensor, lost: Tensor, sides: Sides, count: int) -> None:
        """Keep the ``sides`` [K, ...] of those of the samples ``rows`` [K], of ``count``, that ``lost`` [K] says."""
        for position, found in sides.items():
            if position not in self._sides:
                everything = found[0].new_full((count, *found[0].shape[1:]), torch.inf)
                self._sides[position] = -everything, everything
            for kept, new in zip(self._sides[position], found, strict=True):
                kept[rows[lost]] = new[lost]
