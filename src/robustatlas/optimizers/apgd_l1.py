"""Auto-PGD for l1 balls (Croce and Hein 2021): sparse steps whose sparsity follows the best point, in stages of
shrinking radius."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.common.host import constant, maybe_any
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.jpeg import JpegL1
from robustatlas.threats.lp import L1

LARGE_RADIUS = ((3.0, 0.3), (2.0, 0.3), (1.0, 0.4))
"""AutoAttack's schedule: radius as a multiple of epsilon, share of the steps."""
INSIDE = ((1.0, 1.0),)
"""A single stage, which never leaves the ball."""


def _support(theta: Tensor) -> Tensor:
    return (theta != 0).flatten(1).sum(1).to(theta.dtype)


@dataclass(frozen=True)
class APGDL1State(State):
    """``moves`` within the ``stage``; the best point of the stage; the step ``length``, the ``density`` of the next
    step and the last reviewed support."""

    stage: Tensor
    moves: Tensor
    best: Tensor
    best_objective: Tensor
    best_gradient: Tensor
    length: Tensor
    density: Tensor
    support: Tensor


@dataclass(frozen=True)
class APGDL1(Optimizer[APGDL1State]):
    """Auto-PGD for l1. ``schedule``: (radius / epsilon, share of the steps) of each stage.

    The first stage takes ``density`` of the coordinates unless it starts from a given point (``warm``), as AutoAttack
    does.
    """

    title = "APGD for l1"
    paper = "Croce and Hein 2021"

    steps: int = 100
    schedule: tuple[tuple[float, float], ...] = LARGE_RADIUS
    density: float = 0.2

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, L1 | JpegL1):
            raise unsearchable(self, threat, "an l1 ball (L1, JpegL1)", "APGD")

    @property
    def start_radius(self) -> float:
        """The first stage's."""
        return self.schedule[0][0]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Moves of each stage; the last one has what the others leave."""
        head = [-int(-share * self.steps // 1) for _, share in self.schedule[:-1]]
        return (*head, self.steps - sum(head))

    def _radius(self, problem: Problem, stage: Tensor) -> Tensor:
        factors = constant([factor for factor, _ in self.schedule], problem.epsilon)
        return problem.epsilon * factors[stage]

    def _enter(self, problem: Problem, theta: Tensor, stage: Tensor, step: Tensor) -> APGDL1State:
        radius = self._radius(problem, stage)
        theta = problem.threat.project(problem.x, theta, radius)
        support = _support(theta)
        single = len(self.schedule) == 1
        size = float(theta[0].numel())
        return APGDL1State(
            theta=theta,
            step=step,
            stage=stage,
            moves=counter(theta),
            best=theta,
            best_objective=torch.full_like(radius, -torch.inf),
            best_gradient=torch.zeros_like(theta),
            length=radius,
            density=torch.full_like(radius, self.density) if single else support / size / 1.5,
            support=torch.full_like(radius, size) if single else support,
        )

    def init(self, problem: Problem, theta: Tensor) -> APGDL1State:
        return self._enter(problem, theta, counter(theta), counter(theta))

    def step(self, problem: Problem, state: APGDL1State, evaluation: Evaluation) -> APGDL1State:
        better = evaluation.objective > state.best_objective
        best = select(better, state.theta, state.best)
        best_gradient = select(better, evaluation.gradient, state.best_gradient)
        best_objective = torch.where(better, evaluation.objective, state.best_objective)
        total = constant(self.lengths, state.stage)[state.stage]
        radius = self._radius(problem, state.stage)

        review = (state.moves > 0) & (state.moves % (total * 4 // 100).clamp_min(1) == 0)
        support = _support(best)
        dropped = review & (support / state.support < 0.95)
        here, gradient = select(dropped, best, state.theta), select(dropped, best_gradient, evaluation.gradient)
        reduced = torch.where(dropped, radius, state.length / 1.5)
        length = torch.where(review, torch.minimum(torch.maximum(reduced, radius / 10), radius), state.length)
        density = torch.where(review, support / float(best[0].numel()) / 1.5, state.density)

        theta = here + per_sample(length, here) * _sparse_sign(gradient, density)
        theta = problem.threat.project(problem.x, theta, radius)
        moved = APGDL1State(
            theta=theta,
            step=state.step + 1,
            stage=state.stage,
            moves=state.moves + 1,
            best=best,
            best_objective=best_objective,
            best_gradient=best_gradient,
            length=length,
            density=density,
            support=torch.where(review, support, state.support),
        )
        over = (state.moves >= total) & (state.stage < len(self.schedule) - 1)
        if len(self.schedule) == 1 or not maybe_any(over):
            return moved
        entered = self._enter(
            problem, best, (state.stage + over.long()).clamp_max(len(self.schedule) - 1), state.step + 1
        )
        return select(over, entered, moved)

    def finished(self, state: APGDL1State) -> Tensor:
        last = state.stage == len(self.schedule) - 1
        return last & (state.moves > self.lengths[-1])


def _sparse_sign(gradient: Tensor, density: Tensor) -> Tensor:
    """Signs of the ``density`` [B] share of coordinates with the largest gradients, divided by their number."""
    size = gradient.abs().flatten(1)
    dimensions = size.shape[1]
    rank = ((1 - density) * dimensions).long().clamp(0, dimensions - 1)
    threshold = size.sort(1).values.gather(1, rank[:, None])
    signs = gradient.sign().flatten(1) * (size >= threshold)
    return (signs / (signs.abs().sum(1, keepdim=True) + 1e-10)).view_as(gradient)
