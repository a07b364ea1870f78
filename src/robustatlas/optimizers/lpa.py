"""Lagrangian perceptual attack and its fast form (Laidlaw et al. 2021, App. A.2 and A.3)."""

from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.common.host import maybe_any
from robustatlas.optimizers.base import Evaluation, Problem, State, counter
from robustatlas.optimizers.ppgd import PerceptualOptimizer, capped_gradient
from robustatlas.threats.lp import clip_to_box
from robustatlas.threats.perceptual import Perceptual


def _descend(problem: Problem, theta: Tensor, gradient: Tensor, weight: Tensor, length: Tensor, slack: float) -> Tensor:
    """Return theta after a step along ``gradient`` - ``weight`` x the gradient of max(distance - epsilon, 0).

    The step is so long that the features move by about ``length`` [B]. How fast they move is measured over a step of
    .1, as in the authors' code. ``slack`` keeps the division finite where the features hardly move.
    """
    width = 0.1
    threat, x = cast(Perceptual, problem.threat), problem.x
    with torch.enable_grad():
        theta = theta.detach().requires_grad_()
        features = threat.phi.embed(x + theta)
        distance = torch.linalg.vector_norm(features - threat.phi.reference(x), dim=1)
        (penalty_gradient,) = torch.autograd.grad((distance - problem.epsilon).clamp_min(0).sum(), theta)
    with torch.no_grad():
        direction = gradient - per_sample(weight, gradient) * penalty_gradient
        direction = direction / (per_sample(direction.flatten(1).norm(dim=1), direction) + 1e-8)
        features_ahead = threat.phi.embed(x + theta + width * direction)
        speed = (features_ahead - features).norm(dim=1) / width
        return clip_to_box(x, theta + per_sample(length / (speed + slack), direction) * direction)


@dataclass(frozen=True)
class LPAState(State):
    """``weight`` [B]: of the distance in the Lagrangian (lambda of the paper). ``last`` [B] bool: theta is the result.
    ``over`` [B] bool: the result was evaluated."""

    weight: Tensor
    last: Tensor
    over: Tensor


@dataclass(frozen=True)
class LPA(PerceptualOptimizer[LPAState]):
    """Maximise margin - weight x max(distance - epsilon, 0), raising the weight tenfold where a round ends outside.

    Within a round the length of a step falls from epsilon to epsilon / 10. A sample stops if it is misclassified inside
    of the set. Its result is projected.

    Attributes:
        steps: steps of a round.
        rounds: rounds, each with a weight of its own.
        confidence: the objective counts as far as this.
        first_weight: weight of the distance in the first round.
    """

    title = "LPA"
    paper = "Laidlaw et al. 2021"
    needs_margin: ClassVar[bool] = True
    needs_size = True

    steps: int = 40
    rounds: int = 5
    confidence: float = 1.0
    first_weight: float = 0.01

    @property
    def evaluations(self) -> int:
        return self.rounds * self.steps + 1

    def init(self, problem: Problem, theta: Tensor) -> LPAState:
        none = torch.zeros_like(problem.labels, dtype=torch.bool)
        return LPAState(theta, counter(theta), torch.full_like(problem.epsilon, self.first_weight), none, none)

    def step(self, problem: Problem, state: LPAState, evaluation: Evaluation) -> LPAState:
        epsilon = problem.epsilon
        length = epsilon * 0.1 ** ((state.step % self.steps).to(epsilon.dtype) / self.steps)
        gradient = capped_gradient(evaluation, self.confidence)
        theta = _descend(problem, state.theta, gradient, state.weight, length, 1e-8)
        step = state.step + 1
        inside = evaluation.fooled & (evaluation.size <= epsilon)
        last = state.last | inside | (step >= self.rounds * self.steps)
        ending = last & ~state.last
        if maybe_any(ending):  # a projection costs many passes through the features
            theta = select(ending, problem.threat.project(problem.x, theta, epsilon), theta)
        heavier = (step % self.steps == 0) & (evaluation.size >= epsilon)
        weight = torch.where(heavier, 10 * state.weight, state.weight)
        return LPAState(select(state.last, state.theta, theta), step, weight, last, state.last)

    def finished(self, state: LPAState) -> Tensor:
        return state.over


@dataclass(frozen=True)
class FastLPA(PerceptualOptimizer[State]):
    """LPA in one round, in which the length of a step falls to a tenth and the weight rises from 1 to 10.

    Nothing is projected, so the result is normally outside of the set: for perceptual adversarial training, not for
    evaluation.
    """

    title = "Fast-LPA"
    paper = "Laidlaw et al. 2021"

    steps: int = 10

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        falling = 0.1 ** (state.step.to(problem.epsilon.dtype) / self.steps)
        weight = 10 * 0.1 / falling
        theta = _descend(problem, state.theta, evaluation.gradient, weight, problem.epsilon * falling, 1e-4)
        return State(theta, state.step + 1)
