"""Evidence: margins of every step, and examples once a separate pass has confirmed them."""

from dataclasses import replace

import torch
from torch import Tensor

from robustatlas.attacks.search.plan import AttackRun, Judge
from robustatlas.common.bundle import Tree, select, take_rows, write_rows
from robustatlas.engine.batch import Batch, select_rows
from robustatlas.engine.execution import Execution
from robustatlas.engine.judging import is_fooled, strength_columns
from robustatlas.engine.numerics import JUDGED, NUMERICS
from robustatlas.engine.records import charge_passes
from robustatlas.engine.reduced import Doubtful
from robustatlas.models.classifier.draws import Verdict
from robustatlas.models.objectives import margin_of
from robustatlas.optimizers.base import Evaluation
from robustatlas.threats.levels import apply_threat


def record_margins(execution: Execution, run: AttackRun, batch: Batch, evaluation: Evaluation) -> None:
    """Enter the margins of an evaluation at the strengths where they count.

    Margins of a search in reduced precision are noted until the next look.
    """
    records, rough = execution.records, execution.rough
    margin = margin_of(evaluation.logits.softmax(1), batch.problem.labels).masked_fill(batch.ended, torch.inf)
    column = strength_columns(execution.schedule, run, batch.level, evaluation.size)
    place = batch.rows * records.margins.shape[1] + column
    if rough is None:
        _enter(execution, batch.state.theta, place, margin)
    else:
        rough.note(batch.rows, batch.problem, batch.state.theta, place, margin)


def record_queries(execution: Execution, batch: Batch, evaluation: Evaluation) -> None:
    """Note the strengths within which an example is seen for the first time, for models that only answer queries."""
    records = execution.records
    if records.queries.shape[1]:
        before, reach = records.queries[batch.rows], records.strengths * (1 + NUMERICS.tolerance)
        seen = (evaluation.fooled & ~batch.ended)[:, None] & (evaluation.size[:, None] <= reach)
        asked = records.forward[batch.rows][:, None]
        records.queries[batch.rows] = torch.where(seen & (before < 0), asked, before)


def record_true(execution: Execution, run: AttackRun, over: Batch) -> None:
    """Note the smallest size of ended runs whose ReLUs were not smoothed.

    A run that began at an example of smoothed runs does not count: what lies below it was found through both gradients.
    """
    if run.backward == "smoothed":
        return
    true, rows, smallest = execution.records.true_size, over.rows, over.trace.smallest
    if run.start == "best" and not run.kick:  # others begin at random, or move away from the example
        from_smoothed = over.known < true[rows]
        if not run.optimizer.minimum_size:
            # Asked before the schedule says what comes next.
            from_smoothed &= execution.schedule.warm[rows]
        smallest = torch.where(from_smoothed, torch.inf, smallest)
    true[rows] = torch.minimum(true[rows], smallest)


def record_in_full(execution: Execution, doubtful: Doubtful, count: int) -> None:
    """Compute the ``count`` margins that look lower than any before in full precision, and enter them."""
    if not count:
        return
    records, low = execution.records, select_rows(doubtful, doubtful.lower, count)
    with torch.no_grad(), charge_passes(execution.model, records, low.rows):
        x_adv = apply_threat(low.problem.threat, low.problem.x, low.theta, low.problem.eight_bit)
        logits = execution.model.logits(x_adv, labels=low.problem.labels, verifying=True)
    records.finite &= logits.isfinite().all()
    _enter(execution, low.theta, low.place, margin_of(logits.to(records.margins.dtype).softmax(1), low.problem.labels))


def _enter(execution: Execution, theta: Tree, place: Tensor, margin: Tensor) -> None:
    """Enter the margins [B] of ``theta`` at the distinct places ``place`` [B]."""
    known = execution.records.margins.view(-1)
    if execution.schedule.shared is not None:
        execution.schedule.shared.add(place, theta, margin < known[place])
    known.scatter_reduce_(0, place, margin, "amin")


def verify(execution: Execution, over: Batch, fresh: Tensor, judge: Judge, *, clearer: int = 0) -> Tensor:
    """Check the candidates ``fresh`` (indices) of ended runs with a separate forward pass, and enter them.

    Args:
        execution: the execution whose records are written.
        over: the ended runs.
        fresh: indices of those with a candidate.
        judge: what counts as fooled.
        clearer: number of candidates with a clearer mistake; without any the host need not wait for what is refused.

    Returns:
        ``[B]``: the sample is fooled at the strength of its run.
    """
    records, confirmed = execution.records, torch.zeros_like(over.bounding)
    if len(fresh):
        new = over if len(fresh) == len(over.rows) else take_rows(over, fresh)
        confirmed[fresh] = good = _confirmed(execution, new)
        if clearer:
            confirmed[fresh] = good | _confirmed_clear(execution, new, good)
    fooled = is_fooled(records, execution.schedule, judge, over.rows, over.problem.epsilon, confirmed)
    before = records.fooled[over.rows, over.level]
    answer = torch.maximum(before, fooled.to(torch.int8))
    records.fooled[over.rows, over.level] = torch.where(over.bounding | (over.level < 0), before, answer)
    return fooled


def _confirmed(execution: Execution, new: Batch) -> Tensor:
    """``[B]``: the candidates are misclassified, and inside of the box, when looked at again."""
    records, rows, size = execution.records, new.rows, new.candidate_size
    threat = execution.attack.threat
    x_adv = apply_threat(threat, new.problem.x, new.candidate, execution.attack.eight_bit)
    if execution.attack.eight_bit and threat.additive:
        size = threat.size(new.problem.x, x_adv - new.problem.x)
    with torch.no_grad(), charge_passes(execution.model, records, rows):
        verdict = execution.model.judge(x_adv, new.problem.labels, new.problem.noise.child(JUDGED))
    records.finite &= verdict.logits.isfinite().all()
    inside = is_inside(x_adv)
    good = verdict.wrong & inside
    doubtful = torch.where(verdict.possible & inside, size, torch.inf)
    records.possible_size[rows] = torch.minimum(records.possible_size[rows], doubtful)
    records.rejected[rows] += (~good).long()
    leg = execution.schedule.run_of[execution.schedule.attempt[rows]]
    enter_examples(execution, rows, new.candidate, size, good, verdict, leg)
    return good


def _confirmed_clear(execution: Execution, new: Batch, good: Tensor) -> Tensor:
    """``[B]``: the clear mistakes of sweeps are confirmed, where the smaller candidates were not ``good`` [B]."""
    confirmed, clear = torch.zeros_like(good), new.clear
    assert clear is not None
    again = (~good & has_clearer_mistake(new)).nonzero().squeeze(1)
    if len(again):
        second = replace(new, candidate=clear.theta, candidate_size=clear.size)
        confirmed[again] = _confirmed(execution, take_rows(second, again))
    return confirmed


def has_clearer_mistake(batch: Batch) -> Tensor:
    """Return which runs [B] of a sweep have a clear mistake that is larger than their candidate."""
    assert batch.clear is not None
    return (batch.clear.size > batch.candidate_size) & batch.clear.size.isfinite()


def is_inside(x_adv: Tensor) -> Tensor:
    """``[B]``: all numbers of an input lie in [0, 1]."""
    return ((x_adv >= 0) & (x_adv <= 1)).flatten(1).all(1)


def enter_examples(
    execution: Execution, rows: Tensor, theta: Tree, size: Tensor, good: Tensor, verdict: Verdict, leg: Tensor
) -> None:
    """Enter the examples ``theta`` of distinct samples ``rows`` [B], of that ``size`` [B], if they are smaller.

    ``good`` [B]: they were verified, by ``verdict``. ``leg`` [B]: of the plan that found them; -1: unknown.
    """
    records = execution.records
    best = records.best_size[rows]
    smaller = good & (size < best if execution.schedule.monotone else best.isinf())
    records.best_size[rows] = torch.where(smaller, size, best)
    write_rows(records.best_theta, rows, select(smaller, theta, take_rows(records.best_theta, rows)))
    for column, found in (
        (records.found_class, verdict.prediction),
        (records.found_run, torch.where(leg < 0, records.found_run[rows], leg)),
        (records.mistakes, verdict.mistakes),
        (records.drawn, verdict.drawn),
    ):
        column[rows] = torch.where(smaller, found, column[rows])
