"""What some searches remember of their runs besides the smallest example."""

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


@dataclass
class SharedExamples:
    """Of N samples at S strengths: ``theta`` [N * (S + 1)], that of the lowest margin within each strength and not
    within the one below."""

    theta: Tree

    @classmethod
    def none(cls, like: Tree, rows: int, columns: int, device: torch.device) -> SharedExamples:
        """Before the first run: the parameters ``like`` of so many ``rows``, for each of the ``columns``."""
        return cls(take(like, torch.arange(rows, device=device).repeat_interleave(columns)))

    def add(self, place: Tensor, theta: Tree, lower: Tensor) -> None:
        """``theta`` of samples and strengths at ``place`` [B], each another one; ``lower`` [B]: counts."""
        put(self.theta, place, select(lower, theta, take(self.theta, place)))

    def lowest(self, margins: Tensor, rows: Tensor, source: Tensor) -> Tree:
        """The parameters of the lowest of ``margins`` [B, S + 1] of the samples ``rows`` [B] within the strengths of
        index ``source`` [B]."""
        beyond = torch.arange(margins.shape[1], device=rows.device) > source[:, None]
        column = margins.masked_fill(beyond, torch.inf).argmin(1)
        return take(self.theta, rows * margins.shape[1] + column)
