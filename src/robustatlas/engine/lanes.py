"""Lanes: a batch of runs of one stage, each at its own strength, target and step."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from robustatlas.attacks.search import Schedule
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.attacks.search.rules import Trace
from robustatlas.common.bundle import Bundle, Tree, gradient, largest, over, per_sample, select, take, watched
from robustatlas.common.host import indices, looking_is_free
from robustatlas.common.noise import Noise
from robustatlas.engine.judging import judged, to_beat
from robustatlas.engine.ledger import charged
from robustatlas.engine.numerics import NUMERICS, SEARCH
from robustatlas.engine.setting import Setting
from robustatlas.engine.starts import begun, with_own_draws
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import going_back
from robustatlas.models.classifier.precision import products_in
from robustatlas.models.objectives import OBJECTIVES, margin_of
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.threats.levels import shown


@dataclass(frozen=True)
class Lanes(Bundle):
    """A batch at work, a run a lane.

    ``rows`` [B] into the ledger. ``level`` [B] of their strength (-1: none of the grid). ``bounding`` [B]: looks for
    the smallest size, so success does not end the run. ``state``: the optimizer's, none once the run has ended.
    ``candidate``: the smallest example of this run that is smaller than what was known, of ``candidate_size`` [B].
    ``known`` [B]: the sample's smallest size when the run began. ``trace``: what the run has come to. ``ended`` [B]:
    the run has. ``before`` int64 [B]: evaluations before its first, to choose among draws.
    """

    rows: Tensor
    level: Tensor
    bounding: Tensor
    problem: Problem
    state: Any
    candidate: Tree
    candidate_size: Tensor
    known: Tensor
    trace: Trace
    ended: Tensor
    before: Tensor


def those(tree: Tree, mask: Tensor, count: int) -> Tree:
    """The rows where ``mask`` [B] holds, ``count`` of them; the tree itself, and no copy, where it holds everywhere."""
    return tree if count == len(mask) else take(tree, indices(mask, count))


def enter(setting: Setting, stage: AttackRun, rows: Tensor) -> Lanes:
    """Lanes at the beginning of the run that the schedule names for each of ``rows``."""
    ledger, schedule, threat = setting.ledger, setting.schedule, setting.attack.threat
    x, level, attempt = ledger.x[rows], schedule.level[rows], schedule.attempt[rows]
    numbers, bounding = schedule.number_of[attempt], schedule.bounds[attempt]
    epsilon = schedule.epsilon(rows, ledger.best_size[rows])
    if setting.attack.unbounded:
        epsilon = torch.where(bounding, torch.inf, epsilon)
    noise = _noise(schedule, ledger.noise.take(rows), attempt, level)
    targets = setting.targets.of(ledger, stage, rows, numbers)
    with charged(setting.model, ledger, rows):
        problem = Problem(
            threat, x, ledger.labels[rows], targets, epsilon, noise, threat.reference(x), setting.attack.eight_bit
        )
        theta, anew = begun(ledger, schedule, stage, problem, rows)
    before = torch.zeros_like(rows)
    if threat.chooses and stage.optimizer.needs_gradient and anew is not None:
        theta, before = with_own_draws(setting.model, ledger, stage, problem, rows, theta, anew), anew.long()
    with charged(setting.model, ledger, rows):
        state = stage.optimizer.init(problem, theta)
    return Lanes(
        rows=rows,
        level=level if schedule.on_grid else torch.full_like(level, -1),
        bounding=bounding,
        problem=problem,
        state=state,
        candidate=take(ledger.best_theta, rows),
        candidate_size=to_beat(ledger, schedule, stage, rows),
        known=ledger.best_size[rows],
        trace=Trace.none(epsilon),
        ended=torch.zeros_like(bounding),
        before=before,
    )


def _noise(schedule: Schedule, noise: Noise, attempt: Tensor, level: Tensor) -> Noise:
    """The streams of runs; where each strength is judged by itself, they do not depend on which others there are."""
    if schedule.monotone:
        return noise.child(attempt * schedule.levels + level)
    return noise.child(schedule.strengths[level].float().view(torch.int32).long()).child(attempt)


def evaluate(
    model: Classifier, problem: Problem, stage: AttackRun, theta: Tree, step: Tensor | None = None
) -> Evaluation:
    """One forward, and where the optimizer wants it one backward pass, at ``theta``; of a randomised model as many as
    it has draws, which belong to the ``step`` [B] of the run."""
    noise = problem.noise if model.draws is None else problem.noise.child(SEARCH).child(0 if step is None else step)
    uphill, outward = stage.optimizer.needs_gradient, stage.optimizer.needs_size_gradient
    leaf = watched(theta) if uphill else theta
    measuring = problem.threat.measuring(model, problem.reference)
    with torch.set_grad_enabled(uphill), going_back(stage.backward), measuring as measured:
        changed = shown(problem.threat, problem.x, leaf, problem.eight_bit)
        asked = model.channels_last() if stage.optimizer.foresees else model
        logits, doubt = asked.searched(changed, problem.labels, noise)
        targets = problem.targets if stage.targets else None
        value = OBJECTIVES[stage.objective](logits, problem.labels, targets)
        rounded = problem.eight_bit and problem.threat.additive and not outward
        size = measured(problem.x, changed.detach() - problem.x if rounded else leaf if outward else theta)
    with products_in(model.precision):
        slope = _sound(gradient(value, leaf, retain_graph=outward)) if uphill else over(torch.zeros_like, theta)
    size_slope = gradient(size, leaf) if outward else None
    logits = logits.detach().to(problem.x.dtype)
    fooled = logits.argmax(1) != problem.labels
    if model.rounding:
        fooled &= margin_of(logits, problem.labels) < -model.rounding * logits.abs().amax(1)
    if doubt is not None:
        fooled &= margin_of(logits, problem.labels) < -doubt
    return Evaluation(logits, value.detach(), slope, fooled, size.detach(), size_slope)


def _sound(slope: Tree) -> Tree:
    """``slope`` without what rounding left of zeros: its sign would be a direction, and depend on the batch."""
    floor = NUMERICS.rounding * largest(slope)
    return over(lambda leaf: torch.where(leaf.abs() <= per_sample(floor, leaf), 0, leaf), slope)


def moved(setting: Setting, stage: AttackRun, lanes: Lanes) -> tuple[Evaluation, Any]:
    """What the model says of all lanes, and the states that their optimizer makes of it."""
    with charged(setting.model, setting.ledger, lanes.rows):
        evaluation = evaluate(setting.model, lanes.problem, stage, lanes.state.theta, lanes.state.step)
        return evaluation, stage.optimizer.step(lanes.problem, lanes.state, evaluation)


def further(
    lanes: Lanes, stage: AttackRun, schedule: Schedule, evaluation: Evaluation, state: Any, passes: Tensor
) -> Lanes:
    """All lanes one step further, at ``state``; runs that have come to their end, or that a rule of the plan stops,
    end. ``passes`` [N]: forward passes of each sample so far."""
    finished, step = stage.optimizer.finished(state), lanes.state.step
    smallest, epsilon = lanes.candidate_size, lanes.problem.epsilon
    better, ended = judged(evaluation, schedule, stage, smallest, epsilon, lanes.bounding, finished)
    trace = lanes.trace
    if schedule.stops or schedule.budget:
        trace = trace.after(evaluation, lanes.problem, step, schedule.slow.part(stage.optimizer.steps))
    for rule in schedule.stops:
        ended = ended | rule.ends(trace, step, stage.optimizer, lanes.known)
    if schedule.most is not None:
        ended = ended | schedule.most.spent(passes[lanes.rows])
    better, ended = better & ~lanes.ended, ended | lanes.ended
    candidate = select(better, lanes.state.theta, lanes.candidate)
    smallest = torch.where(better, evaluation.size, smallest)
    if not looking_is_free(ended.device):
        state = select(ended | ~evaluation.logits.isfinite().all(1), lanes.state, state)
    return replace(lanes, state=state, candidate=candidate, candidate_size=smallest, trace=trace, ended=ended)
