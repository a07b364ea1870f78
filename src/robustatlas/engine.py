"""The loop of every attack: evaluate a batch, record what was found, let settled samples go, verify.

Samples are attacked in *lanes*. All lanes of a batch run the same stage, each at its own strength, target and step; a
lane whose run ends is verified, its sample's schedule says what comes next, and the lane is given to the next run.

The host looks for ended runs every few steps (:mod:`robustatlas.host`). Until then an ended lane repeats its last step,
of which nothing is entered but the passes; so results do not depend on how often the host looks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
)
from robustatlas.classifier import Classifier
from robustatlas.classifier.backward import going_back
from robustatlas.host import indices, looking_is_free, stride, surely_none, told
from robustatlas.ledger import CLEAN, Ledger, charged, check_finite, known_size
from robustatlas.objectives import OBJECTIVES, margin_of
from robustatlas.optimizers.base import Evaluation, Problem
from robustatlas.outcomes.strengths import STRENGTH_TOLERANCE
from robustatlas.patience import Patience, Progress
from robustatlas.search import Schedule

NUMERICS = 6
"""Version of what determines numbers and stands in no setting: rises when the same settings give other numbers."""

_ROUNDING = 16 * torch.finfo(torch.float64).eps
"""Gradients smaller than this share of a sample's largest are zero. Float32 has no such floor: entries near its
rounding still point somewhere, and sign steps along them decide on networks with masked gradients."""

_TARGET, _DRAWS = -2, -3
"""Streams of a sample that all of its runs share: for its random target, and for what a set chooses among draws."""

_SEARCH, _JUDGED = -5, -6
"""Streams of what a randomised model draws: in the steps of a run, and to judge what it found."""

NEAREST = 9
"""How many classes are ordered by their distance; as many as AutoAttack targets."""

_EMPTY = 1 / 4
"""The share of lanes that may stand empty until the next look."""

_GAIN = 1e-6
"""An example must be smaller than the last by this share: one that differs by rounding is the same."""


@dataclass(frozen=True)
class Lanes(Bundle):
    """A batch at work.

    ``rows`` [B] into the ledger; ``level`` [B] of their strength (-1: none of the grid); ``bounding`` [B]: looks for
    the smallest size, so success does not end the run; ``state``: the optimizer's, none once the run has ended;
    ``candidate``: the smallest example of this run, smaller than what was known; its ``candidate_size`` [B];
    ``known`` [B]: the sample's smallest size when the run began; ``progress``: what the run has come to; ``nearest``:
    where its margin was lowest, if another run may go on from there; ``ended`` [B]: the run has.
    """

    rows: Tensor
    level: Tensor
    bounding: Tensor
    problem: Problem
    state: Any
    candidate: Tree
    candidate_size: Tensor
    known: Tensor
    progress: Progress
    nearest: Tree
    ended: Tensor


@dataclass(frozen=True)
class Doubtful(Bundle):
    """What a step of a search in reduced precision came to: ``theta`` of the samples ``rows`` [B], whose margins belong
    to ``place`` [B] of the flat ledger; ``lower`` [B]: they look lower than any before."""

    rows: Tensor
    problem: Problem
    theta: Tree
    place: Tensor
    lower: Tensor


def evaluate(model: Classifier, problem: Problem, stage: Stage, theta: Tree, step: Tensor | None = None) -> Evaluation:
    """One forward, and where the optimizer wants it one backward pass, at ``theta``; of a randomised model as many as
    it has draws, which belong to the ``step`` [B] of the run."""
    noise = problem.noise if model.draws is None else problem.noise.child(_SEARCH).child(0 if step is None else step)
    uphill, outward = stage.optimizer.needs_gradient, stage.optimizer.needs_size_gradient
    leaf = watched(theta) if uphill else theta
    measuring = problem.threat.measuring(model, problem.reference)
    with torch.set_grad_enabled(uphill), going_back(stage.backward), measuring as measured:
        logits, doubt = model.searched(problem.threat.apply(problem.x, leaf), problem.labels, noise)
        targets = problem.targets if stage.targets else None
        value = OBJECTIVES[stage.objective](logits, problem.labels, targets)
        size = measured(problem.x, leaf if outward else theta)
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
    floor = _ROUNDING * largest(slope)
    return over(lambda leaf: torch.where(leaf.abs() <= per_sample(floor, leaf), 0, leaf), slope)


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
    (count,) = told((~schedule.done).sum())
    todo = torch.split(indices(~schedule.done, count), lanes) if count else ()
    if any(stage.order == "distance" for stage in schedule.stages):
        for rows in todo:
            ledger.nearest = ledger.nearest.index_copy(0, rows, _by_distance(model, attack, ledger, rows))
    if attack.threat.chooses:
        for rows in todo:
            put(ledger.best_theta, rows, _chosen(model, attack, ledger, rows))
    if any(stage.start == "missed" for stage in schedule.stages):
        ledger.missed_theta = copy(ledger.best_theta)
    if schedule.shares:
        rows = torch.arange(len(ledger.x), device=ledger.x.device)
        ledger.lowest_theta = take(ledger.best_theta, rows.repeat_interleave(ledger.margins.shape[1]))
    while True:
        stage_of = torch.where(schedule.done, -1, schedule.stage_of[schedule.attempt])
        finite, *counts = told(
            ledger.finite, *(torch.stack([stage_of == k for k in range(len(schedule.stages))]).sum(1))
        )
        if not any(counts):
            check_finite(attack, bool(finite))
            return ledger
        busiest = counts.index(max(counts))
        queue = indices(stage_of == busiest, counts[busiest])
        _run_stage(model, attack, ledger, schedule, busiest, queue, lanes, report)


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
    last = stage.judge == "last"
    line = _Line(schedule, number, queue, queue[:0], report)
    lanes = _enter(model, attack, ledger, schedule, stage, line.next(capacity))
    steps = _steps_to_a_look(stage, queue.device)
    while len(lanes.rows):
        doubtful: list[Doubtful] = []
        for _ in range(steps):
            lanes = _stepped(model, ledger, stage, lanes, schedule.patience, doubtful)
        fresh = lanes.ended & (lanes.candidate_size < known_size(ledger, lanes.rows, last=last))
        lower = [each.lower.sum() for each in doubtful]
        finite, ended, candidates, *news = told(
            ledger.finite, lanes.ended.sum(), fresh.sum(), *lower, *line.questions()
        )
        check_finite(attack, bool(finite))
        line.answered(*news[len(lower) :])
        for each, count in zip(doubtful, news, strict=False):
            _record_in_full(model, ledger, each, count)
        if ended:
            over = _those(replace(lanes, state=None), lanes.ended, ended)
            fresh = indices(_those(fresh, lanes.ended, ended), candidates)
            fooled = _verify(model, attack, ledger, over, fresh, last=last)
            missed = _missed(ledger, over, fooled)
            schedule.advance(over.rows, fooled, ledger.best_size[over.rows], over.progress.smallest, missed)
            line.unknown = over.rows
            del over
            lanes = _those(lanes, ~lanes.ended, len(lanes.rows) - ended)
        free = capacity - len(lanes.rows)
        empty = free - len(line.rows)
        if len(line.unknown) and (looking_is_free(queue.device) or empty > _EMPTY * capacity):
            line.answered(*told(*line.questions()))
        if free and len(line.rows):
            lanes = join(lanes, _enter(model, attack, ledger, schedule, stage, line.next(free)))


@dataclass
class _Line:
    """Who waits for a lane of stage ``number``.

    ``rows``: those samples, the next first; ``unknown``: those whose run has ended, but of which the host does not know
    yet whether they come back. It asks at once where too few others can take the lanes, else at the next look.
    """

    schedule: Schedule
    number: int
    rows: Tensor
    unknown: Tensor
    report: Callable[[int], None]

    def next(self, count: int) -> Tensor:
        """The first ``count`` leave the line."""
        first, self.rows = self.rows[:count], self.rows[count:]
        return first

    def questions(self) -> list[Tensor]:
        """What the host has to know of the unknown."""
        if not len(self.unknown):
            return []
        return [self.schedule.done.sum(), self._stay().sum()]

    def answered(self, *news: int) -> None:
        """The unknown are known: those that stay go to the front."""
        if news:
            done, staying = news
            self.report(done)
            self.rows = torch.cat([self.unknown[indices(self._stay(), staying)], self.rows])
            self.unknown = self.unknown[:0]

    def _stay(self) -> Tensor:
        rows, schedule = self.unknown, self.schedule
        return ~schedule.done[rows] & (schedule.stage_of[schedule.attempt[rows]] == self.number)


def _steps_to_a_look(stage: Stage, device: torch.device) -> int:
    """How many steps the host leaves alone, so that it looks when a run of full length ends."""
    length = stage.optimizer.steps + 1
    return math.ceil(length / max(1, round(length / stride(device))))


def _those(tree: Tree, mask: Tensor, count: int) -> Tree:
    """The rows where ``mask`` [B] holds, ``count`` of them; the tree itself, and no copy, where it holds everywhere."""
    return tree if count == len(mask) else take(tree, indices(mask, count))


def _stepped(
    model: Classifier, ledger: Ledger, stage: Stage, lanes: Lanes, patience: Patience | None, doubtful: list[Doubtful]
) -> Lanes:
    """All lanes one step further; what they find is entered, or is ``doubtful``, and runs that ``patience`` gives up
    end."""
    with charged(model, ledger, lanes.rows):
        evaluation = evaluate(model, lanes.problem, stage, lanes.state.theta, lanes.state.step)
        moved = stage.optimizer.step(lanes.problem, lanes.state, evaluation)
    place, margin = _margins(ledger, lanes, evaluation)
    if model.rounding:
        doubtful.append(_doubtful(ledger, lanes, place, margin))
    else:
        _record(ledger, lanes.state.theta, place, margin)
    finite = evaluation.logits.isfinite().all(1)
    ledger.finite &= finite.all()
    finished = stage.optimizer.finished(moved)
    if stage.judge == "last":
        better, ended = evaluation.fooled & finished, finished
    else:
        better = evaluation.fooled & (evaluation.size < lanes.candidate_size * (1 - _GAIN))
        within = evaluation.size <= lanes.problem.epsilon * (1 + STRENGTH_TOLERANCE)
        ended = finished | (better & ~lanes.bounding & within)
    progress, nearest = lanes.progress, lanes.nearest
    if patience is not None or ledger.missed_theta is not None:
        progress = progress.after(evaluation, lanes.problem, lanes.state.step, stage.optimizer.steps)
    if ledger.missed_theta is not None:
        nearest = select(progress.lowest < lanes.progress.lowest, lanes.state.theta, nearest)
    if patience is not None:
        ended = ended | patience.gives_up(progress, lanes.state.step, stage.optimizer, lanes.known)
    better, ended = better & ~lanes.ended, ended | lanes.ended
    candidate, size = lanes.candidate, lanes.candidate_size
    if not surely_none(better):
        candidate = select(better, lanes.state.theta, candidate)
        size = torch.where(better, evaluation.size, size)
    if not looking_is_free(ended.device):
        moved = select(ended | ~finite, lanes.state, moved)
    return replace(
        lanes,
        state=moved,
        candidate=candidate,
        candidate_size=size,
        progress=progress,
        nearest=nearest,
        ended=ended,
    )


def _enter(model: Classifier, attack: Attack, ledger: Ledger, schedule: Schedule, stage: Stage, rows: Tensor) -> Lanes:
    """Lanes at the beginning of the run that the schedule names for each of ``rows``."""
    x, level, attempt = ledger.x[rows], schedule.level[rows], schedule.attempt[rows]
    numbers, bounding = schedule.number_of[attempt], schedule.bounds[attempt]
    epsilon = schedule.epsilon(rows, ledger.best_size[rows])
    if attack.unbounded:
        epsilon = torch.where(bounding, torch.inf, epsilon)
    noise = ledger.noise.take(rows).child(attempt * schedule.levels + level)
    targets = _targets(ledger, stage, rows, numbers)
    with charged(model, ledger, rows):
        reference = attack.threat.reference(x)
        problem = Problem(attack.threat, x, ledger.labels[rows], targets, epsilon, noise, reference)
        theta = _start(ledger, stage, problem, rows, schedule.warm[rows], schedule.source(rows))
        state = stage.optimizer.init(problem, theta)
    known = ledger.best_size[rows] if stage.judge == "best" else torch.full_like(epsilon, torch.inf)
    level = level if schedule.on_grid else torch.full_like(level, -1)
    return Lanes(
        rows=rows,
        level=level,
        bounding=bounding,
        problem=problem,
        state=state,
        candidate=take(ledger.best_theta, rows),
        candidate_size=known,
        known=ledger.best_size[rows],
        progress=Progress.none(epsilon),
        nearest=() if ledger.missed_theta is None else theta,
        ended=torch.zeros_like(bounding),
    )


def _by_distance(model: Classifier, attack: Attack, ledger: Ledger, rows: Tensor) -> Tensor:
    """``[B, C]``: the wrong classes by the linearised distance to their boundary (DeepFool's choice of class), among
    the nine with the largest logits; the others follow by their logits."""
    ranking = ledger.ranking[rows]
    count = min(NEAREST, ranking.shape[1] - 1)
    x, labels = ledger.x[rows], ledger.labels[rows]
    theta = watched(attack.threat.neutral(x))
    distances = []
    with charged(model, ledger, rows):
        noise = ledger.noise.take(rows).child(CLEAN).child(0)
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
    with charged(model, ledger, rows):
        noise = ledger.noise.take(rows).child(CLEAN).child(1)
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
    if stage.start == "best" and minimum:
        size = ledger.best_size[rows]
        theta = select(size.isfinite(), _kicked(stage, problem, take(ledger.best_theta, rows), size), theta)
    elif stage.start == "best" and ledger.lowest_theta is not None:
        theta = threat.project(x, _lowest(ledger, ledger.lowest_theta, rows, source), problem.epsilon)
    elif stage.start in ("best", "missed"):
        if stage.start == "missed":
            missed = threat.project(x, take(ledger.missed_theta, rows), problem.epsilon)
            theta = select(ledger.missed[rows].isfinite(), missed, theta)
        warm = warm & ledger.best_size[rows].isfinite()
        theta = select(warm, threat.project(x, take(ledger.best_theta, rows), problem.epsilon), theta)
    return theta


def _kicked(stage: Stage, problem: Problem, theta: Tree, size: Tensor) -> Tree:
    """``theta``, whose sizes are ``size`` [B] (inf: none), moved at random by as much as the stage asks for."""
    if not stage.kick:
        return theta
    threat, x, known = problem.threat, problem.x, size.isfinite()
    kick = threat.start(x, stage.kick * size.where(known, 0), problem.noise)
    return threat.project(x, threat.move(x, theta, kick, torch.ones_like(size)), torch.full_like(size, torch.inf))


def _lowest(ledger: Ledger, lowest: Tree, rows: Tensor, source: Tensor) -> Tree:
    """The thetas of the lowest margins within the strengths of index ``source`` [B]."""
    margins = ledger.margins[rows]
    beyond = torch.arange(margins.shape[1], device=rows.device) > source[:, None]
    column = margins.masked_fill(beyond, torch.inf).argmin(1)
    return take(lowest, rows * margins.shape[1] + column)


def _margins(ledger: Ledger, lanes: Lanes, evaluation: Evaluation) -> tuple[Tensor, Tensor]:
    """``[B]`` where in the flat ledger the margins of an evaluation belong, and ``[B]`` the margins: infinite, none,
    where a run has ended."""
    margin = margin_of(evaluation.logits.softmax(1), lanes.problem.labels).masked_fill(lanes.ended, torch.inf)
    column = torch.searchsorted(ledger.strengths * (1 + STRENGTH_TOLERANCE), evaluation.size)
    return lanes.rows * ledger.margins.shape[1] + column, margin


def _record(ledger: Ledger, theta: Tree, place: Tensor, margin: Tensor) -> None:
    """Enter the margins [B] of ``theta`` at ``place`` [B], each another one."""
    known = ledger.margins.view(-1)
    if ledger.lowest_theta is not None:
        lower = margin < known[place]
        put(ledger.lowest_theta, place, select(lower, theta, take(ledger.lowest_theta, place)))
    known.scatter_reduce_(0, place, margin, "amin")


def _doubtful(ledger: Ledger, lanes: Lanes, place: Tensor, margin: Tensor) -> Doubtful:
    """The lanes as they stand, and which of their margins [B], of a search in reduced precision, look lower than any
    before at ``place`` [B]."""
    seen = ledger.rough.view(-1)
    lower = margin < seen[place]
    seen.scatter_reduce_(0, place, margin, "amin")
    return Doubtful(lanes.rows, lanes.problem, lanes.state.theta, place, lower)


def _record_in_full(model: Classifier, ledger: Ledger, doubtful: Doubtful, count: int) -> None:
    """Compute the margins that look lower than any before, ``count`` of them, in full precision and enter them, so that
    every margin on record is one."""
    if not count:
        return
    low = _those(doubtful, doubtful.lower, count)
    with torch.no_grad(), charged(model, ledger, low.rows):
        x_adv = low.problem.threat.apply(low.problem.x, low.theta)
        logits = model.logits(x_adv, labels=low.problem.labels, verifying=True)
    ledger.finite &= logits.isfinite().all()
    _record(ledger, low.theta, low.place, margin_of(logits.to(ledger.margins.dtype).softmax(1), low.problem.labels))


def _missed(ledger: Ledger, over: Lanes, fooled: Tensor) -> Tensor:
    """``[B]``: the lowest share of the clean margin that ascents at the strength of the ended runs came to, where they
    failed; a success forgets those before it."""
    rows = over.rows
    known = ledger.missed[rows]
    if ledger.missed_theta is None:
        return known
    share = (over.progress.lowest / ledger.clean_lead[rows]).masked_fill(over.bounding, torch.inf)
    nearer = ~fooled & (share < known)
    missed = torch.where(nearer, share, known).masked_fill(fooled, torch.inf)
    ledger.missed[rows] = missed
    put(ledger.missed_theta, rows, select(nearer, over.nearest, take(ledger.missed_theta, rows)))
    return missed


def _verify(model: Classifier, attack: Attack, ledger: Ledger, over: Lanes, fresh: Tensor, *, last: bool) -> Tensor:
    """Check the candidates of ended runs, those of index ``fresh``, with a separate forward pass and enter them.
    ``[B]``: the sample is fooled at the run's strength.

    ``last``: judged by the last iterate of the run alone, whatever its size (historical procedures).
    """
    fooled = torch.zeros_like(over.bounding)
    if len(fresh):
        new = over if len(fresh) == len(over.rows) else take(over, fresh)
        rows, size = new.rows, new.candidate_size
        x_adv = attack.threat.apply(new.problem.x, new.candidate)
        with torch.no_grad(), charged(model, ledger, rows):
            verdict = model.judged(x_adv, new.problem.labels, new.problem.noise.child(_JUDGED))
        ledger.finite &= verdict.logits.isfinite().all()
        inside = ((x_adv >= 0) & (x_adv <= 1)).flatten(1).all(1)
        good, best = verdict.wrong & inside, ledger.best_size[rows]
        doubtful = torch.where(verdict.possible & inside, size, torch.inf)
        ledger.possible_size[rows] = torch.minimum(ledger.possible_size[rows], doubtful)
        fooled[fresh] = good
        ledger.rejected[rows] += (~good).long()
        smaller = good & (size < best)
        ledger.best_size[rows] = torch.where(smaller, size, best)
        put(ledger.best_theta, rows, select(smaller, new.candidate, take(ledger.best_theta, rows)))
        for column, found in (
            (ledger.found_class, verdict.prediction),
            (ledger.mistakes, verdict.mistakes),
            (ledger.drawn, verdict.drawn),
        ):
            column[rows] = torch.where(smaller, found, column[rows])
    if not last:
        fooled = ledger.best_size[over.rows] <= over.problem.epsilon * (1 + STRENGTH_TOLERANCE)
    before = ledger.fooled[over.rows, over.level]
    judged = torch.maximum(before, fooled.to(torch.int8))
    ledger.fooled[over.rows, over.level] = torch.where(over.bounding | (over.level < 0), before, judged)
    return fooled
