"""Which iterate of a run counts: the best one, or only the last (historical procedures)."""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.attacks.search.plan import Judge
from robustatlas.engine.ledger import Ledger
from robustatlas.engine.numerics import NUMERICS
from robustatlas.optimizers.base import Evaluation


def to_beat(ledger: Ledger, rows: Tensor, judge: Judge) -> Tensor:
    """``[B]``: what a candidate must be smaller than to be verified."""
    best = ledger.best_size[rows]
    return best if judge == "best" else torch.full_like(best, torch.inf)


def judged(
    evaluation: Evaluation, judge: Judge, smallest: Tensor, epsilon: Tensor, bounding: Tensor, finished: Tensor
) -> tuple[Tensor, Tensor]:
    """``[B]``: theta is a candidate, and ``[B]``: the run ends here; ``smallest``: the size of the last candidate,
    ``bounding``: success does not end the run, ``finished``: it has no further step."""
    if judge == "last":
        return evaluation.fooled & finished, finished
    better = evaluation.fooled & (evaluation.size < smallest * (1 - NUMERICS.gain))
    within = evaluation.size <= epsilon * (1 + NUMERICS.tolerance)
    return better, finished | (better & ~bounding & within)


def fooled_at(ledger: Ledger, rows: Tensor, epsilon: Tensor, confirmed: Tensor, judge: Judge) -> Tensor:
    """``[B]``: the samples are fooled at the strength of their runs, whose candidates were ``confirmed`` or not; their
    own last iterate alone decides, or the smallest example known."""
    return confirmed if judge == "last" else ledger.best_size[rows] <= epsilon * (1 + NUMERICS.tolerance)
