"""Searches in reduced precision: margins that look lower than any before are computed again in full precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import Bundle, Tree
from robustatlas.optimizers.base import Problem


@dataclass(frozen=True)
class Doubtful(Bundle):
    """What a step came to: ``theta`` of the samples ``rows`` [B], whose margins belong to ``place`` [B] of the flat
    ledger; ``lower`` [B]: they look lower than any before."""

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
    def none(cls, margins: Tensor) -> RoughMargins:
        """Before the first run; ``margins`` [N, S + 1]: shaped like those of the ledger."""
        return cls(torch.full_like(margins, torch.inf).view(-1), [])

    def note(self, rows: Tensor, problem: Problem, theta: Tree, place: Tensor, margin: Tensor) -> None:
        """The margins [B] of a step at ``place`` [B]."""
        lower = margin < self.seen[place]
        self.seen.scatter_reduce_(0, place, margin, "amin")
        self.doubtful.append(Doubtful(rows, problem, theta, place, lower))

    def questions(self) -> list[Tensor]:
        """How many of each step look lower than any before."""
        return [each.lower.sum() for each in self.doubtful]

    def handed_over(self) -> list[Doubtful]:
        """The steps since the last look, which are forgotten here."""
        steps, self.doubtful = self.doubtful, []
        return steps
