"""What a run of a sample is judged by: the smallest example known, or, where strengths do not imply each other or only
its last iterate counts, itself alone."""

import torch
from torch import Tensor

from robustatlas.attacks.search import Schedule
from robustatlas.attacks.search.plan import AttackRun, Judge
from robustatlas.engine.ledger import Ledger
from robustatlas.engine.numerics import NUMERICS
from robustatlas.optimizers.base import Evaluation


def by_itself(schedule: Schedule, judge: Judge) -> bool:
    """Whether a run answers for its strength without what other runs found."""
    return judge == "last" or not schedule.monotone


def to_beat(ledger: Ledger, schedule: Schedule, stage: AttackRun, rows: Tensor) -> Tensor:
    """``[B]``: what a candidate must be smaller than to be verified."""
    best = ledger.best_size[rows]
    return torch.full_like(best, torch.inf) if by_itself(schedule, stage.judge) else best


def judged(
    evaluation: Evaluation,
    schedule: Schedule,
    stage: AttackRun,
    smallest: Tensor,
    epsilon: Tensor,
    bounding: Tensor,
    finished: Tensor,
) -> tuple[Tensor, Tensor]:
    """``[B]``: theta is a candidate, and ``[B]``: the run ends here; ``smallest``: the size of the last candidate,
    ``bounding``: success does not end the run, ``finished``: it has no further step."""
    if stage.judge == "last":
        return evaluation.fooled & finished, finished
    better = evaluation.fooled & (evaluation.size < smallest * (1 - NUMERICS.gain))
    within = evaluation.size <= epsilon * (1 + NUMERICS.tolerance)
    if not schedule.monotone:
        better &= within
    return better, finished | (better & ~bounding & within)


def fooled_at(
    ledger: Ledger, schedule: Schedule, judge: Judge, rows: Tensor, epsilon: Tensor, confirmed: Tensor
) -> Tensor:
    """``[B]``: the samples are fooled at the strength of their runs, whose candidates were ``confirmed`` or not."""
    known = ledger.best_size[rows] <= epsilon * (1 + NUMERICS.tolerance)
    return confirmed if by_itself(schedule, judge) else known


def counted_within(schedule: Schedule, stage: AttackRun, level: Tensor, size: Tensor) -> Tensor:
    """``[B]``: index of the strength within which what a run came across, of that ``size``, counts; their number:
    beyond all. ``level`` [B]: of the strengths of the runs."""
    reach = schedule.strengths * (1 + NUMERICS.tolerance)
    if schedule.monotone:
        return torch.searchsorted(reach, size)
    return level if stage.judge == "last" else torch.where(size <= reach[level], level, len(reach))
