"""Down along the decision boundary: the smallest perceptual distance that is misclassified."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import dot, norm, per_sample
from robustatlas.optimizers.base import Evaluation, Problem, State, annealed, counter
from robustatlas.optimizers.ppgd import PerceptualOptimizer
from robustatlas.threats.lp import to_box

_TINY = 1e-20
_FURTHEST = 0.05
"""Root mean square, over the numbers of an input, of the longest move towards the boundary."""
_WITHOUT_CURVATURE = 3
"""Steps of the full length: what they change of the gradient, on the way from the clean point, is not a curvature."""


@dataclass(frozen=True)
class PerceptualDescentState(State):
    """``previous``: the point before ``theta``; ``slope``: the gradient of half of the squared distance there."""

    previous: Tensor
    slope: Tensor


@dataclass(frozen=True)
class PerceptualDescent(PerceptualOptimizer[PerceptualDescentState]):
    """Minimises the distance on the decision boundary: each step goes to the linearised boundary, where the objective
    is zero, and along it down the gradient of half of the squared distance.

    The length along the boundary is that of Barzilai and Borwein (1988), from what the last move changed of the
    gradient, and at most ``longest`` times the length of theta. ``beyond`` the boundary by that share of theta's
    length, falling with a cosine to a tenth of it, because a point on it is not misclassified. The problem's epsilon
    plays no part.

    A step costs one forward and two backward passes, where the features are those of the network itself; else one more
    forward.
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
        uphill: Tensor = evaluation.gradient
        steepness, length = norm(uphill).clamp_min(_TINY), norm(theta)
        normal: Tensor = uphill / per_sample(steepness, uphill)

        def directional_change(vector: Tensor) -> Tensor:
            return vector - per_sample(dot(vector, normal), vector) * normal

        slope = per_sample(evaluation.size, x) * evaluation.size_gradient
        downhill, move = directional_change(slope), directional_change(theta - state.previous)
        longest = self.longest * length / norm(downhill).clamp_min(_TINY)
        bend = dot(move, slope - state.slope)
        rate = torch.where(bend > 0, dot(move, move) / bend.clamp_min(_TINY), torch.inf)
        rate = torch.where(state.step < _WITHOUT_CURVATURE, longest, torch.minimum(rate, longest))

        falling = annealed(state.step, self.steps, x)
        furthest = _FURTHEST * math.sqrt(theta[0].numel())
        ahead = (-evaluation.objective / steepness).clamp(-furthest, furthest)
        ahead = ahead + self.beyond * (0.1 + 0.9 * falling) * length
        theta = to_box(x, theta + per_sample(ahead, x) * normal - per_sample(rate, x) * downhill)
        return PerceptualDescentState(theta, state.step + 1, state.theta, slope)
