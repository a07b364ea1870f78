"""Where a run begins."""

from __future__ import annotations

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.bundle import Tree, gradient, over, put, select, take, watched
from robustatlas.classifier import Classifier
from robustatlas.engine.ledger import Ledger, charged
from robustatlas.engine.numerics import CLEAN, DRAWS
from robustatlas.objectives import OBJECTIVES
from robustatlas.optimizers.base import Problem
from robustatlas.search import Schedule
from robustatlas.search.plan import Stage


def chosen(model: Classifier, attack: Attack, ledger: Ledger, rows: Tensor) -> None:
    """Give the samples ``rows`` the neutral theta with the draws that the gradient of the margin at the clean input
    promises the most of."""
    x, labels = watched(ledger.x[rows]), ledger.labels[rows]
    with charged(model, ledger, rows):
        noise = ledger.noise.take(rows).child(CLEAN).child(1)
        logits = model.logits(x, labels=labels, noise=noise)
        slope = gradient(OBJECTIVES["margin"](logits, labels, None), x)
    ledger.finite &= logits.detach().isfinite().all()
    put(ledger.best_theta, rows, attack.threat.choose(ledger.x[rows], slope, ledger.noise.take(rows).child(DRAWS)))


def started(ledger: Ledger, schedule: Schedule, stage: Stage, problem: Problem, rows: Tensor) -> Tree:
    """The thetas at which the next runs of ``rows`` begin, all of ``stage``."""
    threat, x = problem.threat, problem.x
    if stage.start == "neutral":
        return threat.neutral(x)
    theta = _drawn(ledger, stage, problem, rows)
    if stage.start == "random":
        return theta
    if stage.optimizer.minimum_size and stage.start == "best":
        size = ledger.best_size[rows]
        return select(size.isfinite(), _kicked(stage, problem, take(ledger.best_theta, rows), size), theta)
    if schedule.shared is not None:
        lowest = schedule.shared.lowest(ledger.margins[rows], rows, schedule.source(rows))
        return threat.project(x, lowest, problem.epsilon)
    warm = schedule.warm[rows] & ledger.best_size[rows].isfinite()
    return select(warm, threat.project(x, take(ledger.best_theta, rows), problem.epsilon), theta)


def _drawn(ledger: Ledger, stage: Stage, problem: Problem, rows: Tensor) -> Tree:
    """A random point of the set, of the size that the optimizer begins with; a minimum-size run: the clean point."""
    threat = problem.threat
    clean = stage.optimizer.minimum_size
    radius = torch.zeros_like(problem.epsilon) if clean else problem.epsilon * stage.optimizer.start_radius
    theta = threat.start(problem.x, radius, problem.noise)
    return over(lambda _, new: new, take(ledger.best_theta, rows), theta) if threat.chooses else theta


def _kicked(stage: Stage, problem: Problem, theta: Tree, size: Tensor) -> Tree:
    """``theta``, whose sizes are ``size`` [B] (inf: none), moved at random by as much as the stage asks for."""
    if not stage.kick:
        return theta
    threat, x, known = problem.threat, problem.x, size.isfinite()
    kick = threat.start(x, stage.kick * size.where(known, 0), problem.noise)
    return threat.project(x, threat.move(x, theta, kick, torch.ones_like(size)), torch.full_like(size, torch.inf))
