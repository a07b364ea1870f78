"""Perceptual projected gradient descent (Laidlaw et al. 2021, App. A.1)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from robustatlas.common.bundle import dot, per_sample, select
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, S, State, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import clip_to_box
from robustatlas.threats.perceptual import Perceptual

_SMALL = 1e-4
"""Norm below which a gradient counts as zero, and the sample stays where it is."""


class PerceptualOptimizer(Optimizer[S]):
    """Base of optimizers that search a perceptual distance."""

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, Perceptual):
            raise unsearchable(self, threat, "a perceptual distance (Perceptual)", "PGD or APGD")


def capped_gradient(evaluation: Evaluation, confidence: float) -> Tensor:
    """Return the gradient of min(confidence, objective): zero for samples that are fooled by that much already."""
    gradient: Tensor = evaluation.gradient
    return select(evaluation.objective < confidence, gradient, torch.zeros_like(gradient))


@dataclass(frozen=True)
class PPGD(PerceptualOptimizer[State]):
    """Ascent in the direction that raises the objective most for its change of the features phi, then projection.

    With J the Jacobian of phi, the direction s solves (J^T J) s = gradient. A step costs up to ``conjugate`` + 3
    passes through the features, besides those of the projection.

    Attributes:
        steps: number of steps of a run.
        rate: way that the features move in a step, as a share of epsilon.
        conjugate: iterations of conjugate gradients, by which the system is solved.
        width: width of the finite differences that give J v.
        confidence: the objective counts as far as this.
    """

    title = "PPGD"
    paper = "Laidlaw et al. 2021"
    needs_margin: ClassVar[bool] = True

    steps: int = 40
    rate: float = 2 / 40
    conjugate: int = 5
    width: float = 1e-3
    confidence: float = 1.0

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        threat = cast(Perceptual, problem.threat)
        x, gradient = problem.x, capped_gradient(evaluation, self.confidence)
        embed = threat.phi.embed
        with torch.enable_grad():
            point: Tensor = (x + state.theta).detach().requires_grad_()
            features = embed(point)

        def jacobian_product(direction: Tensor) -> Tensor:
            """Return J v, by a finite difference."""
            with torch.no_grad():
                return (embed(point + self.width * direction) - features) / self.width

        def normal_product(direction: Tensor) -> Tensor:
            """Return J^T J v."""
            product: Tensor = torch.autograd.grad(features, point, jacobian_product(direction), retain_graph=True)[0]
            return product

        direction = self._solve(normal_product, gradient)
        speed = jacobian_product(direction).flatten(1).norm(dim=1)
        length = self.rate * problem.epsilon / speed.clamp_min(1e-12)
        moves = (gradient.flatten(1).norm(dim=1) >= _SMALL) & (speed > 0)
        theta = select(moves, clip_to_box(x, state.theta + per_sample(length, x) * direction), state.theta)
        return State(threat.project(x, theta, problem.epsilon), state.step + 1)

    def _solve(self, matrix: Callable[[Tensor], Tensor], right: Tensor) -> Tensor:
        """Return the solution of ``matrix`` (solution) = ``right`` by conjugate gradients.

        After the first iteration a sample stops once its squared residual is below .1.
        """
        solution, residual, direction = torch.zeros_like(right), right, right
        square = dot(residual, residual)
        for iteration in range(self.conjugate):
            image = matrix(direction)
            curvature = dot(direction, image)
            active = (curvature > 0) & ((square >= 0.1) | (iteration == 0))
            if not bool(active.any()):
                break
            length = torch.where(active, square / torch.where(active, curvature, 1.0), 0.0)
            solution = solution + per_sample(length, solution) * direction
            residual = residual - per_sample(length, residual) * image
            previous, square = square, dot(residual, residual)
            direction = residual + per_sample(square / previous.clamp_min(1e-20), direction) * direction
        return solution
