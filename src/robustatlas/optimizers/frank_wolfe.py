"""Frank-Wolfe: walks towards the best vertex of the set, so that no projection is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

from torch import Tensor

from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter
from robustatlas.threats.base import per_sample


class HasLinearOracle(Protocol):
    """A threat model that knows the point of its set that maximises a linear function."""

    def linear_oracle(self, x: Tensor, theta: Tensor, gradient: Tensor, epsilon: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class FrankWolfe(Optimizer[State]):
    """Kang et al. 2019 (UAR), the l1 attacks: the t-th step goes 1 / (t + 1) of the way to the vertex, so theta is
    the mean of all vertices."""

    steps: int = 200

    def init(self, problem: Problem, theta: Tensor) -> State:
        return State(theta, counter(theta))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        oracle = cast(HasLinearOracle, problem.threat)
        vertex = oracle.linear_oracle(problem.x, state.theta, evaluation.gradient, problem.epsilon)
        share = per_sample(1 / (state.step + 1).to(vertex.dtype), vertex)
        return State(state.theta + share * (vertex - state.theta), state.step + 1)
