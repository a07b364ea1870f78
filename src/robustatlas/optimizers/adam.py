"""Adam on a penalised objective: how the flow and recolouring attacks of the literature are run (stadv, ReColorAdv)."""

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, gradient, map_tensors, per_sample, require_gradient
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel


@runtime_checkable
class Smooth(Protocol):
    """A threat model that can say how rough a theta is."""

    def smoothness(self, theta: Tree) -> Tensor:
        """Return the roughness [B] of ``theta``, 0 for the smoothest; differentiable."""


@dataclass(frozen=True)
class AdamState(State):
    """``first`` and ``second``: running means of the gradient and of its square, built like ``theta``."""

    first: Tree
    second: Tree


@dataclass(frozen=True)
class Adam(Optimizer[AdamState]):
    """Maximise objective - roughness / epsilon * R(theta) by Adam (Kingma and Ba 2015), projecting after every step.

    The learning rate is ``rate`` x epsilon. R is the threat model's ``smoothness``; ``roughness`` = 0 leaves it out,
    as MultiRobustBench's code does; its paper (C.1) prints .0025 for stadv and .0036 for recolor. With
    the margin as the objective this is the attack of Laidlaw and Feizi 2019.
    """

    title = "Adam"
    paper = "Kingma and Ba 2015"

    steps: int = 20
    rate: float = 1 / 18
    roughness: float = 0.0
    decay: tuple[float, float] = (0.9, 0.999)

    def check(self, threat: ThreatModel) -> None:
        super().check(threat)
        if self.roughness and not isinstance(threat, Smooth):
            raise unsearchable(self, threat, "a smoothness (StAdv, Recolor) where roughness > 0", "roughness=0")

    def init(self, problem: Problem, theta: Tree) -> AdamState:
        theta = problem.threat.project(problem.x, theta, problem.epsilon)
        zeros = map_tensors(torch.zeros_like, theta)
        return AdamState(theta, counter(problem.epsilon), zeros, zeros)

    def step(self, problem: Problem, state: AdamState, evaluation: Evaluation) -> AdamState:
        ascent = evaluation.gradient
        if self.roughness:
            weight = self.roughness / problem.epsilon.clamp_min(1e-12)
            roughness = _roughness_gradient(problem, state.theta)
            ascent = map_tensors(lambda grad, rough: grad - per_sample(weight, grad) * rough, ascent, roughness)
        # Algorithm 1 of Kingma and Ba 2015, with its names; it minimises, so the sign of the step is another.
        beta_1, beta_2 = self.decay
        first = map_tensors(lambda m, grad: beta_1 * m + (1 - beta_1) * grad, state.first, ascent)
        second = map_tensors(lambda v, grad: beta_2 * v + (1 - beta_2) * grad.square(), state.second, ascent)

        def adam_step(theta: Tensor, m: Tensor, v: Tensor) -> Tensor:
            t = per_sample(state.step + 1, theta).to(theta.dtype)
            # Both means began at zero: without this correction the first steps would be far too short.
            m_hat, v_hat = m / (1 - beta_1**t), v / (1 - beta_2**t)
            length = per_sample(self.rate * problem.epsilon, theta)
            return theta + length * m_hat / (v_hat.sqrt() + 1e-8)

        theta = map_tensors(adam_step, state.theta, first, second)
        return AdamState(problem.threat.project(problem.x, theta, problem.epsilon), state.step + 1, first, second)


def _roughness_gradient(problem: Problem, theta: Tree) -> Tree:
    """Return the gradient of the roughness of ``theta``, built like it."""
    with torch.enable_grad():
        theta = require_gradient(theta)
        return gradient(cast(Smooth, problem.threat).smoothness(theta), theta)
