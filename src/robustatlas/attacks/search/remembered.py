"""What some searches remember of their runs besides the smallest example."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, put, select, take


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
