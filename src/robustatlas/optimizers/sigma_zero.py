"""sigma-zero (Cinà et al. 2025): minimum-l0 attack by a smooth count of the changed coordinates."""

from dataclasses import dataclass

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, annealed, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import clip_to_box, norm

_TINY = 1e-12


@dataclass(frozen=True)
class SigmaZeroState(State):
    """``threshold`` [B]: smaller changes are set to zero (tau of the paper). ``mean`` and ``square``: running means of
    the gradient and of its square, shaped like theta."""

    threshold: Tensor
    mean: Tensor
    square: Tensor


@dataclass(frozen=True)
class SigmaZero(BoundaryOptimizer[SigmaZeroState]):
    """Descend max(-objective, 0) + mean(theta^2 / (theta^2 + sigma)) with gradients scaled by their largest entry.

    The objective is the margin of the wrong class: positive for an example. The mean is a smooth count of the changed
    values. Smaller changes than a threshold are set to zero. Steps are Adam's, as in the authors' code (with plain
    ones the examples have many more values).

    Attributes:
        steps: number of steps of a run.
        rate: length of the first step (eta_0 of the paper).
        sigma: square of the change that counts as half a changed value.
        threshold: the first threshold.
        threshold_rate: change of the threshold in a step of length 1: up if theta is adversarial, else down.
        rate_end: length of the last step, as a share of ``rate``; it falls with a cosine.
        betas: decays of Adam's means.
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
        zeros, threshold = torch.zeros_like(theta), torch.full_like(problem.epsilon, self.threshold)
        return SigmaZeroState(theta, counter(theta), threshold, zeros, zeros)

    def step(self, problem: Problem, state: SigmaZeroState, evaluation: Evaluation) -> SigmaZeroState:
        theta = state.theta
        step = state.step.to(theta.dtype)
        falling = annealed(state.step, self.steps, theta)
        rate = self.rate * (self.rate_end + (1 - self.rate_end) * falling)
        count_gradient = 2 * theta * self.sigma / (theta.square() + self.sigma).square() / theta[0].numel()
        gradient = count_gradient - select(evaluation.fooled, torch.zeros_like(theta), evaluation.gradient)
        gradient = gradient / (per_sample(norm(gradient, torch.inf), gradient) + _TINY)
        # Adam's bias-corrected step (Kingma and Ba 2015).
        beta_1, beta_2 = self.betas
        mean, square = state.mean.lerp(gradient, 1 - beta_1), state.square.lerp(gradient.square(), 1 - beta_2)
        length = rate / (1 - beta_1 ** (step + 1))
        deviation = (square / per_sample(1 - beta_2 ** (step + 1), square)).sqrt() + 1e-8
        moved = clip_to_box(problem.x, theta - per_sample(length, theta) * mean / deviation)
        # More is set to zero while that leaves an example, less until there is one again.
        change = torch.where(evaluation.fooled, self.threshold_rate, -self.threshold_rate).to(rate.dtype) * rate
        threshold = (state.threshold + change).clamp(0, 1)
        kept = moved.abs() >= per_sample(threshold, moved)
        return SigmaZeroState(moved * kept, state.step + 1, threshold, mean, square)
