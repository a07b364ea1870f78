"""Fast minimum-norm attack (Pintor et al. 2021) over any nested threat model."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, dot, max_abs, per_sample
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, annealed, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.jpeg import Jpeg
from robustatlas.threats.lp import Lp


@dataclass(frozen=True)
class FMNState(State):
    """``radius`` [B]: size allowed at this step (epsilon_k of the paper; inf before the first). ``best`` [B]: smallest
    size that was misclassified so far (inf: none)."""

    radius: Tensor
    best: Tensor


@dataclass(frozen=True)
class FMN(BoundaryOptimizer[FMNState]):
    """Minimum-size attack: the allowed size shrinks where theta is adversarial and grows where it is not.

    Until a first success the size grows, at least to the linearised boundary and a share gamma beyond it. Steps are
    alpha times that size; both shares fall with half a cosine. The problem's epsilon only caps the size.

    Attributes:
        steps: number of steps of a run.
        alpha: length of the first step, as a share of the allowed size (alpha_0 of the paper).
        gamma: the share by which the size first shrinks or grows (gamma_0 of the paper).
        gamma_final: the share by which it shrinks or grows in the last step (gamma_K of the paper).
        alpha_final: length of the last step, as a share of the allowed size (alpha_K of the paper).
        dense: steps straight along the gradient instead of the threat model's steepest direction, which for l1 moves
            few coordinates until the box stops them, and for JPEG in l1 towards a vertex.
    """

    title = "FMN"
    paper = "Pintor et al. 2021"
    needs_size = True

    steps: int = 30
    alpha: float = 1.0
    gamma: float = 0.05
    gamma_final: float = 1e-4
    alpha_final: float = 0.01
    dense: bool = False

    def check(self, threat: ThreatModel) -> None:
        super().check(threat)
        if self.dense and not isinstance(threat, Lp | Jpeg):
            raise unsearchable(self, threat, "an lp ball where it is dense", "dense=False")

    def init(self, problem: Problem, theta: Tree) -> FMNState:
        never = torch.full_like(problem.epsilon, torch.inf)
        return FMNState(theta, counter(never), never, never)

    def step(self, problem: Problem, state: FMNState, evaluation: Evaluation) -> FMNState:
        threat, x = problem.threat, problem.x
        falling = annealed(state.step, self.steps, x)
        gamma = self.gamma_final + (self.gamma - self.gamma_final) * falling
        alpha = self.alpha_final + (self.alpha - self.alpha_final) * falling
        gradient = evaluation.gradient
        direction = _dense_direction(threat, x, gradient) if self.dense else threat.steepest(x, gradient)
        slope = dot(gradient, direction).clamp_min(1e-12)

        # Algorithm 1 of the paper: the size shrinks where theta is adversarial, and then is at most the smallest one
        # found. Before a success it is that of the linearised boundary. Here it is a little more, and never falls:
        # where the boundary is straight, or the box takes part of the move, theta would only approach it.
        best = torch.where(evaluation.fooled, torch.minimum(state.best, evaluation.size), state.best)
        to_boundary = evaluation.size + evaluation.objective.abs() / slope
        least = torch.where(state.radius < torch.inf, torch.maximum(to_boundary, state.radius), to_boundary)
        grown = torch.where(best < torch.inf, state.radius, least) * (1 + gamma)
        radius = torch.where(evaluation.fooled, torch.minimum(state.radius * (1 - gamma), best), grown)
        radius = torch.minimum(radius, problem.epsilon)
        step = (x, state.theta, direction, alpha * radius)
        # A dense step is straight, where the threat model's own may stop single coordinates at the box.
        moved = ThreatModel.move(threat, *step) if self.dense else threat.move(*step)
        theta = threat.project(x, moved, radius)
        return FMNState(theta, state.step + 1, radius, best)


def _dense_direction(threat: ThreatModel, x: Tensor, gradient: Tensor) -> Tensor:
    """Return ``gradient`` as a change of size 1, [B, ...].

    It is scaled before it is measured, as threat models may bound single numbers.
    """
    unit = gradient / per_sample(max_abs(gradient).clamp_min(1e-12), gradient)
    return unit / per_sample(threat.size(x, unit).clamp_min(1e-12), unit)


def long_fmn(steps: int = 30, gamma: float = 0.2) -> FMN:
    """Return FMN by long steps: its size swings far, and it comes to valleys that short steps do not reach."""
    return FMN(steps, alpha=3.0, gamma=gamma)
