"""Carlini and Wagner's l2 attack (2017): gradient descent on size plus weighted margin, with bisection on the
weight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel

_BETA_1, _BETA_2, _ADAM_EPSILON = 0.9, 0.999, 1e-8
_INSIDE = 1 - 1e-6


def next_weight(weight: Tensor, low: Tensor, high: Tensor, found: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``(weight, low, high)`` [B] of the margin after a round in which an example was ``found`` [B] or not, as
    Carlini-Wagner and EAD search it: ten times larger while nothing is found, then halving the bracket."""
    high = torch.where(found, torch.minimum(high, weight), high)
    low = torch.where(found, low, torch.maximum(low, weight))
    return torch.where(high.isfinite(), (low + high) / 2, weight * 10), low, high


@dataclass(frozen=True)
class CarliniWagnerState(State):
    """``w``: the variable, x_adv = (tanh(w) + 1) / 2; Adam's moments and step; the weight of the margin with its
    bracket; ``found`` in this round."""

    w: Tensor
    first: Tensor
    second: Tensor
    move: Tensor
    weight: Tensor
    low: Tensor
    high: Tensor
    found: Tensor


@dataclass(frozen=True)
class CarliniWagner(Optimizer[CarliniWagnerState]):
    """Minimises ||delta||_2^2 + weight * max(margin + confidence, 0) over w."""

    needs_margin: ClassVar[bool] = True
    minimum_size: ClassVar[bool] = True

    inner_steps: int = 100
    rounds: int = 5
    rate: float = 0.01
    weight: float = 1e-2
    confidence: float = 0.0

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Moves in all rounds."""
        return self.inner_steps * self.rounds

    def lengthened(self, factor: float) -> Self:
        return self._with_steps("inner_steps", factor)

    def check(self, threat: ThreatModel) -> None:
        if not threat.additive:
            raise unsearchable(self, threat, "a threat model of changes of the image itself (such as L2)", "FMN")

    def init(self, problem: Problem, theta: Tensor) -> CarliniWagnerState:
        zero, nothing = torch.zeros_like(theta), torch.zeros_like(problem.epsilon)
        return CarliniWagnerState(
            theta=theta,
            step=counter(theta),
            w=self._variable(problem.x + theta),
            first=zero,
            second=zero,
            move=counter(theta),
            weight=torch.full_like(nothing, self.weight),
            low=nothing,
            high=torch.full_like(nothing, torch.inf),
            found=torch.zeros_like(nothing, dtype=torch.bool),
        )

    @staticmethod
    def _variable(x: Tensor) -> Tensor:
        return torch.atanh((2 * x - 1) * _INSIDE)

    def step(self, problem: Problem, state: CarliniWagnerState, evaluation: Evaluation) -> CarliniWagnerState:
        x = problem.x
        found = state.found | evaluation.fooled
        active = (evaluation.objective < self.confidence).to(x.dtype) * state.weight
        inside = torch.tanh(state.w)
        gradient = (2 * state.theta - per_sample(active, x) * evaluation.gradient) * (1 - inside.square()) / 2
        first = _BETA_1 * state.first + (1 - _BETA_1) * gradient
        second = _BETA_2 * state.second + (1 - _BETA_2) * gradient.square()
        t = (state.move + 1).to(x.dtype)
        scale = per_sample(self.rate * (1 - _BETA_2**t).sqrt() / (1 - _BETA_1**t), x)
        w = state.w - scale * first / (second.sqrt() + _ADAM_EPSILON)

        over = state.move + 1 >= self.inner_steps
        weight, low, high = next_weight(state.weight, state.low, state.high, found)
        w = select(over, self._variable(x), w)
        return CarliniWagnerState(
            theta=(torch.tanh(w) + 1) / 2 - x,
            step=state.step + 1,
            w=w,
            first=select(over, torch.zeros_like(first), first),
            second=select(over, torch.zeros_like(second), second),
            move=torch.where(over, 0, state.move + 1),
            weight=torch.where(over, weight, state.weight),
            low=torch.where(over, low, state.low),
            high=torch.where(over, high, state.high),
            found=found & ~over,
        )
