"""Auto-PGD (Croce and Hein 2020, algorithm 1): gradient ascent with momentum that halves its own step."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, over, select
from robustatlas.common.host import cached
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter


def checkpoints(steps: int) -> tuple[int, ...]:
    """The moves after which the step size is reviewed: 22, 41, 57, 70, 80, 87, 93, 99 for 100 steps.

    Example:
        >>> checkpoints(100)
        (22, 41, 57, 70, 80, 87, 93, 99)
    """
    period, smallest, decrease = max(int(0.22 * steps), 1), max(int(0.06 * steps), 1), max(int(0.03 * steps), 1)
    found, at = [], period
    while at <= steps:
        found.append(at)
        period = max(period - decrease, smallest)
        at += period
    return tuple(found)


def review_periods(steps: int) -> Tensor:
    """``[steps + 2]``: at a checkpoint the moves since the last one, elsewhere 0."""
    ends = checkpoints(steps)
    periods = torch.zeros(steps + 2, dtype=torch.int64)
    for start, end in pairwise((0, *ends)):
        periods[end] = end - start
    return periods


@dataclass(frozen=True)
class APGDState(State):
    """The iterate and the one before, the best point with its objective and gradient, the step and what its next
    review needs."""

    previous: Tree
    best: Tree
    best_objective: Tensor
    best_gradient: Tree
    last_objective: Tensor
    length: Tensor
    rises: Tensor
    reviewed_objective: Tensor
    halved: Tensor


@dataclass(frozen=True)
class APGD(Optimizer[APGDState]):
    """Auto-PGD over any threat model.

    The step begins at ``rate`` x epsilon (2 in the paper). It is halved at a checkpoint when fewer than ``rho`` of the
    last moves raised the objective. It is also halved when it was not halved at the last checkpoint and the best
    objective has not risen since. Then the search goes on from the best point. Follows AutoAttack's code, whose first
    review compares with an objective of zero for the first move.
    """

    title = "APGD"
    paper = "Croce and Hein 2020"

    steps: int = 100
    rate: float = 2.0
    rho: float = 0.75
    momentum: float = 0.25

    def init(self, problem: Problem, theta: Tree) -> APGDState:
        low = torch.full_like(problem.epsilon, -torch.inf)
        return APGDState(
            theta=theta,
            step=counter(low),
            previous=theta,
            best=theta,
            best_objective=low,
            best_gradient=over(torch.zeros_like, theta),
            last_objective=torch.zeros_like(low),
            length=self.rate * problem.epsilon,
            rises=counter(low),
            reviewed_objective=low,
            halved=torch.ones_like(low, dtype=torch.bool),
        )

    def step(self, problem: Problem, state: APGDState, evaluation: Evaluation) -> APGDState:
        threat, x, value = problem.threat, problem.x, evaluation.objective
        first = state.step == 0
        better = value > state.best_objective
        best = select(better, state.theta, state.best)
        best_gradient = select(better, evaluation.gradient, state.best_gradient)
        best_objective = torch.where(better, value, state.best_objective)
        # The table of objectives in AutoAttack starts with the first move; what stands before is a row of zeros.
        before = torch.where(state.step == 1, torch.zeros_like(value), state.last_objective)
        rises = torch.where(first, 0, state.rises + (value > before))
        reviewed_objective = torch.where(first, value, state.reviewed_objective)

        period = cached(review_periods, self.steps, like=state.step)[state.step.clamp_max(self.steps + 1)]
        review = period > 0
        stuck = ~state.halved & (reviewed_objective >= best_objective)
        halve = review & ((rises <= self.rho * period) | stuck)
        here = select(halve, best, state.theta)
        gradient = select(halve, best_gradient, evaluation.gradient)
        length = torch.where(halve, state.length / 2, state.length)

        ahead = threat.project(x, threat.move(x, here, threat.steepest(x, gradient), length), problem.epsilon)
        mixed = over(self._mix, ahead, here, state.previous)
        theta = select(first, ahead, threat.project(x, mixed, problem.epsilon))
        return APGDState(
            theta=theta,
            step=state.step + 1,
            previous=here,
            best=best,
            best_objective=best_objective,
            best_gradient=best_gradient,
            last_objective=value,
            length=length,
            rises=torch.where(review, 0, rises),
            reviewed_objective=torch.where(review, best_objective, reviewed_objective),
            halved=torch.where(review, halve, state.halved),
        )

    def _mix(self, ahead: Tensor, here: Tensor, before: Tensor) -> Tensor:
        return here + (1 - self.momentum) * (ahead - here) + self.momentum * (here - before)
