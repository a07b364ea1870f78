"""A batch of slots: runs of one kind, each at its own strength, target and step, and one step of all of them.

A step is three calls: :func:`compute_objective`, :func:`gradients` and :func:`judge_points`.
"""

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
from robustatlas.engine.execution import Execution
from robustatlas.engine.judging import judge_candidates, size_to_beat
from robustatlas.engine.numerics import NUMERICS, SEARCH, SWEPT
from robustatlas.engine.records import charge_passes
from robustatlas.engine.starts import choose_draws, starting_points
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import going_back
from robustatlas.models.classifier.precision import products_in
from robustatlas.models.objectives import OBJECTIVES, margin_of
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.optimizers.sweeping import is_clear
from robustatlas.threats.levels import shown


@dataclass(frozen=True)
class Example(Bundle):
    """A point ``theta`` of each run, and its ``size`` [B] (inf: none)."""

    theta: Tree
    size: Tensor


@dataclass(frozen=True)
class Batch(Bundle):
    """Runs of one kind, one in each slot.

    ``rows`` [B] into the records. ``level`` [B] of their strength (-1: none of the grid). ``bounding`` [B]: looks for
    the smallest size, so success does not end the run. ``state``: the optimizer's, none once the run has ended.
    ``candidate``: the smallest example of this run that is smaller than what was known, of ``candidate_size`` [B].
    ``known`` [B]: the sample's smallest size when the run began. ``trace``: what the run has come to. ``ended`` [B]:
    the run has. ``before`` int64 [B]: evaluations before its first, to choose among draws. ``clear``: the smallest
    clear mistake of a sweep, which counts where verification refuses the candidate (None: no sweep).
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
    clear: Example | None


def select_rows(tree: Tree, mask: Tensor, count: int) -> Tree:
    """Return the ``count`` rows where ``mask`` [B] holds; the tree itself, and no copy, if it holds everywhere."""
    return tree if count == len(mask) else take(tree, indices(mask, count))


def fill_slots(execution: Execution, run: AttackRun, rows: Tensor) -> Batch:
    """Return a batch at the beginning of the run that the schedule names for each sample of ``rows``."""
    records, schedule, threat = execution.records, execution.schedule, execution.attack.threat
    x, level, attempt = records.x[rows], schedule.level[rows], schedule.attempt[rows]
    numbers, bounding = schedule.number_of[attempt], schedule.bounds[attempt]
    epsilon = schedule.epsilon(rows, records.best_size[rows])
    if execution.attack.unbounded:
        epsilon = torch.where(bounding, torch.inf, epsilon)
    noise = _noise(schedule, run, records.noise.take(rows), attempt, level)
    targets = execution.targets.classes(records, run, rows, numbers)
    with charge_passes(execution.model, records, rows):
        problem = Problem(
            threat, x, records.labels[rows], targets, epsilon, noise, threat.reference(x), execution.attack.eight_bit
        )
        theta, anew = starting_points(records, schedule, run, problem, rows)
    before = torch.zeros_like(rows)
    if threat.chooses and run.optimizer.needs_gradient and anew is not None:
        theta, before = choose_draws(execution.model, records, run, problem, rows, theta, anew), anew.long()
    with charge_passes(execution.model, records, rows):
        state = run.optimizer.init(problem, theta)
    return Batch(
        rows=rows,
        level=level if schedule.on_grid else torch.full_like(level, -1),
        bounding=bounding,
        problem=problem,
        state=state,
        candidate=take(records.best_theta, rows),
        candidate_size=size_to_beat(records, schedule, run, rows),
        known=records.best_size[rows],
        trace=Trace.begin(epsilon),
        ended=torch.zeros_like(bounding),
        before=before,
        clear=Example(take(records.best_theta, rows), torch.full_like(epsilon, torch.inf))
        if run.optimizer.sweeps
        else None,
    )


def _noise(schedule: Schedule, run: AttackRun, noise: Noise, attempt: Tensor, level: Tensor) -> Noise:
    """Return the streams of random numbers of runs.

    In a sweep, and if each strength is judged by itself, they do not depend on which other strengths there are.
    """
    if run.optimizer.foresees:
        return noise.child(SWEPT)
    if schedule.monotone:
        return noise.child(attempt * schedule.levels + level)
    return noise.child(schedule.strengths[level].float().view(torch.int32).long()).child(attempt)


@dataclass(frozen=True)
class ForwardPass:
    """Result of one forward pass of the points ``theta`` has given, with the graph that leads back to them.

    ``leaf``: theta, as gradients are taken of it. ``logits`` [B, C], ``objective`` [B], ``size`` [B]. ``doubt`` [B]: of
    a randomised model, how far below zero a margin must be to count (None: of others).
    """

    leaf: Tree
    logits: Tensor
    objective: Tensor
    size: Tensor
    doubt: Tensor | None


def evaluate(
    model: Classifier, problem: Problem, run: AttackRun, theta: Tree, step: Tensor | None = None
) -> Evaluation:
    """Make one forward pass at ``theta``, and one backward pass if the optimizer needs a gradient.

    A randomised model makes as many as it has draws, which belong to the ``step`` [B] of the run.
    """
    passed = compute_objective(model, problem, run, theta, step)
    slope, size_slope = gradients(model, run, passed)
    logits = passed.logits.detach().to(problem.x.dtype)
    fooled = judge_points(model, problem, logits, passed.doubt)
    return Evaluation(logits, passed.objective.detach(), slope, fooled, passed.size.detach(), size_slope)


def compute_objective(
    model: Classifier, problem: Problem, run: AttackRun, theta: Tree, step: Tensor | None
) -> ForwardPass:
    """Make the forward pass and measure objective and size."""
    noise = _draws(model, problem, step)
    leaf = watched(theta) if run.optimizer.needs_gradient else theta
    measuring = problem.threat.measuring(model, problem.reference)
    with torch.set_grad_enabled(run.optimizer.needs_gradient), going_back(run.backward), measuring as measured:
        changed = shown(problem.threat, problem.x, leaf, problem.eight_bit)
        logits, doubt = _fast_memory_order(model, run).searched(changed, problem.labels, noise)
        value = OBJECTIVES[run.objective](logits, problem.labels, problem.targets if run.targets else None)
        size = measured(problem.x, _measured_point(problem, run, theta, leaf, changed))
    return ForwardPass(leaf, logits, value, size, doubt)


def gradients(model: Classifier, run: AttackRun, passed: ForwardPass) -> tuple[Tree, Tree]:
    """Return the gradients of the objective and of the size; the latter is None for optimizers that need none."""
    needs_size_gradient = run.optimizer.needs_size_gradient
    if not run.optimizer.needs_gradient:
        return over(torch.zeros_like, passed.leaf), None
    with products_in(model.precision):
        slope = _remove_rounding(gradient(passed.objective, passed.leaf, retain_graph=needs_size_gradient))
    return slope, gradient(passed.size, passed.leaf) if needs_size_gradient else None


def judge_points(model: Classifier, problem: Problem, logits: Tensor, doubt: Tensor | None) -> Tensor:
    """``[B]``: the points are misclassified, beyond the rounding and the doubt of the model."""
    fooled = logits.argmax(1) != problem.labels
    if model.rounding:  # reduced precision: margins within its rounding are no mistakes yet
        fooled &= margin_of(logits, problem.labels) < -model.rounding * logits.abs().amax(1)
    if doubt is not None:  # randomised models: a margin within the spread of its draws is no mistake yet
        fooled &= margin_of(logits, problem.labels) < -doubt
    return fooled


def _draws(model: Classifier, problem: Problem, step: Tensor | None) -> Noise:
    """Return the streams of a randomised model in a step; other models draw nothing."""
    if model.draws is None:
        return problem.noise
    return problem.noise.child(SEARCH).child(0 if step is None else step)


def _fast_memory_order(model: Classifier, run: AttackRun) -> Classifier:
    """Return the model with the memory order of images that is faster.

    Channels last for runs whose points are known ahead: their batches are large, and they take no gradient.
    """
    return model.channels_last() if run.optimizer.foresees else model


def _measured_point(problem: Problem, run: AttackRun, theta: Tree, leaf: Tree, changed: Tensor) -> Tree:
    """Return the point whose size counts.

    Inputs rounded to 8 bits are measured as rounded. A gradient of the size is one of the point itself.
    """
    if run.optimizer.needs_size_gradient:
        return leaf
    if problem.eight_bit and problem.threat.additive:
        return changed.detach() - problem.x
    return theta


def _remove_rounding(slope: Tree) -> Tree:
    """Return ``slope`` with zeros where rounding left less: its sign would be a direction that depends on the batch."""
    floor = NUMERICS.rounding * largest(slope)
    return over(lambda leaf: torch.where(leaf.abs() <= per_sample(floor, leaf), 0, leaf), slope)


def evaluate_batch(execution: Execution, run: AttackRun, batch: Batch) -> tuple[Evaluation, Any]:
    """Return the evaluation of all runs of the batch, and the states that their optimizer makes of it."""
    with charge_passes(execution.model, execution.records, batch.rows):
        evaluation = evaluate(execution.model, batch.problem, run, batch.state.theta, batch.state.step)
        return evaluation, run.optimizer.step(batch.problem, batch.state, evaluation)


def end_runs(
    batch: Batch, run: AttackRun, schedule: Schedule, evaluation: Evaluation, state: Any, passes: Tensor
) -> Batch:
    """Return the batch one step further, at ``state``; runs at their last step, or that a rule of the plan stops, end.

    ``passes`` [N]: forward passes of each sample so far.
    """
    finished, step = run.optimizer.finished(state), batch.state.step
    smallest, epsilon, clear = batch.candidate_size, batch.problem.epsilon, batch.clear
    goes_on = batch.bounding if clear is None else batch.bounding | ~is_clear(evaluation, batch.problem)
    better, ended = judge_candidates(evaluation, schedule, run, smallest, epsilon, goes_on, finished)
    trace = batch.trace
    if schedule.early_stops or schedule.pass_limit:
        part = schedule.slow_ascents.part_length(run.optimizer.steps)
        trace = trace.updated(evaluation, batch.problem, step, part)
    for rule in schedule.early_stops:
        if rule.can_end(run.optimizer):
            ended = ended | rule.ends(trace, step, run.optimizer, batch.known)
    if schedule.query_limit is not None:
        ended = ended | schedule.query_limit.is_spent(passes[batch.rows])
    better, ended = better & ~batch.ended, ended | batch.ended
    candidate = select(better, batch.state.theta, batch.candidate)
    smallest = torch.where(better, evaluation.size, smallest)
    if clear is not None:
        counts = is_clear(evaluation, batch.problem) & (evaluation.size < clear.size) & ~batch.ended
        counts &= evaluation.size <= epsilon * (1 + NUMERICS.tolerance)
        clear = Example(
            select(counts, batch.state.theta, clear.theta), torch.where(counts, evaluation.size, clear.size)
        )
    if not looking_is_free(ended.device):
        state = select(ended | ~evaluation.logits.isfinite().all(1), batch.state, state)
    return replace(
        batch, state=state, candidate=candidate, candidate_size=smallest, trace=trace, ended=ended, clear=clear
    )
