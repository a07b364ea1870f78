"""sigma-zero (Cinà et al. 2025): minimum-l0 attack by a smooth count of the changed coordinates."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, annealed, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import norm, to_box

_TINY = 1e-12


@dataclass(frozen=True)
class SigmaZeroState(State):
    """``threshold`` [B]: smaller changes are set to zero; ``mean`` and ``square``: running means of the gradient and of
    its square."""

    threshold: Tensor
    mean: Tensor
    square: Tensor


@dataclass(frozen=True)
class SigmaZero(BoundaryOptimizer[SigmaZeroState]):
    """Descends max(margin, 0) + mean(delta^2 / (delta^2 + sigma)) with gradients scaled by their largest entry; the
    threshold rises while theta is adversarial and falls while it is not.

    Steps are Adam's, as in the authors' code (with plain ones the examples have many more values); their length falls
    with a cosine to ``rate_end`` x ``rate``.
    """

    title = "sigma-zero"
    paper = "Cinà et al. 2025"

    steps: int = 100
    rate: float = 1.0
    sigma: float = 1e-3
    threshold: float = 0.3
    threshold_rate: float = 0.01
    rate_end: float = 0.1
    betas: tuple[float, float] = (0.9, 0.999)

    def check(self, threat: ThreatModel) -> None:
        if not threat.additive:
            raise unsearchable(self, threat, "a threat model of changes of the image itself (such as L0)", "FMN")

    def init(self, problem: Problem, theta: Tensor) -> SigmaZeroState:
        zero, threshold = torch.zeros_like(theta), torch.full_like(problem.epsilon, self.threshold)
        return SigmaZeroState(theta, counter(theta), threshold, zero, zero)

    def step(self, problem: Problem, state: SigmaZeroState, evaluation: Evaluation) -> SigmaZeroState:
        theta = state.theta
        step = state.step.to(theta.dtype)
        falling = annealed(state.step, self.steps, theta)
        rate = self.rate * (self.rate_end + (1 - self.rate_end) * falling)
        count = 2 * theta * self.sigma / (theta.square() + self.sigma).square() / theta[0].numel()
        gradient = count - select(evaluation.fooled, torch.zeros_like(theta), evaluation.gradient)
        gradient = gradient / (per_sample(norm(gradient, torch.inf), gradient) + _TINY)
        first, second = self.betas
        mean, square = state.mean.lerp(gradient, 1 - first), state.square.lerp(gradient.square(), 1 - second)
        length = rate / (1 - first ** (step + 1))
        spread = (square / per_sample(1 - second ** (step + 1), square)).sqrt() + 1e-8
        moved = to_box(problem.x, theta - per_sample(length, theta) * mean / spread)
        change = torch.where(evaluation.fooled, self.threshold_rate, -self.threshold_rate).to(rate.dtype) * rate
        threshold = (state.threshold + change).clamp(0, 1)
        kept = moved.abs() >= per_sample(threshold, moved)
        return SigmaZeroState(moved * kept, state.step + 1, threshold, mean, square)
