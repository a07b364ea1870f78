"""Auto-PGD for l1 balls (Croce and Hein 2021): sparse steps whose sparsity follows the best point, in stages of
shrinking radius. AutoAttack's code is followed, also in its constants."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.common.host import constant_tensor, maybe_any
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.jpeg import JpegL1
from robustatlas.threats.lp import L1

LARGE_RADIUS = ((3.0, 0.3), (2.0, 0.3), (1.0, 0.4))
"""AutoAttack's schedule: for each stage its radius as a multiple of epsilon, and its share of the steps."""
INSIDE = ((1.0, 1.0),)
"""Schedule of a single stage, which never leaves the ball."""
_SHRINK = 1.5
"""Factor by which a review shortens the step and makes the next one sparser than the best point."""
_SAME_SUPPORT = 0.95
"""Share of its coordinates that the best point must keep between two reviews, or else the step is long again."""


def _support(theta: Tensor) -> Tensor:
    """Return the number of coordinates [B] that are not zero."""
    return (theta != 0).flatten(1).sum(1).to(theta.dtype)


@dataclass(frozen=True)
class APGDL1State(State):
    """Progress through the stages.

    ``stage`` [B]: index into the schedule. ``moves`` [B]: made in this stage. ``best``: the point of the highest
    objective of the stage, with ``best_objective`` [B] and ``best_gradient``. ``length`` [B]: l1 norm of a step.
    ``density`` [B]: share of the coordinates that a step moves. ``support`` [B]: number of coordinates that the best
    point changed at the last review.
    """

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
    """Auto-PGD for l1.

    Attributes:
        steps: moves in all stages.
        schedule: (radius / epsilon, share of the steps) of each stage; a stage begins at the best point of the last.
        density: share of the coordinates that a step moves before the first review of a single stage. In a schedule of
            several stages the first point of each says it, as in AutoAttack.
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
        """Radius of the first stage, as a multiple of epsilon."""
        return self.schedule[0][0]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Moves of each stage: shares of the steps, rounded up; the last stage has what the others leave."""
        head = [math.ceil(share * self.steps) for _, share in self.schedule[:-1]]
        return (*head, self.steps - sum(head))

    def _radius(self, problem: Problem, stage: Tensor) -> Tensor:
        """Return the radius [B] of the ball of each sample's ``stage`` [B]."""
        factors = constant_tensor([factor for factor, _ in self.schedule], problem.epsilon)
        return problem.epsilon * factors[stage]

    def _enter(self, problem: Problem, theta: Tensor, stage: Tensor, step: Tensor) -> APGDL1State:
        """Return the state at the beginning of each sample's ``stage`` [B], at ``theta`` or near it in the ball."""
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
            density=torch.full_like(radius, self.density) if single else support / size / _SHRINK,
            support=torch.full_like(radius, size) if single else support,
        )

    def init(self, problem: Problem, theta: Tensor) -> APGDL1State:
        return self._enter(problem, theta, counter(theta), counter(theta))

    def step(self, problem: Problem, state: APGDL1State, evaluation: Evaluation) -> APGDL1State:
        better = evaluation.objective > state.best_objective
        best = select(better, state.theta, state.best)
        best_gradient = select(better, evaluation.gradient, state.best_gradient)
        best_objective = torch.where(better, evaluation.objective, state.best_objective)
        total = constant_tensor(self.lengths, state.stage)[state.stage]
        radius = self._radius(problem, state.stage)

        # A review after every 4 % of a stage. If the best point became much sparser, the step is long again and goes
        # on from there; else it is shortened, down to a tenth of the radius.
        review = (state.moves > 0) & (state.moves % (total * 4 // 100).clamp_min(1) == 0)
        support = _support(best)
        sparser = review & (support / state.support < _SAME_SUPPORT)
        here, gradient = select(sparser, best, state.theta), select(sparser, best_gradient, evaluation.gradient)
        reviewed = torch.where(sparser, radius, state.length / _SHRINK)
        length = torch.where(review, torch.minimum(torch.maximum(reviewed, radius / 10), radius), state.length)
        density = torch.where(review, support / float(best[0].numel()) / _SHRINK, state.density)

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
        stage_ends = (state.moves >= total) & (state.stage < len(self.schedule) - 1)
        if len(self.schedule) == 1 or not maybe_any(stage_ends):
            return moved
        entered = self._enter(
            problem, best, (state.stage + stage_ends.long()).clamp_max(len(self.schedule) - 1), state.step + 1
        )
        return select(stage_ends, entered, moved)

    def finished(self, state: APGDL1State) -> Tensor:
        last = state.stage == len(self.schedule) - 1
        return last & (state.moves > self.lengths[-1])


def _sparse_sign(gradient: Tensor, density: Tensor) -> Tensor:
    """Return a step of l1 norm 1: equal moves of the ``density`` [B] share of coordinates of the largest gradients."""
    size = gradient.abs().flatten(1)
    dimensions = size.shape[1]
    rank = ((1 - density) * dimensions).long().clamp(0, dimensions - 1)
    threshold = size.sort(1).values.gather(1, rank[:, None])
    signs = gradient.sign().flatten(1) * (size >= threshold)
    return (signs / (signs.abs().sum(1, keepdim=True) + 1e-10)).view_as(gradient)
