"""Near misses: where the ascents at a sample's strength that failed by least came to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.bundle import Tree, copy, put, select, take


@dataclass
class NearestMisses:
    """Of N samples: ``share`` [N], the lowest margin of the ascents that failed since the last success, as a share of
    the clean one ``clean`` [N] (inf: none), and its parameter ``theta``."""

    clean: Tensor
    share: Tensor
    theta: Tree

    @classmethod
    def none(cls, clean: Tensor, like: Tree) -> NearestMisses:
        """Before the first run; ``clean``: margins of the logits, ``like``: parameters of N samples."""
        return cls(clean, torch.full_like(clean, torch.inf), copy(like))

    def add(self, rows: Tensor, lowest: Tensor, theta: Tree, fooled: Tensor, ascents: Tensor) -> None:
        """Runs of the samples ``rows`` ended, with ``lowest`` [B] margins at ``theta``; only ``ascents`` [B] count, and
        a success (``fooled`` [B]) forgets those before it."""
        known, share = self.share[rows], (lowest / self.clean[rows]).masked_fill(~ascents, torch.inf)
        nearer = ~fooled & (share < known)
        self.share[rows] = torch.where(nearer, share, known).masked_fill(fooled, torch.inf)
        put(self.theta, rows, select(nearer, theta, take(self.theta, rows)))
