"""Adam on a penalised objective: how the flow and recolouring attacks of the literature are run (stadv, ReColorAdv)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from robustatlas.errors import UserError
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter
from robustatlas.threats.base import per_sample


@runtime_checkable
class Smooth(Protocol):
    """A threat model that can say how rough a theta is."""

    def smoothness(self, theta: Tensor) -> Tensor:
        """``[B]``: 0 for the smoothest; differentiable."""


@dataclass(frozen=True)
class AdamState(State):
    """``first`` and ``second``: running means of the gradient and of its square, shaped like ``theta``."""

    first: Tensor
    second: Tensor


@dataclass(frozen=True)
class Adam(Optimizer[AdamState]):
    """Maximise objective - roughness / epsilon * R(theta) by Adam (Kingma and Ba 2015), projecting after every step.

    The learning rate is ``rate`` x epsilon. R is the threat model's ``smoothness``; ``roughness`` = 0 leaves it out
    (MultiRobustBench's evaluation), .0025 for stadv and .0036 for recolor are the weights of Laidlaw et al. 2021. With
    the margin as the objective this is the attack of Laidlaw and Feizi 2019.
    """

    steps: int = 20
    rate: float = 1 / 18
    roughness: float = 0.0
    decay: tuple[float, float] = (0.9, 0.999)

    def init(self, problem: Problem, theta: Tensor) -> AdamState:
        if self.roughness and not isinstance(problem.threat, Smooth):
            raise UserError(
                f"Adam got roughness={self.roughness}, but {type(problem.threat).__name__} has no smoothness; "
                "use roughness=0, or a threat model such as StAdv or Recolor."
            )
        theta = problem.threat.project(problem.x, theta, problem.epsilon)
        return AdamState(theta, counter(theta), torch.zeros_like(theta), torch.zeros_like(theta))

    def step(self, problem: Problem, state: AdamState, evaluation: Evaluation) -> AdamState:
        gradient = evaluation.gradient
        if self.roughness:
            weight = per_sample(self.roughness / problem.epsilon.clamp_min(1e-12), gradient)
            gradient = gradient - weight * self._roughness_gradient(problem, state.theta)
        keep_first, keep_second = self.decay
        first = keep_first * state.first + (1 - keep_first) * gradient
        second = keep_second * state.second + (1 - keep_second) * gradient.square()
        count = per_sample(state.step + 1, gradient).to(gradient.dtype)
        mean, spread = first / (1 - keep_first**count), second / (1 - keep_second**count)
        length = per_sample(self.rate * problem.epsilon, gradient)
        theta = state.theta + length * mean / (spread.sqrt() + 1e-8)
        return AdamState(problem.threat.project(problem.x, theta, problem.epsilon), state.step + 1, first, second)

    @staticmethod
    def _roughness_gradient(problem: Problem, theta: Tensor) -> Tensor:
        assert isinstance(problem.threat, Smooth)
        with torch.enable_grad():
            theta = theta.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(problem.threat.smoothness(theta).sum(), theta)
        return gradient
