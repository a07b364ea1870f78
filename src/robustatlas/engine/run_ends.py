"""Ends of runs at a strength. The loop keeps no iterates; one run of a few samples is made again."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.attacks.search.plan import AttackRun, Plan, Start
from robustatlas.common.bundle import select
from robustatlas.common.noise import Noise
from robustatlas.engine.batch import evaluate_batch, fill_slots
from robustatlas.engine.execution import Setting, begin, prepare
from robustatlas.engine.numerics import NUMERICS
from robustatlas.models.classifier import Classifier
from robustatlas.models.objectives import margin_of


@dataclass(frozen=True)
class Ends:
    """Ends of the runs of B samples.

    ``last`` [B, ...]: inputs at the last step; ``best`` [B, ...]: those of the lowest margin within the strength;
    ``fooled`` [B]: some input within it was misclassified.
    """

    last: Tensor
    best: Tensor
    fooled: Tensor


def observed_run(plan: Plan) -> AttackRun | None:
    """Return the run whose end is looked at: the first ascent of ``plan`` by gradients, or else its first run by them.

    It has a start of its own and leads away from the true class. None: no run takes a gradient.
    """
    by_gradients = [run for run in plan.runs if run.optimizer.needs_gradient]
    if not by_gradients:
        return None
    first = next((run for run in by_gradients if run.role == "ascend"), by_gradients[0]).settings
    start: Start = "neutral" if first.start == "neutral" else "random"
    return replace(first, role="ascend", targets=None, start=start, kick=0.0)


def run_ends(
    model: Classifier, attack: Attack, run: AttackRun, x: Tensor, labels: Tensor, noise: Noise, level: Tensor
) -> Ends:
    """Make ``run`` (see :func:`observed_run`) from each of ``x`` [B, ...] and return where it ends.

    ``x`` and ``labels`` [B] are on the device and in the dtype of the model; ``level`` int64 [B]: of the strength of
    each.
    """
    alone = replace(attack, runs=(run,), rules=(), search_order=("every",), effort="default")
    execution = begin(Setting(model, alone, "every", x, labels, noise, len(x)))
    prepare(execution)
    execution.schedule.level = level.to(x.device)
    batch = fill_slots(execution, run, torch.arange(len(x), device=x.device))
    problem, best, fooled = batch.problem, batch.state.theta, batch.ended
    lowest = torch.full_like(problem.epsilon, torch.inf)
    for _ in range(run.optimizer.evaluations):
        theta, ended = batch.state.theta, batch.ended
        evaluation, state = evaluate_batch(execution, run, batch)
        within = evaluation.size <= problem.epsilon * (1 + NUMERICS.tolerance)
        margin = margin_of(evaluation.logits, labels)
        better = within & (margin < lowest)
        best, lowest = select(better, theta, best), torch.where(better, margin, lowest)
        fooled = fooled | (evaluation.fooled & within)
        ended = ended | run.optimizer.finished(state)
        batch = replace(batch, state=select(ended, batch.state, state), ended=ended)
    last, best = (problem.threat.apply(x, point).detach() for point in (theta, best))
    return Ends(last, best, fooled)
