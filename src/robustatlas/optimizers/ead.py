"""Elastic-net attack (Chen et al. 2018), l1: iterative shrinkage with momentum, and bisection on the weight of the
margin."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, counter, unsearchable
from robustatlas.optimizers.carlini_wagner import Weighing
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import clip_to_box


@dataclass(frozen=True)
class EADState(State):
    """Progress within a round of the search for the weight.

    ``theta`` is in turn the look-ahead point (y of the paper), where the gradient is taken, and the shrunk point, which
    is judged (``judging`` [B] bool). ``shrunk`` and ``previous``: the last two shrunk points. ``move`` [B]: moves in
    this round. ``weighing``: weight of the margin.
    """

    judging: Tensor
    shrunk: Tensor
    previous: Tensor
    move: Tensor
    weighing: Weighing


@dataclass(frozen=True)
class EAD(BoundaryOptimizer[EADState]):
    """Minimise weight * max(-objective, 0) + ||theta||_2^2 + beta ||theta||_1 by FISTA (algorithm 1 of the paper).

    The objective is the margin of the wrong class: positive for an example.

    Attributes:
        inner_steps: moves of a round.
        rounds: weights that are tried.
        rate: length of the first step; it falls with the root of the moves that are left.
        weight: weight of the margin in the first round.
        beta: weight of the l1 norm, by which each move shrinks all coordinates.
    """

    title = "EAD"
    paper = "Chen et al. 2018"
    counted_by: ClassVar[str] = "inner_steps"

    inner_steps: int = 100
    rounds: int = 5
    rate: float = 0.01
    weight: float = 1e-2
    beta: float = 0.01

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Evaluations in all rounds: each move takes two."""
        return 2 * self.inner_steps * self.rounds

    def check(self, threat: ThreatModel) -> None:
        if not threat.additive:
            raise unsearchable(self, threat, "a threat model of changes of the image itself (such as L1)", "FMN")

    def init(self, problem: Problem, theta: Tensor) -> EADState:
        return EADState(
            theta=theta,
            step=counter(theta),
            judging=torch.zeros_like(problem.epsilon, dtype=torch.bool),
            shrunk=theta,
            previous=theta,
            move=counter(theta),
            weighing=Weighing.beginning(self.weight, problem.epsilon),
        )

    def step(self, problem: Problem, state: EADState, evaluation: Evaluation) -> EADState:
        x, move = problem.x, state.move.to(problem.x.dtype)
        # At the look-ahead point: a gradient step, then soft thresholding by beta (S_beta of the paper).
        active = (evaluation.objective < 0).to(x.dtype) * state.weighing.weight
        gradient = 2 * state.theta - per_sample(active, x) * evaluation.gradient
        length = per_sample(self.rate * (1 - move / self.inner_steps).clamp_min(0).sqrt(), x)
        moved = state.theta - length * gradient
        shrunk = clip_to_box(
            x, torch.where(moved.abs() > self.beta, moved - self.beta * moved.sign(), torch.zeros_like(moved))
        )
        # At the shrunk point: on to the next look-ahead point, with FISTA's momentum, or to the next round.
        ahead = clip_to_box(x, state.theta + per_sample(move / (move + 3), x) * (state.theta - state.previous))
        over = state.judging & (state.move >= self.inner_steps)
        clean = torch.zeros_like(state.theta)
        return EADState(
            theta=select(over, clean, select(state.judging, ahead, shrunk)),
            step=state.step + 1,
            judging=~state.judging,
            shrunk=select(over, clean, select(state.judging, state.shrunk, shrunk)),
            previous=select(over, clean, select(state.judging, state.previous, state.shrunk)),
            move=torch.where(over, 0, state.move + (~state.judging).long()),
            weighing=state.weighing.next_weighing(evaluation.fooled, over),
        )
