"""Several points of a sweep in one batch, where fewer samples are left than fit into one."""

from dataclasses import replace

import torch

from robustatlas.attacks.search.plan import AttackRun
from robustatlas.common.bundle import take
from robustatlas.engine.evidence import record_margins
from robustatlas.engine.lanes import Lanes, evaluate
from robustatlas.engine.setting import Setting
from robustatlas.optimizers.base import Evaluation


def points_at_once(setting: Setting, stage: AttackRun, lanes: Lanes) -> int:
    """How many points of each run fit into a batch; 1 where points come one by one: of a model that is asked for a
    price, and in reduced precision, whose margins are computed again."""
    together = stage.optimizer.foresees and setting.rough is None and setting.model.knowledge == "gradients"
    return min(setting.lanes // len(lanes.rows), stage.optimizer.steps) if together else 1


def moved_ahead(setting: Setting, stage: AttackRun, lanes: Lanes, count: int) -> tuple[Lanes, Evaluation]:
    """The lanes at the first mistake among their next ``count`` points, or at the last of these, and what the model
    says there. Margins up to there are entered, and passes up to there are charged: as if points came one by one."""
    held, ledger = len(lanes.rows), setting.ledger
    number = torch.arange(count, device=lanes.rows.device)
    state = stage.optimizer.ahead(lanes.problem, lanes.state, count)
    every: Lanes = take(replace(lanes, state=None), torch.arange(held, device=number.device).repeat_interleave(count))
    with setting.model.counting() as passes:
        evaluation = evaluate(setting.model, every.problem, stage, state.theta, state.step)
    there = (state.step < stage.optimizer.steps).view(held, count)
    mistakes = evaluation.fooled.view(held, count) & there
    last = there.sum(1).clamp_min(1) - 1
    first = torch.where(mistakes.any(1), mistakes.byte().argmax(1), last)
    beyond = (number > first[:, None]).flatten()
    record_margins(setting, stage, replace(every, state=state, ended=every.ended | beyond), evaluation)
    ledger.forward[lanes.rows] += (passes.forward // len(every.rows)) * (first + 1)
    chosen = torch.arange(held, device=number.device) * count + first
    return replace(lanes, state=take(state, chosen)), take(evaluation, chosen)
