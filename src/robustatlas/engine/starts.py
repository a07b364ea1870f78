"""Where a run begins."""

import torch
from torch import Tensor

from robustatlas.attacks.search import Schedule
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.common.bundle import Tree, gradient, over, put, select, take, watched
from robustatlas.common.host import looking_is_free
from robustatlas.engine.ledger import Ledger, charged
from robustatlas.engine.numerics import CLEAN, DRAWS
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import going_back
from robustatlas.models.objectives import OBJECTIVES
from robustatlas.optimizers.base import Problem


def begun(
    ledger: Ledger, schedule: Schedule, stage: AttackRun, problem: Problem, rows: Tensor
) -> tuple[Tree, Tensor | None]:
    """The thetas at which the next runs of ``rows`` [B] begin, all of ``stage``, and which do so anew, not at an
    example: bool ``[B]``, or None where no run of the stage does."""
    threat, x = problem.threat, problem.x
    anew = torch.ones_like(rows, dtype=torch.bool)
    if stage.start == "neutral":
        return threat.neutral(x), anew
    theta = _drawn(stage, problem)
    if stage.start == "random":
        return theta, anew
    if stage.optimizer.minimum_size and stage.start == "best":
        best = ledger.best_size[rows]
        size = best if schedule.monotone else torch.full_like(best, torch.inf)
        return select(size.isfinite(), _kicked(stage, problem, take(ledger.best_theta, rows), size), theta), None
    if schedule.shared is not None:
        lowest = schedule.shared.lowest(ledger.margins[rows], rows, schedule.source(rows))
        return threat.project(x, lowest, problem.epsilon), None
    warm = schedule.warm[rows] & ledger.best_size[rows].isfinite()
    return select(warm, threat.project(x, take(ledger.best_theta, rows), problem.epsilon), theta), ~warm


def with_own_draws(
    model: Classifier, ledger: Ledger, stage: AttackRun, problem: Problem, rows: Tensor, theta: Tree, anew: Tensor
) -> Tree:
    """``theta`` [B] of the next runs of ``rows``. Where these begin ``anew`` [B], the draws of the threat model are
    those that the gradient of the run's own objective at the clean input promises the most of. That takes one forward
    and one backward pass (of all ``rows`` where looking at which begin anew is not free)."""
    at = anew.nonzero().squeeze(1) if looking_is_free(rows.device) else torch.arange(len(rows), device=rows.device)
    if not len(at):
        return theta
    some, clean, begin = take(problem, at), watched(problem.x[at]), take(theta, at)
    with charged(model, ledger, rows[at]), going_back(stage.backward):
        logits = model.logits(clean, labels=some.labels, noise=some.noise.child(CLEAN))
        value = OBJECTIVES[stage.objective](logits, some.labels, some.targets if stage.targets else None)
        slope = gradient(value, clean)
    ledger.finite &= logits.detach().isfinite().all()
    draws = some.threat.choose(some.x, slope, some.noise.child(DRAWS))
    own = over(lambda _, free: free, draws, begin)
    whole = take(theta, torch.arange(len(rows), device=rows.device))
    put(whole, at, select(anew[at], own, begin))
    return whole


def _drawn(stage: AttackRun, problem: Problem) -> Tree:
    """A random point of the set, of the size that the optimizer begins with; a minimum-size run: the clean point."""
    clean = stage.optimizer.minimum_size
    radius = torch.zeros_like(problem.epsilon) if clean else problem.epsilon * stage.optimizer.start_radius
    return problem.threat.start(problem.x, radius, problem.noise)


def _kicked(stage: AttackRun, problem: Problem, theta: Tree, size: Tensor) -> Tree:
    """``theta``, whose sizes are ``size`` [B] (inf: none), moved at random by as much as the stage asks for."""
    if not stage.kick:
        return theta
    threat, x, known = problem.threat, problem.x, size.isfinite()
    kick = threat.start(x, stage.kick * size.where(known, 0), problem.noise)
    return threat.project(x, threat.move(x, theta, kick, torch.ones_like(size)), torch.full_like(size, torch.inf))
