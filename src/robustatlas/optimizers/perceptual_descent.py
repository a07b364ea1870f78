"""Descent along the decision boundary, to the smallest perceptual distance that is misclassified."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import dot, norm, per_sample
from robustatlas.optimizers.base import Evaluation, Problem, State, annealed, counter
from robustatlas.optimizers.ppgd import PerceptualOptimizer
from robustatlas.threats.lp import clip_to_box

_TINY = 1e-20
_FURTHEST = 0.05
"""Longest move towards the boundary, as a root mean square over the numbers of an input."""
_WITHOUT_CURVATURE = 3
"""Number of first steps of full length: on the way from the clean point a change of the gradient is no curvature."""


@dataclass(frozen=True)
class PerceptualDescentState(State):
    """``previous``: the point before ``theta``; ``slope``: the gradient of half of the squared distance there. Both are
    shaped like theta."""

    previous: Tensor
    slope: Tensor


@dataclass(frozen=True)
class PerceptualDescent(PerceptualOptimizer[PerceptualDescentState]):
    """Minimise the distance on the decision boundary.

    Each step goes to the linearised boundary, where the objective is zero, and along it down the gradient of half of
    the squared distance. The length along the boundary is that of Barzilai and Borwein (1988): from the change of the
    gradient by the last move. The problem's epsilon plays no part. A step costs one forward and two backward passes if
    the features are those of the network itself, else one more forward pass.

    Attributes:
        steps: number of steps of a run.
        longest: longest move along the boundary, as a share of the length of theta.
        beyond: way beyond the boundary, as a share of the length of theta, because a point on it is not misclassified.
            It falls with a cosine to a tenth.
    """

    title = "descent along the decision boundary"
    needs_margin: ClassVar[bool] = True
    needs_size_gradient: ClassVar[bool] = True
    minimum_size: ClassVar[bool] = True

    steps: int = 80
    longest: float = 0.1
    beyond: float = 0.02

    def init(self, problem: Problem, theta: Tensor) -> PerceptualDescentState:
        return PerceptualDescentState(theta, counter(theta), theta, torch.zeros_like(theta))

    def step(self, problem: Problem, state: PerceptualDescentState, evaluation: Evaluation) -> PerceptualDescentState:
        x, theta = problem.x, state.theta
        steepness, length = norm(evaluation.gradient).clamp_min(_TINY), norm(theta)
        normal: Tensor = evaluation.gradient / per_sample(steepness, theta)

        def tangent_part(vector: Tensor) -> Tensor:
            return vector - per_sample(dot(vector, normal), vector) * normal

        # Along the boundary, with the step <s, s> / <s, y> of Barzilai and Borwein: s is the last move, y the change of
        # the gradient. A negative curvature allows any length.
        slope = per_sample(evaluation.size, x) * evaluation.size_gradient
        downhill, move = tangent_part(slope), tangent_part(theta - state.previous)
        longest = self.longest * length / norm(downhill).clamp_min(_TINY)
        curvature = dot(move, slope - state.slope)
        rate = torch.where(curvature > 0, dot(move, move) / curvature.clamp_min(_TINY), torch.inf)
        rate = torch.where(state.step < _WITHOUT_CURVATURE, longest, torch.minimum(rate, longest))

        # Across it: to the point where the linearised objective is zero, and a little beyond.
        falling = annealed(state.step, self.steps, x)
        furthest = _FURTHEST * math.sqrt(theta[0].numel())
        to_boundary = (-evaluation.objective / steepness).clamp(-furthest, furthest)
        across = to_boundary + self.beyond * (0.1 + 0.9 * falling) * length
        theta = clip_to_box(x, theta + per_sample(across, x) * normal - per_sample(rate, x) * downhill)
        return PerceptualDescentState(theta, state.step + 1, state.theta, slope)
