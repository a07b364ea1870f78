"""The loop of every attack: evaluate a batch, record what was found, let settled samples go, verify.

Samples are attacked in *lanes*. All lanes of a batch run the same stage, each at its own strength, target and step; a
lane whose run ends is verified, its sample's schedule says what comes next, and the lane is given to the next run.

The host looks for ended runs every few steps (:mod:`robustatlas.common.host`). Until then an ended lane repeats its
last step, of which nothing is entered but the passes; so results do not depend on how often the host looks.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from robustatlas.attacks.search.plan import AttackRun
from robustatlas.common.bundle import join
from robustatlas.common.host import indices, maybe_any, stride, to_host
from robustatlas.engine.ahead import moved_ahead, points_at_once
from robustatlas.engine.evidence import record_in_full, record_margins, record_queries, record_true, verify
from robustatlas.engine.judging import to_beat
from robustatlas.engine.lanes import Lanes, enter, further, moved, those
from robustatlas.engine.ledger import Ledger, check_finite
from robustatlas.engine.queue import Queue
from robustatlas.engine.setting import Setting, prepare


def run(setting: Setting, report: Callable[[int], None] = lambda settled: None) -> Ledger:
    """Carry out a schedule. Results do not depend on how many lanes there are.

    The stage of the earliest attempt comes first, so that samples wait for each other rather than run alone.

    ``report`` is called with the number of samples that are through, whenever it changes.
    """
    ledger, schedule = setting.ledger, setting.schedule
    prepare(setting)
    if schedule.shared is not None:
        setting.certified = None  # what a run leaves behind besides its examples is of use to later ones
    _skip_hopeless(setting, torch.arange(len(schedule.done), device=schedule.done.device))
    through = 0
    stages, attempts = schedule.stages, schedule.attempts
    while True:
        stage_of = torch.where(schedule.done, -1, schedule.stage_of[schedule.attempt])
        waiting = torch.stack([stage_of == k for k in range(len(stages))]).sum(1)
        first = torch.where(schedule.done, len(attempts), schedule.attempt).min()
        finite, done, first_attempt, *counts = to_host(ledger.finite, schedule.done.sum(), first, *waiting)
        if done != through:
            report(through := done)
        if first_attempt == len(attempts):
            check_finite(setting.attack, bool(finite))
            return ledger
        number = stages.index(attempts[first_attempt].run.settings)
        rows = indices(stage_of == number, counts[number])
        _run_stage(setting, stages[number], Queue(schedule, number, rows, rows[:0], report))


def _run_stage(setting: Setting, stage: AttackRun, queue: Queue) -> None:
    """Run the samples of ``queue``, all at an attempt of ``stage``, until each is done or wants another stage."""
    lanes = enter(setting, stage, queue.next(setting.lanes))
    steps = _steps_to_a_look(setting, stage) if setting.model.knowledge == "gradients" else 1
    while len(lanes.rows):
        for _ in range(steps):
            if (count := points_at_once(setting, stage, lanes)) > 1:
                lanes, evaluation = moved_ahead(setting, stage, lanes, count)
                state = stage.optimizer.step(lanes.problem, lanes.state, evaluation)
            else:
                evaluation, state = moved(setting, stage, lanes)
            record_margins(setting, stage, lanes, evaluation)
            record_queries(setting, lanes, evaluation)
            setting.ledger.finite &= (evaluation.logits.abs() < torch.inf).all()
            lanes = further(lanes, stage, setting.schedule, evaluation, state, setting.ledger.forward)
        lanes = _looked_at(setting, stage, lanes, queue)
        if not len(lanes.rows) and not len(queue.rows):
            return  # who chooses the next stage asks about all at once
        free = setting.lanes - len(lanes.rows)
        queue.ask(free, setting.lanes)
        if free and len(queue.rows):
            lanes = join(lanes, enter(setting, stage, queue.next(free)))


def _looked_at(setting: Setting, stage: AttackRun, lanes: Lanes, queue: Queue) -> Lanes:
    """The lanes that go on, after a look at which have ended; what these found is verified and entered."""
    ledger = setting.ledger
    if setting.rough is None and not maybe_any(lanes.ended):
        return lanes
    fresh = lanes.ended & (lanes.candidate_size < to_beat(ledger, setting.schedule, stage, lanes.rows))
    rough = setting.rough.questions() if setting.rough else []
    finite, ended, candidates, *news = to_host(
        ledger.finite, lanes.ended.sum(), fresh.sum(), *rough, *queue.questions()
    )
    check_finite(setting.attack, bool(finite))
    queue.answered(*news[len(rough) :])
    for doubtful, count in zip(setting.rough.handed_over() if setting.rough else [], news, strict=False):
        record_in_full(setting, doubtful, count)
    if not ended:
        return lanes
    over = those(replace(lanes, state=None), lanes.ended, ended)
    fooled = verify(setting, over, indices(those(fresh, lanes.ended, ended), candidates), stage.judge)
    record_true(setting, stage, over)
    setting.schedule.charge(over.rows, over.before + over.trace.evaluations)
    setting.schedule.advance(over.rows, fooled, ledger.best_size[over.rows], over.trace.smallest)
    if setting.schedule.most is not None:
        setting.schedule.done[over.rows] |= setting.schedule.most.over(ledger.forward[over.rows])
    _skip_hopeless(setting, over.rows)
    queue.unknown = over.rows
    left: Lanes = those(lanes, ~lanes.ended, len(lanes.rows) - ended)
    return left


def _steps_to_a_look(setting: Setting, stage: AttackRun) -> int:
    """How many steps the host leaves alone, so that it looks when runs end: those of full length, or, where these are
    longer than it would wait and rules may end some in half that time, the first that do."""
    length, usual = stage.optimizer.steps + 1, stride(setting.ledger.x.device)
    first = min((rule.soonest(stage.optimizer) for rule in setting.schedule.stops), default=length)
    if 2 * first <= usual < length:
        length = first
    return math.ceil(length / max(1, round(length / usual)))


def _skip_hopeless(setting: Setting, rows: Tensor) -> None:
    """Let the schedule of the samples ``rows`` pass over runs that nothing can come of, as if they had failed: runs
    inside of a set that is certified, by optimizers that stay in it. What they would have changed are the margins on
    record and the passes; no size and no class."""
    if setting.certified is None:
        return
    ledger, schedule = setting.ledger, setting.schedule
    stays = [not attempt.run.optimizer.minimum_size for attempt in schedule.attempts]
    inside = torch.tensor(stays, device=rows.device)
    most = [attempt.run.most_passes(schedule.chooses) for attempt in schedule.attempts]
    passes = torch.tensor(most, device=rows.device)
    while True:
        rows = rows[~schedule.done[rows]]
        certain = schedule.epsilon(rows, ledger.best_size[rows]) <= setting.certified[rows]
        rows = rows[certain & inside[schedule.attempt[rows]]]
        if not len(rows):
            return
        if schedule.on_grid:
            level = schedule.level[rows]
            ledger.fooled[rows, level] = ledger.fooled[rows, level].clamp_min(0)
        ledger.saved[rows] += passes[schedule.attempt[rows]]
        size = ledger.best_size[rows]
        schedule.advance(rows, torch.zeros_like(rows, dtype=torch.bool), size, torch.full_like(size, torch.inf))
