"""Elastic-net attack (Chen et al. 2018), l1: iterative shrinkage with momentum, and bisection on the weight of the
margin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.optimizers.carlini_wagner import next_weight
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import to_box


@dataclass(frozen=True)
class EADState(State):
    """``theta`` is in turn the look-ahead point, where the gradient is taken, and the shrunk point, which is judged
    (``judging``).

    ``shrunk`` and the moves since the round began; the weight with its bracket; ``found`` in this round.
    """

    judging: Tensor
    shrunk: Tensor
    previous: Tensor
    move: Tensor
    weight: Tensor
    low: Tensor
    high: Tensor
    found: Tensor


@dataclass(frozen=True)
class EAD(Optimizer[EADState]):
    """Minimises weight * max(margin, 0) + ||delta||_2^2 + beta ||delta||_1 by FISTA."""

    needs_margin: ClassVar[bool] = True
    minimum_size: ClassVar[bool] = True

    inner_steps: int = 100
    rounds: int = 5
    rate: float = 0.01
    weight: float = 1e-2
    beta: float = 0.01

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Evaluations in all rounds: each move takes two."""
        return 2 * self.inner_steps * self.rounds

    def lengthened(self, factor: float) -> Self:
        return self._with_steps("inner_steps", factor)

    def check(self, threat: ThreatModel) -> None:
        if not threat.additive:
            raise unsearchable(self, threat, "a threat model of changes of the image itself (such as L1)", "FMN")

    def init(self, problem: Problem, theta: Tensor) -> EADState:
        nothing = torch.zeros_like(problem.epsilon)
        never = torch.zeros_like(nothing, dtype=torch.bool)
        return EADState(
            theta=theta,
            step=counter(theta),
            judging=never,
            shrunk=theta,
            previous=theta,
            move=counter(theta),
            weight=torch.full_like(nothing, self.weight),
            low=nothing,
            high=torch.full_like(nothing, torch.inf),
            found=never,
        )

    def step(self, problem: Problem, state: EADState, evaluation: Evaluation) -> EADState:
        x, move = problem.x, state.move.to(problem.x.dtype)
        found = state.found | evaluation.fooled
        # At the look-ahead point: a gradient step, then soft thresholding.
        active = (evaluation.objective < 0).to(x.dtype) * state.weight
        gradient = 2 * state.theta - per_sample(active, x) * evaluation.gradient
        length = per_sample(self.rate * (1 - move / self.inner_steps).clamp_min(0).sqrt(), x)
        moved = state.theta - length * gradient
        shrunk = to_box(
            x, torch.where(moved.abs() > self.beta, moved - self.beta * moved.sign(), torch.zeros_like(moved))
        )
        # At the shrunk point: on to the next look-ahead point, or to the next round.
        ahead = to_box(x, state.theta + per_sample(move / (move + 3), x) * (state.theta - state.previous))
        over = state.judging & (state.move >= self.inner_steps)
        weight, low, high = next_weight(state.weight, state.low, state.high, found)
        zero = torch.zeros_like(state.theta)
        return EADState(
            theta=select(over, zero, select(state.judging, ahead, shrunk)),
            step=state.step + 1,
            judging=~state.judging,
            shrunk=select(over, zero, select(state.judging, state.shrunk, shrunk)),
            previous=select(over, zero, select(state.judging, state.previous, state.shrunk)),
            move=torch.where(over, 0, state.move + (~state.judging).long()),
            weight=torch.where(over, weight, state.weight),
            low=torch.where(over, low, state.low),
            high=torch.where(over, high, state.high),
            found=found & ~over,
        )
