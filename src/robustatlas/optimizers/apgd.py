"""Auto-PGD (Croce and Hein 2020, algorithm 1): gradient ascent with momentum that halves its own step."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, map_tensors, select
from robustatlas.common.host import cached_tensor
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter


def checkpoints(steps: int) -> tuple[int, ...]:
    """Return the moves after which the step size is reviewed (checkpoints w_j of the paper).

    The first period is .22 of the steps. Each one after it is shorter by .03 of them, and no shorter than .06. Like
    AutoAttack's code this rounds the periods down, while the paper rounds the checkpoints up.

    Example:
        >>> checkpoints(100)
        (22, 41, 57, 70, 80, 87, 93, 99)
    """
    period, smallest, decrease = max(int(0.22 * steps), 1), max(int(0.06 * steps), 1), max(int(0.03 * steps), 1)
    moves, checkpoint = [], period
    while checkpoint <= steps:
        moves.append(checkpoint)
        period = max(period - decrease, smallest)
        checkpoint += period
    return tuple(moves)


def review_periods(steps: int) -> Tensor:
    """Return for each step, [steps + 2], the moves since the last checkpoint if it is one, else 0."""
    periods = torch.zeros(steps + 2, dtype=torch.int64)
    for start, end in pairwise((0, *checkpoints(steps))):
        periods[end] = end - start
    return periods


@dataclass(frozen=True)
class APGDState(State):
    """Iterates of Auto-PGD, and what the next review of the step size needs.

    ``previous``: the point before ``theta``. ``best``: the point of the highest objective, with ``best_objective`` [B]
    and ``best_gradient``. ``last_objective`` [B]: that of the point before. ``length`` [B]: of the step (eta of the
    paper). ``rises`` [B]: moves since the last checkpoint that raised the objective. ``reviewed_objective`` [B]: the
    best one at the last checkpoint. ``halved`` [B]: the step was halved there.
    """

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

    The step begins at ``rate`` x epsilon (2 in the paper). It is halved at a checkpoint if no more than ``rho`` of the
    last moves raised the objective (condition 1 of the paper). It is also halved if it was not halved at the last
    checkpoint and the best objective has not risen since (condition 2). Then the search goes on from the best point.
    ``momentum`` is 1 - alpha of the paper. AutoAttack's code is followed where it differs: its first review compares
    with an objective of zero for the first move.
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
            best_gradient=map_tensors(torch.zeros_like, theta),
            last_objective=torch.zeros_like(low),
            length=self.rate * problem.epsilon,
            rises=counter(low),
            reviewed_objective=low,
            halved=torch.ones_like(low, dtype=torch.bool),
        )

    def step(self, problem: Problem, state: APGDState, evaluation: Evaluation) -> APGDState:
        threat, x, objective = problem.threat, problem.x, evaluation.objective
        first = state.step == 0
        better = objective > state.best_objective
        best = select(better, state.theta, state.best)
        best_gradient = select(better, evaluation.gradient, state.best_gradient)
        best_objective = torch.where(better, objective, state.best_objective)
        # The table of objectives in AutoAttack starts with the first move; what stands before is a row of zeros.
        objective_before = torch.where(state.step == 1, torch.zeros_like(objective), state.last_objective)
        rises = torch.where(first, 0, state.rises + (objective > objective_before))
        reviewed_objective = torch.where(first, objective, state.reviewed_objective)

        period = cached_tensor(review_periods, self.steps, like=state.step)[state.step.clamp_max(self.steps + 1)]
        review = period > 0
        stuck = ~state.halved & (reviewed_objective >= best_objective)  # condition 2
        halve = review & ((rises <= self.rho * period) | stuck)  # condition 1: "<" in the paper, "<=" in AutoAttack
        here = select(halve, best, state.theta)
        gradient = select(halve, best_gradient, evaluation.gradient)
        length = torch.where(halve, state.length / 2, state.length)

        # z and x of the paper's algorithm 1; the first move has no momentum.
        ahead = threat.project(x, threat.move(x, here, threat.steepest(x, gradient), length), problem.epsilon)
        mixed = map_tensors(self._with_momentum, ahead, here, state.previous)
        theta = select(first, ahead, threat.project(x, mixed, problem.epsilon))
        return APGDState(
            theta=theta,
            step=state.step + 1,
            previous=here,
            best=best,
            best_objective=best_objective,
            best_gradient=best_gradient,
            last_objective=objective,
            length=length,
            rises=torch.where(review, 0, rises),
            reviewed_objective=torch.where(review, best_objective, reviewed_objective),
            halved=torch.where(review, halve, state.halved),
        )

    def _with_momentum(self, ahead: Tensor, here: Tensor, before: Tensor) -> Tensor:
        return here + (1 - self.momentum) * (ahead - here) + self.momentum * (here - before)
