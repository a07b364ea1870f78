"""Frank-Wolfe: walks towards the best vertex of the set, so that no projection is needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from torch import Tensor

from robustatlas.common.bundle import Tree, over, per_sample
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel


@runtime_checkable
class HasLinearOracle(Protocol):
    """A threat model that knows the point of its set that maximises a linear function."""

    def linear_oracle(self, x: Tensor, theta: Tree, gradient: Tree, epsilon: Tensor) -> Tree: ...


@dataclass(frozen=True)
class FrankWolfe(Optimizer[State]):
    """Kang et al. 2019 (UAR), the l1 attacks: the t-th step goes 1 / (t + 1) of the way to the vertex, so theta is
    the mean of all vertices."""

    steps: int = 200

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, HasLinearOracle):
            raise unsearchable(self, threat, "a threat model with a linear oracle (L1, JpegL1)", "PGD or APGD")

    def init(self, problem: Problem, theta: Tree) -> State:
        return State(theta, counter(problem.epsilon))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        oracle = cast(HasLinearOracle, problem.threat)
        vertex = oracle.linear_oracle(problem.x, state.theta, evaluation.gradient, problem.epsilon)
        share = 1 / (state.step + 1).to(problem.epsilon.dtype)
        theta = over(lambda end, at: at + per_sample(share, end) * (end - at), vertex, state.theta)
        return State(theta, state.step + 1)
