"""Searches in reduced precision: margins that look lower than any before are computed again in full precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, Tree
from robustatlas.optimizers.base import Problem


@dataclass(frozen=True)
class Doubtful(Bundle):
    """Result of a step: ``theta`` of the samples ``rows`` [B], whose margins belong to ``place`` [B] of the flat
    records; ``lower`` [B]: they look lower than any before."""

    rows: Tensor
    problem: Problem
    theta: Tree
    place: Tensor
    lower: Tensor


@dataclass
class RoughMargins:
    """``seen`` [N * (S + 1)]: the lowest margins as the search saw them; ``doubtful``: steps since the last look."""

    seen: Tensor
    doubtful: list[Doubtful]

    @classmethod
    def empty(cls, margins: Tensor) -> RoughMargins:
        """Return the state before the first run; ``margins`` [N, S + 1]: those of the records."""
        return cls(torch.full_like(margins, torch.inf).view(-1), [])

    def note(self, rows: Tensor, problem: Problem, theta: Tree, place: Tensor, margin: Tensor) -> None:
        """Note the margins [B] of a step at ``place`` [B]."""
        lower = margin < self.seen[place]
        self.seen.scatter_reduce_(0, place, margin, "amin")
        self.doubtful.append(Doubtful(rows, problem, theta, place, lower))

    def counts(self) -> list[Tensor]:
        """Return the number of margins of each step that look lower than any before."""
        return [each.lower.sum() for each in self.doubtful]

    def pop_steps(self) -> list[Doubtful]:
        """Remove and return the steps since the last look."""
        steps, self.doubtful = self.doubtful, []
        return steps
