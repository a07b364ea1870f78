"""Judgement of runs: a run is judged by the smallest example known of its sample.

If strengths do not imply each other, or only the last iterate counts, it is judged by itself alone.
"""

import torch
from torch import Tensor

from robustatlas.attacks.search import Schedule
from robustatlas.attacks.search.plan import AttackRun, Judge
from robustatlas.engine.numerics import NUMERICS
from robustatlas.engine.records import Records
from robustatlas.optimizers.base import Evaluation


def is_judged_alone(schedule: Schedule, judge: Judge) -> bool:
    """Return if a run is judged without what other runs found."""
    return judge == "last" or not schedule.monotone


def size_to_beat(records: Records, schedule: Schedule, run: AttackRun, rows: Tensor) -> Tensor:
    """``[B]``: the size below which a candidate is verified."""
    best = records.best_size[rows]
    return torch.full_like(best, torch.inf) if is_judged_alone(schedule, run.judge) else best


def judge_candidates(
    evaluation: Evaluation,
    schedule: Schedule,
    run: AttackRun,
    smallest: Tensor,
    epsilon: Tensor,
    bounding: Tensor,
    finished: Tensor,
) -> tuple[Tensor, Tensor]:
    """``[B]``: theta is a candidate, and ``[B]``: the run ends here; ``smallest``: the size of the last candidate,
    ``bounding``: success does not end the run, ``finished``: it has no further step."""
    if run.judge == "last":
        return evaluation.fooled & finished, finished
    better = evaluation.fooled & (evaluation.size < smallest * (1 - NUMERICS.gain))
    within = evaluation.size <= epsilon * (1 + NUMERICS.tolerance)
    if not schedule.monotone:
        better &= within
    return better, finished | (better & ~bounding & within)


def is_fooled(
    records: Records, schedule: Schedule, judge: Judge, rows: Tensor, epsilon: Tensor, confirmed: Tensor
) -> Tensor:
    """``[B]``: the samples are fooled at the strength of their runs, whose candidates were ``confirmed`` or not."""
    known = records.best_size[rows] <= epsilon * (1 + NUMERICS.tolerance)
    return confirmed if is_judged_alone(schedule, judge) else known


def strength_columns(schedule: Schedule, run: AttackRun, level: Tensor, size: Tensor) -> Tensor:
    """``[B]``: index of the strength within which what a run came across, of that ``size``, counts; their number:
    beyond all. ``level`` [B]: of the strengths of the runs."""
    reach = schedule.strengths * (1 + NUMERICS.tolerance)
    if schedule.monotone:
        return torch.searchsorted(reach, size)
    return level if run.judge == "last" else torch.where(size <= reach[level], level, len(reach))
