"""When a run is given up: what it has come to says that the rest of it will not matter.

A run for the smallest size is given up where it lags behind what is known of its sample, an ascent at a strength where
its margin falls too slowly to reach zero in time. Both are judged by the run itself and by what was known when it
began, so the result of a sample does not depend on the others of its batch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from robustatlas.bundle import Bundle
from robustatlas.host import kept
from robustatlas.objectives import margin_of
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem

LOOKS = 4
"""Into how many parts an ascent is divided; at the end of each but the last its margin is looked at."""


def _part(steps: int) -> int:
    return max(1, steps // LOOKS)


@dataclass(frozen=True)
class Progress(Bundle):
    """What a run has come to.

    ``smallest`` [B]: the smallest size that was misclassified (inf: none); ``lowest`` [B]: the lowest margin of the
    logits; ``earlier`` [B]: that at the last look, ``fall`` [B] what it fell from the look before to that one.
    """

    smallest: Tensor
    lowest: Tensor
    earlier: Tensor
    fall: Tensor

    @classmethod
    def none(cls, like: Tensor) -> Progress:
        """Of runs that begin, one for each number of ``like`` [B]."""
        never = torch.full_like(like, torch.inf)
        return cls(never, never, never, never)

    def after(self, evaluation: Evaluation, problem: Problem, step: Tensor, steps: int) -> Progress:
        """What it is after evaluation number ``step`` [B] (from 0) of a run of ``steps``."""
        fooling = torch.where(evaluation.fooled, evaluation.size, torch.inf)
        lowest = torch.minimum(self.lowest, margin_of(evaluation.logits, problem.labels))
        look = step % _part(steps) == 0
        return Progress(
            smallest=torch.minimum(self.smallest, fooling),
            lowest=lowest,
            earlier=torch.where(look, lowest, self.earlier),
            fall=torch.where(look & (step > 0), self.earlier - lowest, self.fall),
        )


@dataclass(frozen=True)
class Patience:
    """How long runs go on that come to nothing.

    ``behind``: pairs (share, ratio) of rising shares and falling ratios; from that share of its steps on, a
    minimum-size run must have found something below ``ratio`` times the sample's smallest size. ``hope``: an ascent
    goes on if its margin reaches zero in time, falling at so many times the rate of the last part (inf: always).

    Example:
        >>> from robustatlas.optimizers.fmn import FMN
        >>> from robustatlas.optimizers.pgd import PGD
        >>> patience = Patience(behind=((0.5, 1.1),), hope=1.0)
        >>> lowest, fall = torch.tensor([0.5, 0.5]), torch.tensor([0.1, 0.4])
        >>> progress = Progress(smallest=torch.tensor([1.3, 1.05]), lowest=lowest, earlier=lowest, fall=fall)
        >>> half, known = torch.tensor([10, 10]), torch.tensor([1.0, 1.0])
        >>> patience.gives_up(progress, half, FMN(20), known).tolist()
        [True, False]
        >>> patience.gives_up(progress, half, PGD(20), known).tolist()
        [True, False]
    """

    behind: tuple[tuple[float, float], ...]
    hope: float

    def gives_up(self, progress: Progress, step: Tensor, optimizer: Optimizer[Any], known: Tensor) -> Tensor:
        """``[B]``: the runs that end after evaluation number ``step`` [B] (from 0), where the smallest size of their
        samples was ``known`` [B] when they began. Searches without gradients are never given up."""
        if not optimizer.needs_gradient:
            return torch.zeros_like(step, dtype=torch.bool)
        steps = optimizer.steps
        if not optimizer.minimum_size:
            parts_left = (steps - step) / _part(steps)
            looked = (step % _part(steps) == 0) & (step > 0) & (step < steps)
            return looked & (progress.lowest > self.hope * parts_left * progress.fall)
        ratio = kept(_ratios, self.behind, steps, like=known)[step.clamp_max(steps)]
        return progress.smallest > ratio * known


def _ratios(behind: tuple[tuple[float, float], ...], steps: int) -> Tensor:
    """``[steps + 1]``: the ratio that a minimum-size run of so many steps must keep to at each of its evaluations."""
    due = [(round(share * steps), ratio) for share, ratio in behind]
    ratios = [min((ratio for at, ratio in due if step >= at), default=math.inf) for step in range(steps + 1)]
    return torch.tensor(ratios, dtype=torch.float64)
