"""Where runs at a strength end. The loop keeps no iterates; one run of a few samples is made again."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search.plan import Leg, Plan, Stage
from robustatlas.common.bundle import select
from robustatlas.common.noise import Noise
from robustatlas.engine.lanes import enter, moved
from robustatlas.engine.numerics import NUMERICS
from robustatlas.engine.setting import prepare, set_up
from robustatlas.models.classifier import Classifier
from robustatlas.models.objectives import margin_of


@dataclass(frozen=True)
class Ends:
    """Where the runs of B samples ended.

    ``last`` [B, ...]: inputs at the last step; ``best`` [B, ...]: those of the lowest margin within the strength;
    ``fooled`` [B]: some input within it was misclassified.
    """

    last: Tensor
    best: Tensor
    fooled: Tensor


def ending_stage(plan: Plan) -> Stage | None:
    """How the run goes whose end is looked at: as the first of ``plan`` that ascends by gradients, or else as the first
    by gradients. It has a start of its own and leads away from the true class. None: no run takes a gradient."""
    by_gradients = [leg for leg in plan.legs if leg.stage.optimizer.needs_gradient]
    if not by_gradients:
        return None
    stage = next((leg for leg in by_gradients if leg.role == "ascend"), by_gradients[0]).stage
    return replace(stage, targets=None, start="neutral" if stage.start == "neutral" else "random", kick=0.0)


def ends_of(
    model: Classifier, attack: Attack, stage: Stage, x: Tensor, labels: Tensor, noise: Noise, level: Tensor
) -> Ends:
    """Where a run of ``stage`` (see :func:`ending_stage`) ends that begins at each of ``x`` [B, ...], on the device and
    in the dtype of the model, with the ``labels`` [B]; ``level`` int64 [B]: of the strength of each."""
    attack = replace(attack, plans={"every": Plan((Leg(stage),))})
    setting = set_up(model, attack, "every", x, labels, noise, len(x))
    prepare(setting)
    setting.schedule.level = level.to(x.device)
    lanes = enter(setting, stage, torch.arange(len(x), device=x.device))
    problem, best, fooled = lanes.problem, lanes.state.theta, lanes.ended
    lowest = torch.full_like(problem.epsilon, torch.inf)
    for _ in range(stage.optimizer.evaluations):
        theta, ended = lanes.state.theta, lanes.ended
        evaluation, state = moved(setting, stage, lanes)
        within = evaluation.size <= problem.epsilon * (1 + NUMERICS.tolerance)
        margin = margin_of(evaluation.logits, labels)
        better = within & (margin < lowest)
        best, lowest = select(better, theta, best), torch.where(better, margin, lowest)
        fooled = fooled | (evaluation.fooled & within)
        ended = ended | stage.optimizer.finished(state)
        lanes = replace(lanes, state=select(ended, lanes.state, state), ended=ended)
    last, best = (problem.threat.apply(x, point).detach() for point in (theta, best))
    return Ends(last, best, fooled)
