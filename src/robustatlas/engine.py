"""The loop of every attack: evaluate a batch, record what was found, let settled samples go, verify.

Samples are attacked in *lanes*. All lanes of a batch run the same stage, each at its own strength, target and step; a
lane whose run ends is verified, its sample's schedule says what comes next, and the lane is given to the next run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack, Stage
from robustatlas.bundle import (
    Bundle,
    Tree,
    copy,
    dot,
    gradient,
    join,
    largest,
    over,
    per_sample,
    put,
    select,
    take,
    watched,
    where,
)
from robustatlas.classifier import Classifier
from robustatlas.classifier.backward import going_back
from robustatlas.errors import UserError
from robustatlas.noise import Noise
from robustatlas.objectives import OBJECTIVES, margin_of
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.search import Schedule

NUMERICS = 3
"""Version of what determines numbers and stands in no setting: rises when the same settings give other numbers."""

_ROUNDING = 16 * torch.finfo(torch.float64).eps
"""Gradients smaller than this share of a sample's largest are zero. Float32 has no such floor: entries near its
rounding still point somewhere, and sign steps along them decide on networks with masked gradients."""

_TARGET, _DRAWS = -2, -3
"""Streams of a sample that all of its runs share: for its random target, and for what a set chooses among draws."""

_CLEAN, _SEARCH, _JUDGED = -4, -5, -6
"""Streams of what a randomised model draws: for clean inputs, in the steps of a run, and to judge what it found."""

_NEAREST = 9
"""How many classes are ordered by their distance; as many as AutoAttack targets."""

_GAIN = 1e-6
"""An example must be smaller than the last by this share: one that differs by rounding is the same."""


@dataclass
class Ledger:
    """What is known of N samples under one attack.

    ``best_size`` [N]: smallest verified example (inf: none), ``best_theta`` its parameter
    (none: the neutral one), ``possible_size`` [N]: smallest that is not certainly none (of randomised models),
    ``found_class`` its prediction (-1: none), ``mistakes`` of ``drawn`` [N] the forward passes that judged it, or the
    clean input where that is misclassified; ``ranking`` [N, C]: wrong classes by their logits, largest first, and
    ``nearest`` [N, C] by their linearised distance (the ranking until an attack asks for it); ``margins`` [N, S]:
    lowest softmax margin seen with a size within each strength; ``fooled`` int8 [N, S]: how runs at that very strength
    ended (1 fooled, 0 survived, -1 none); ``forward`` and ``backward`` [N]: passes; ``rejected`` [N]: candidates
    verification refused; ``lowest_theta`` [N * (S + 1)]: the parameters of ``margins``, where a search shares them;
    ``finite`` []: whether all logits so far were, in whichever pass (looked at where the loop waits for the device
    anyway, by :func:`check_finite`).
    """

    x: Tensor
    labels: Tensor
    strengths: Tensor
    noise: Noise
    clean_prediction: Tensor
    clean_margin: Tensor
    ranking: Tensor
    nearest: Tensor
    best_size: Tensor
    best_theta: Tree
    possible_size: Tensor
    found_class: Tensor
    mistakes: Tensor
    drawn: Tensor
    margins: Tensor
    lowest_theta: Tree | None
    fooled: Tensor
    forward: Tensor
    backward: Tensor
    rejected: Tensor
    finite: Tensor


@dataclass(frozen=True)
class Lanes(Bundle):
    """A batch at work.

    ``rows`` [B] into the ledger; ``level`` [B] of their strength; ``bounding`` [B]: looks for the smallest size, so
    success does not end the run; ``state``: the optimizer's, none once the run has ended; ``candidate``: the smallest
    example of this run, smaller than what was known; its ``candidate_size`` [B].
    """

    rows: Tensor
    level: Tensor
    bounding: Tensor
    problem: Problem
    state: Any
    candidate: Tree
    candidate_size: Tensor


def open_ledger(
    model: Classifier, attack: Attack, x: Tensor, labels: Tensor, noise: Noise, strengths: Tensor, lanes: int
) -> Ledger:
    """The ledger after one clean pass."""
    with torch.no_grad():
        rows = torch.split(torch.arange(len(x), device=x.device), lanes)
        judged = [model.judged(x[part], labels[part], noise.take(part).child(_CLEAN)) for part in rows]
        logits = torch.cat([verdict.logits for verdict in judged])
        wrong, possible, mistakes, drawn = (
            torch.cat([getattr(verdict, name) for verdict in judged])
            for name in ("wrong", "possible", "mistakes", "drawn")
        )
    n, s = len(x), len(strengths)
    clean_margin = margin_of(logits.softmax(1), labels)
    ranking = logits.scatter(1, labels[:, None], -torch.inf).argsort(dim=1, descending=True, stable=True)
    return Ledger(
        x=x,
        labels=labels,
        strengths=strengths,
        noise=noise,
        clean_prediction=torch.cat([verdict.prediction for verdict in judged]),
        clean_margin=clean_margin,
        ranking=ranking,
        nearest=ranking,
        best_size=torch.full((n,), torch.inf, dtype=x.dtype, device=x.device),
        best_theta=copy(attack.threat.neutral(x)),
        possible_size=torch.where(possible, 0.0, torch.inf).to(x.dtype),
        found_class=torch.full((n,), -1, device=x.device),
        mistakes=mistakes * wrong,
        drawn=drawn * wrong,
        margins=torch.full((n, s + 1), torch.inf, dtype=x.dtype, device=x.device),
        lowest_theta=None,
        fooled=torch.full((n, s), -1, dtype=torch.int8, device=x.device),
        forward=drawn.clone(),
        backward=torch.zeros(n, dtype=torch.int64, device=x.device),
        rejected=torch.zeros(n, dtype=torch.int64, device=x.device),
        finite=logits.isfinite().all(),
    )


def check_finite(attack: Attack, finite: bool) -> None:
    """Raise :class:`UserError` unless all logits were finite: of others no class can be told."""
    if not finite:
        raise UserError(
            f"The model returned NaN or infinite logits during the attack {attack.name!r}, at inputs inside [0, 1]. "
            "Look for divisions or logarithms in the model that overflow, or run it in float32."
        )


def evaluate(model: Classifier, problem: Problem, stage: Stage, theta: Tree, step: Tensor | None = None) -> Evaluation:
    """One forward, and where the optimizer wants it one backward pass, at ``theta``; of a randomised model as many as
    it has draws, which belong to the ``step`` [B] of the run."""
    noise = problem.noise.child(_SEARCH).child(0 if step is None else step)
    uphill = stage.optimizer.needs_gradient
    leaf = watched(theta) if uphill else theta
    with torch.set_grad_enabled(uphill), going_back(stage.backward):
        logits, doubt = model.searched(problem.threat.apply(problem.x, leaf), problem.labels, noise)
        targets = problem.targets if stage.targets else None
        value = OBJECTIVES[stage.objective](logits, problem.labels, targets)
    slope = _sound(gradient(value, leaf)) if uphill else over(torch.zeros_like, theta)
    logits = logits.detach().to(problem.x.dtype)
    fooled = logits.argmax(1) != problem.labels
    if model.rounding:
        fooled &= margin_of(logits, problem.labels) < -model.rounding * logits.abs().amax(1)
    if doubt is not None:
        fooled &= margin_of(logits, problem.labels) < -doubt
    return Evaluation(logits, value.detach(), slope, fooled, problem.threat.size(problem.x, theta))


def _sound(slope: Tree) -> Tree:
    """``slope`` without what rounding left of zeros: its sign would be a direction, and depend on the batch."""
    floor = _ROUNDING * largest(slope)
    return over(lambda leaf: leaf.masked_fill(leaf.abs() <= per_sample(floor, leaf), 0), slope)


def run(
    model: Classifier,
    attack: Attack,
    ledger: Ledger,
    schedule: Schedule,
    lanes: int,
    report: Callable[[int], None] = lambda settled: None,
) -> Ledger:
    """Carry out a schedule; ``lanes`` samples at most are at work at once. Results do not depend on ``lanes``.

    ``report`` is called with the number of samples that are through, whenever it changes.
    """
    if any(stage.order == "distance" for stage in schedule.stages):
        todo = (~schedule.done).nonzero().squeeze(1)
        for rows in torch.split(todo, lanes) if len(todo) else ():
            ledger.nearest = ledger.nearest.index_copy(0, rows, _by_distance(model, attack, ledger, rows))
    if attack.threat.chooses:
        todo = (~schedule.done).nonzero().squeeze(1)
        for rows in torch.split(todo, lanes) if len(todo) else ():
            put(ledger.best_theta, rows, _chosen(model, attack, ledger, rows))
    if schedule.shares:
        rows = torch.arange(len(ledger.x), device=ledger.x.device)
        ledger.lowest_theta = take(ledger.best_theta, rows.repeat_interleave(ledger.margins.shape[1]))
    while True:
        waiting = (~schedule.done).nonzero().squeeze(1)
        if not len(waiting):
            check_finite(attack, bool(ledger.finite))
            return ledger
        stage_of = schedule.stage_of[schedule.attempt[waiting]]
        busiest = int(stage_of.bincount().argmax())
        _run_stage(model, attack, ledger, schedule, busiest, waiting[stage_of == busiest], lanes, report)


def _run_stage(
    model: Classifier,
    attack: Attack,
    ledger: Ledger,
    schedule: Schedule,
    number: int,
    queue: Tensor,
    capacity: int,
    report: Callable[[int], None],
) -> None:
    """Run the samples of ``queue``, all at an attempt of stage ``number``, until each is done or wants another
    stage."""
    stage = schedule.stages[number]
    lanes = _enter(model, attack, ledger, schedule, stage, queue[:capacity])
    queue = queue[capacity:]
    while len(lanes.rows):
        with _counted(model, ledger, lanes.rows):
            evaluation = evaluate(model, lanes.problem, stage, lanes.state.theta, lanes.state.step)
            moved = stage.optimizer.step(lanes.problem, lanes.state, evaluation)
        _record(model, ledger, lanes, evaluation)
        finished = stage.optimizer.finished(moved)
        if stage.judge == "last":
            better = evaluation.fooled & finished
            ended = finished
        else:
            better = evaluation.fooled & (evaluation.size < lanes.candidate_size * (1 - _GAIN))
            ended = finished | (
                better & ~lanes.bounding & (evaluation.size <= lanes.problem.epsilon * (1 + STRENGTH_TOLERANCE))
            )
        finite = ledger.finite & evaluation.logits.isfinite().all()
        any_better, any_ended, all_finite = torch.stack([better.any(), ended.any(), finite]).tolist()
        check_finite(attack, all_finite)
        candidate, size = lanes.candidate, lanes.candidate_size
        if any_better:
            candidate = select(better, lanes.state.theta, candidate)
            size = torch.where(better, evaluation.size, size)
        lanes = Lanes(lanes.rows, lanes.level, lanes.bounding, lanes.problem, moved, candidate, size)
        del evaluation, moved, candidate
        if any_ended:
            over = where(replace(lanes, state=None), ended)
            fooled = _verify(model, attack, ledger, over, last=stage.judge == "last")
            schedule.advance(over.rows, fooled, ledger.best_size[over.rows])
            report(int(schedule.done.sum()))
            again = over.rows[~schedule.done[over.rows] & (schedule.stage_of[schedule.attempt[over.rows]] == number)]
            del over
            lanes = where(lanes, ~ended)
            free = capacity - len(lanes.rows) - len(again)
            again, queue = torch.cat([again, queue[:free]]), queue[free:]
            if len(again):
                lanes = join(lanes, _enter(model, attack, ledger, schedule, stage, again))


def _enter(model: Classifier, attack: Attack, ledger: Ledger, schedule: Schedule, stage: Stage, rows: Tensor) -> Lanes:
    """Lanes at the beginning of the run that the schedule names for each of ``rows``."""
    x, level, attempt = ledger.x[rows], schedule.level[rows], schedule.attempt[rows]
    numbers, bounding = schedule.number_of[attempt], schedule.bounds[attempt]
    epsilon = ledger.strengths[level]
    if attack.unbounded:
        epsilon = torch.where(bounding, torch.inf, epsilon)
    noise = ledger.noise.take(rows).child(attempt * len(ledger.strengths) + level)
    problem = Problem(attack.threat, x, ledger.labels[rows], _targets(ledger, stage, rows, numbers), epsilon, noise)
    with _counted(model, ledger, rows):
        theta = _start(ledger, stage, problem, rows, schedule.warm[rows], schedule.source(rows))
        state = stage.optimizer.init(problem, theta)
    known = ledger.best_size[rows] if stage.judge == "best" else torch.full_like(epsilon, torch.inf)
    return Lanes(rows, level, bounding, problem, state, take(ledger.best_theta, rows), known)


def _by_distance(model: Classifier, attack: Attack, ledger: Ledger, rows: Tensor) -> Tensor:
    """``[B, C]``: the wrong classes by the linearised distance to their boundary (DeepFool's choice of class), among
    the nine with the largest logits; the others follow by their logits."""
    ranking = ledger.ranking[rows]
    count = min(_NEAREST, ranking.shape[1] - 1)
    x, labels = ledger.x[rows], ledger.labels[rows]
    theta = watched(attack.threat.neutral(x))
    distances = []
    with _counted(model, ledger, rows):
        noise = ledger.noise.take(rows).child(_CLEAN).child(0)
        logits = model.logits(attack.threat.apply(x, theta), labels=labels, noise=noise)
        ledger.finite &= logits.detach().isfinite().all()
        for k in range(count):
            gap = (logits.gather(1, labels[:, None]) - logits.gather(1, ranking[:, k, None])).squeeze(1)
            uphill = gradient(gap, theta, retain_graph=k < count - 1)
            slope = dot(uphill, attack.threat.steepest(x, uphill))
            distances.append(gap.detach() / slope.clamp_min(1e-12))
    order = torch.stack(distances, 1).argsort(dim=1, stable=True)
    return torch.cat([ranking[:, :count].gather(1, order), ranking[:, count:]], 1)


def _chosen(model: Classifier, attack: Attack, ledger: Ledger, rows: Tensor) -> Tree:
    """The neutral theta with the draws that the gradient of the margin at the clean input promises the most of."""
    x, labels = watched(ledger.x[rows]), ledger.labels[rows]
    with _counted(model, ledger, rows):
        noise = ledger.noise.take(rows).child(_CLEAN).child(1)
        logits = model.logits(x, labels=labels, noise=noise)
        slope = gradient(OBJECTIVES["margin"](logits, labels, None), x)
    ledger.finite &= logits.detach().isfinite().all()
    return attack.threat.choose(ledger.x[rows], slope, ledger.noise.take(rows).child(_DRAWS))


def _targets(ledger: Ledger, stage: Stage, rows: Tensor, numbers: Tensor) -> Tensor:
    if stage.targets == "random":
        classes = ledger.ranking.shape[1]
        return (ledger.labels[rows] + 1 + ledger.noise.take(rows).child(_TARGET).integers(classes - 1)) % classes
    if not stage.targets:
        return torch.full_like(rows, -1)
    ranking = ledger.nearest if stage.order == "distance" else ledger.ranking
    return ranking[rows].gather(1, numbers[:, None]).squeeze(1)


def _start(ledger: Ledger, stage: Stage, problem: Problem, rows: Tensor, warm: Tensor, source: Tensor) -> Tree:
    threat, x = problem.threat, problem.x
    if stage.start == "neutral":
        return threat.neutral(x)
    minimum = stage.optimizer.minimum_size
    radius = torch.zeros_like(problem.epsilon) if minimum else problem.epsilon * stage.optimizer.start_radius
    theta = threat.start(x, radius, problem.noise)
    if threat.chooses:
        theta = over(lambda _, started: started, take(ledger.best_theta, rows), theta)
    if stage.start == "best" and ledger.lowest_theta is not None:
        theta = threat.project(x, _lowest(ledger, ledger.lowest_theta, rows, source), problem.epsilon)
    elif stage.start == "best" and minimum:
        theta = select(ledger.best_size[rows].isfinite(), take(ledger.best_theta, rows), theta)
    elif stage.start == "best":
        warm = warm & ledger.best_size[rows].isfinite()
        theta = select(warm, threat.project(x, take(ledger.best_theta, rows), problem.epsilon), theta)
    return theta


def _lowest(ledger: Ledger, lowest: Tree, rows: Tensor, source: Tensor) -> Tree:
    """The thetas of the lowest margins within the strengths of index ``source`` [B]."""
    margins = ledger.margins[rows]
    beyond = torch.arange(margins.shape[1], device=rows.device) > source[:, None]
    column = margins.masked_fill(beyond, torch.inf).argmin(1)
    return take(lowest, rows * margins.shape[1] + column)


@contextmanager
def _counted(model: Classifier, ledger: Ledger, rows: Tensor) -> Iterator[None]:
    """Charge the passes made inside to ``rows``, in equal parts.

    Whatever runs the network is counted by the classifier; a batch that some of its rows use less (the projections of
    perceptual attacks) is shared, the remainder going to the first rows, so that no pass is lost.
    """
    with model.counting() as passes:
        yield
    for column, count in ((ledger.forward, passes.forward), (ledger.backward, passes.backward)):
        share, rest = divmod(count, max(len(rows), 1))
        column[rows] += share
        column[rows[:rest]] += 1


def _record(model: Classifier, ledger: Ledger, lanes: Lanes, evaluation: Evaluation) -> None:
    """Enter the margins of an evaluation; of a search in reduced precision those that look lowest are computed again
    in full, so that every margin on record is one."""
    margin = margin_of(evaluation.logits.softmax(1), lanes.problem.labels)
    column = torch.searchsorted(ledger.strengths * (1 + STRENGTH_TOLERANCE), evaluation.size)
    place = lanes.rows * ledger.margins.shape[1] + column
    known = ledger.margins.view(-1)
    if model.rounding:
        lower = (margin < known[place]).nonzero().squeeze(1)
        if not len(lower):
            return
        low, place = take(lanes, lower), place[lower]
        with torch.no_grad(), _counted(model, ledger, low.rows):
            x_adv = low.problem.threat.apply(low.problem.x, low.state.theta)
            logits = model.logits(x_adv, labels=low.problem.labels, verifying=True)
        ledger.finite &= logits.isfinite().all()
        margin = margin_of(logits.to(margin.dtype).softmax(1), low.problem.labels)
        lanes = low
    if ledger.lowest_theta is not None:
        lower = (margin < known[place]).nonzero().squeeze(1)
        put(ledger.lowest_theta, place[lower], take(lanes.state.theta, lower))
    known.scatter_reduce_(0, place, margin, "amin")


def _verify(model: Classifier, attack: Attack, ledger: Ledger, over: Lanes, *, last: bool) -> Tensor:
    """Check the candidates of ended runs with a separate forward pass and enter them. ``[B]``: the sample is fooled
    at the run's strength.

    ``last``: judged by the last iterate of the run alone, whatever its size (historical procedures).
    """
    known = torch.full_like(over.candidate_size, torch.inf) if last else ledger.best_size[over.rows]
    fresh = over.candidate_size < known
    fooled = torch.zeros_like(over.bounding)
    new = where(over, fresh)
    if len(new.rows):
        x_adv = attack.threat.apply(new.problem.x, new.candidate)
        with torch.no_grad(), _counted(model, ledger, new.rows):
            verdict = model.judged(x_adv, new.problem.labels, new.problem.noise.child(_JUDGED))
        ledger.finite &= verdict.logits.isfinite().all()
        inside = ((x_adv >= 0) & (x_adv <= 1)).flatten(1).all(1)
        good, prediction = verdict.wrong & inside, verdict.prediction
        doubtful = torch.where(verdict.possible & inside, new.candidate_size, torch.inf)
        ledger.possible_size[new.rows] = torch.minimum(ledger.possible_size[new.rows], doubtful)
        fooled[fresh] = good
        ledger.rejected[new.rows] += (~good).long()
        smaller = good & (new.candidate_size < ledger.best_size[new.rows])
        rows = new.rows[smaller]
        ledger.best_size[rows] = new.candidate_size[smaller]
        put(ledger.best_theta, rows, take(new.candidate, smaller.nonzero().squeeze(1)))
        ledger.found_class[rows] = prediction[smaller]
        ledger.mistakes[rows], ledger.drawn[rows] = verdict.mistakes[smaller], verdict.drawn[smaller]
    if not last:
        fooled = ledger.best_size[over.rows] <= over.problem.epsilon * (1 + STRENGTH_TOLERANCE)
    judged = (~over.bounding).nonzero().squeeze(1)
    rows, level = over.rows[judged], over.level[judged]
    ledger.fooled[rows, level] = torch.maximum(ledger.fooled[rows, level], fooled[judged].to(torch.int8))
    return fooled
