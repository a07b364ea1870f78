"""What counts is entered here: margins of every step, and examples once a separate pass has confirmed them."""

import torch
from torch import Tensor

from robustatlas.attacks.search.plan import AttackRun, Judge
from robustatlas.common.bundle import Tree, put, select, take
from robustatlas.engine.judging import counted_within, fooled_at
from robustatlas.engine.lanes import Lanes, those
from robustatlas.engine.ledger import charged
from robustatlas.engine.numerics import JUDGED, NUMERICS
from robustatlas.engine.reduced import Doubtful
from robustatlas.engine.setting import Setting
from robustatlas.models.objectives import margin_of
from robustatlas.optimizers.base import Evaluation
from robustatlas.threats.levels import shown


def record_margins(setting: Setting, stage: AttackRun, lanes: Lanes, evaluation: Evaluation) -> None:
    """Enter the margins of an evaluation, at the strengths where they count; of a search in reduced precision note
    them, until the next look."""
    ledger, rough = setting.ledger, setting.rough
    margin = margin_of(evaluation.logits.softmax(1), lanes.problem.labels).masked_fill(lanes.ended, torch.inf)
    column = counted_within(setting.schedule, stage, lanes.level, evaluation.size)
    place = lanes.rows * ledger.margins.shape[1] + column
    if rough is None:
        _enter(setting, lanes.state.theta, place, margin)
    else:
        rough.note(lanes.rows, lanes.problem, lanes.state.theta, place, margin)


def record_queries(setting: Setting, lanes: Lanes, evaluation: Evaluation) -> None:
    """Of a model that can only be asked, note the strengths within which an example is seen for the first time."""
    ledger = setting.ledger
    if ledger.queries.shape[1]:
        before, reach = ledger.queries[lanes.rows], ledger.strengths * (1 + NUMERICS.tolerance)
        seen = (evaluation.fooled & ~lanes.ended)[:, None] & (evaluation.size[:, None] <= reach)
        asked = ledger.forward[lanes.rows][:, None]
        ledger.queries[lanes.rows] = torch.where(seen & (before < 0), asked, before)


def record_true(setting: Setting, stage: AttackRun, over: Lanes) -> None:
    """Note how far ended runs came whose ReLUs were not smoothed. What refines an example that only smoothed runs had
    found does not count."""
    if stage.backward == "smoothed":
        return
    true, rows, came = setting.ledger.true_size, over.rows, over.trace.smallest
    if stage.optimizer.minimum_size and stage.start == "best" and not stage.kick:
        came = torch.where(over.known < true[rows], torch.inf, came)
    true[rows] = torch.minimum(true[rows], came)


def record_in_full(setting: Setting, doubtful: Doubtful, count: int) -> None:
    """Compute the margins that look lower than any before, ``count`` of them, in full precision and enter them, so that
    every margin on record is one."""
    if not count:
        return
    ledger, low = setting.ledger, those(doubtful, doubtful.lower, count)
    with torch.no_grad(), charged(setting.model, ledger, low.rows):
        x_adv = shown(low.problem.threat, low.problem.x, low.theta, low.problem.eight_bit)
        logits = setting.model.logits(x_adv, labels=low.problem.labels, verifying=True)
    ledger.finite &= logits.isfinite().all()
    _enter(setting, low.theta, low.place, margin_of(logits.to(ledger.margins.dtype).softmax(1), low.problem.labels))


def _enter(setting: Setting, theta: Tree, place: Tensor, margin: Tensor) -> None:
    """Enter the margins [B] of ``theta`` at ``place`` [B], each another one."""
    known = setting.ledger.margins.view(-1)
    if setting.schedule.shared is not None:
        setting.schedule.shared.add(place, theta, margin < known[place])
    known.scatter_reduce_(0, place, margin, "amin")


def verify(setting: Setting, over: Lanes, fresh: Tensor, judge: Judge) -> Tensor:
    """Check the candidates of ended runs, those of index ``fresh``, with a separate forward pass and enter them.
    ``[B]``: the sample is fooled at the run's strength."""
    ledger, confirmed = setting.ledger, torch.zeros_like(over.bounding)
    if len(fresh):
        confirmed[fresh] = _confirmed(setting, over if len(fresh) == len(over.rows) else take(over, fresh))
    fooled = fooled_at(ledger, setting.schedule, judge, over.rows, over.problem.epsilon, confirmed)
    before = ledger.fooled[over.rows, over.level]
    answer = torch.maximum(before, fooled.to(torch.int8))
    ledger.fooled[over.rows, over.level] = torch.where(over.bounding | (over.level < 0), before, answer)
    return fooled


def _confirmed(setting: Setting, new: Lanes) -> Tensor:
    """``[B]``: the candidates are misclassified, and inside of the box, when looked at again."""
    ledger, rows, size = setting.ledger, new.rows, new.candidate_size
    threat = setting.attack.threat
    x_adv = shown(threat, new.problem.x, new.candidate, setting.attack.eight_bit)
    if setting.attack.eight_bit and threat.additive:
        size = threat.size(new.problem.x, x_adv - new.problem.x)
    with torch.no_grad(), charged(setting.model, ledger, rows):
        verdict = setting.model.judged(x_adv, new.problem.labels, new.problem.noise.child(JUDGED))
    ledger.finite &= verdict.logits.isfinite().all()
    inside = ((x_adv >= 0) & (x_adv <= 1)).flatten(1).all(1)
    good, best = verdict.wrong & inside, ledger.best_size[rows]
    doubtful = torch.where(verdict.possible & inside, size, torch.inf)
    ledger.possible_size[rows] = torch.minimum(ledger.possible_size[rows], doubtful)
    ledger.rejected[rows] += (~good).long()
    smaller = good & (size < best if setting.schedule.monotone else best.isinf())
    ledger.best_size[rows] = torch.where(smaller, size, best)
    put(ledger.best_theta, rows, select(smaller, new.candidate, take(ledger.best_theta, rows)))
    leg = setting.schedule.run_of[setting.schedule.attempt[rows]]
    for column, found in (
        (ledger.found_class, verdict.prediction),
        (ledger.found_run, torch.where(leg < 0, ledger.found_run[rows], leg)),
        (ledger.mistakes, verdict.mistakes),
        (ledger.drawn, verdict.drawn),
    ):
        column[rows] = torch.where(smaller, found, column[rows])
    return good
