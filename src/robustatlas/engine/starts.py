"""Starting points of runs."""

import torch
from torch import Tensor

from robustatlas.attacks.search import Schedule
from robustatlas.attacks.search.plan import AttackRun
from robustatlas.common.bundle import Tree, gradient, over, put, select, take, watched
from robustatlas.common.host import looking_is_free
from robustatlas.engine.numerics import CLEAN, DRAWS
from robustatlas.engine.records import Records, charge_passes
from robustatlas.models.classifier import Classifier
from robustatlas.models.classifier.backward import going_back
from robustatlas.models.objectives import OBJECTIVES
from robustatlas.optimizers.base import Problem


def starting_points(
    records: Records, schedule: Schedule, run: AttackRun, problem: Problem, rows: Tensor
) -> tuple[Tree, Tensor | None]:
    """Return the thetas at which the next runs of ``rows`` [B] begin, all of kind ``run``.

    The second value, bool ``[B]``, says which begin anew, not at an example; None: no run of the kind does.
    """
    threat, x = problem.threat, problem.x
    anew = torch.ones_like(rows, dtype=torch.bool)
    if run.start == "neutral":
        return threat.neutral(x), anew
    theta = _random_start(run, problem)
    if run.start == "random":
        return theta, anew
    if run.optimizer.minimum_size and run.start == "best":
        best = records.best_size[rows]
        size = best if schedule.monotone else torch.full_like(best, torch.inf)
        return select(size.isfinite(), _kick_example(run, problem, take(records.best_theta, rows), size), theta), None
    if schedule.shared is not None:
        lowest = schedule.shared.lowest(records.margins[rows], rows, schedule.source(rows))
        return select(schedule.warm[rows], threat.project(x, lowest, problem.epsilon), theta), None
    warm = schedule.warm[rows] & records.best_size[rows].isfinite()
    return select(warm, threat.project(x, take(records.best_theta, rows), problem.epsilon), theta), ~warm


def choose_draws(
    model: Classifier, records: Records, run: AttackRun, problem: Problem, rows: Tensor, theta: Tree, anew: Tensor
) -> Tree:
    """Return ``theta`` [B] of the next runs of ``rows`` with draws of their own.

    Where these begin ``anew`` [B], the draws of the threat model are
    those that the gradient of the run's own objective at the clean input promises the most of. That takes one forward
    and one backward pass (of all ``rows`` where looking at which begin anew is not free)."""
    at = anew.nonzero().squeeze(1) if looking_is_free(rows.device) else torch.arange(len(rows), device=rows.device)
    if not len(at):
        return theta
    some, clean, begin = take(problem, at), watched(problem.x[at]), take(theta, at)
    with charge_passes(model, records, rows[at]), going_back(run.backward):
        logits = model.logits(clean, labels=some.labels, noise=some.noise.child(CLEAN))
        value = OBJECTIVES[run.objective](logits, some.labels, some.targets if run.targets else None)
        slope = gradient(value, clean)
    records.finite &= logits.detach().isfinite().all()
    draws = some.threat.choose(some.x, slope, some.noise.child(DRAWS))
    own = over(lambda _, free: free, draws, begin)
    whole = take(theta, torch.arange(len(rows), device=rows.device))
    put(whole, at, select(anew[at], own, begin))
    return whole


def _random_start(run: AttackRun, problem: Problem) -> Tree:
    """A random point of the set, of the size that the optimizer begins with; a minimum-size run: the clean point."""
    clean = run.optimizer.minimum_size
    radius = torch.zeros_like(problem.epsilon) if clean else problem.epsilon * run.optimizer.start_radius
    return problem.threat.start(problem.x, radius, problem.noise)


def _kick_example(run: AttackRun, problem: Problem, theta: Tree, size: Tensor) -> Tree:
    """``theta``, whose sizes are ``size`` [B] (inf: none), moved at random by as much as the run asks for."""
    if not run.kick:
        return theta
    threat, x, known = problem.threat, problem.x, size.isfinite()
    kick = threat.start(x, run.kick * size.where(known, 0), problem.noise)
    return threat.project(x, threat.move(x, theta, kick, torch.ones_like(size)), torch.full_like(size, torch.inf))
