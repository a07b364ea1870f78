"""The images of a training: in memory where they were, and read batch by batch where they lie on disk."""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.checks.sanity import check_inputs
from robustatlas.data import Dataset
from robustatlas.data.rows import InMemory


class Images:
    """Images of some positions of a data set on a device, with their labels and numbers there."""

    def __init__(self, data: Dataset, chosen: Tensor, device: torch.device, dtype: torch.dtype) -> None:
        self.labels, self.index = (t[chosen].to(device) for t in (data.labels, data.index))
        self.device, self.dtype = device, dtype
        self.rows = data.rows.chosen(chosen)
        self.held = self.rows[:].to(device, dtype) if isinstance(self.rows, InMemory) else None

    def __len__(self) -> int:
        return len(self.labels)

    def batch(self, positions: Tensor) -> Tensor:
        """Images ``[B, ...]`` at ``positions`` [B]."""
        if self.held is not None:
            return self.held[positions]
        return self.rows[positions.cpu()].to(self.device, self.dtype)


def check_images(data: Dataset) -> None:
    """Raise :class:`UserError` where images or labels cannot be trained on; on disk the first are looked at."""
    count = len(data) if isinstance(data.rows, InMemory) else min(len(data), 8)
    check_inputs(data.rows[:count], data.labels[:count])
