"""Steps towards the best vertex of a set: Frank-Wolfe, which needs no projection, and ascent in the set and the box."""

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from robustatlas.common.bundle import Tree, map_tensors, per_sample
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, unsearchable
from robustatlas.threats.base import ThreatModel


@runtime_checkable
class HasLinearOracle(Protocol):
    """A threat model that knows the point of its set that maximises a linear function."""

    def linear_oracle(self, x: Tensor, theta: Tree, gradient: Tree, epsilon: Tensor) -> Tree: ...


@dataclass(frozen=True)
class FrankWolfe(Optimizer[State]):
    """Frank-Wolfe as the l1 attacks of Kang et al. 2019 (UAR) run it.

    Step t, from 0, goes 1 / (t + 1) of the way to the vertex. The first one goes all the way, so theta is the mean of
    the vertices so far.
    """

    title = "Frank-Wolfe"
    paper = "Kang et al. 2019"

    steps: int = 200

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, HasLinearOracle):
            raise unsearchable(self, threat, "a threat model with a linear oracle (L1, JpegL1)", "PGD or APGD")

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        oracle = cast(HasLinearOracle, problem.threat)
        vertex = oracle.linear_oracle(problem.x, state.theta, evaluation.gradient, problem.epsilon)
        share = 1 / (state.step + 1).to(problem.epsilon.dtype)
        theta = map_tensors(lambda end, start: start + per_sample(share, end) * (end - start), vertex, state.theta)
        return State(theta, state.step + 1)


@dataclass(frozen=True)
class VertexAscent(Optimizer[State]):
    """Ascent to the best vertex of the set of size ``rate`` x epsilon around the current point, then back into the set.

    In l1 a step moves the coordinates of largest gradient that the box leaves room to move, each as far as it does,
    until the length of the step is used up. (Maini et al. 2020 move a fixed number of such coordinates by equal parts.)
    """

    title = "vertex ascent"

    steps: int = 20
    rate: float = 0.25

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, HasLinearOracle) or not threat.additive:
            raise unsearchable(self, threat, "an lp ball with a linear oracle (L1)", "PGD or APGD")

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        threat, x = problem.threat, problem.x
        here, length = threat.apply(x, state.theta), self.rate * problem.epsilon
        move = cast(HasLinearOracle, threat).linear_oracle(here, state.theta, evaluation.gradient, length)
        theta = map_tensors(torch.add, state.theta, move)
        return State(threat.project(x, theta, problem.epsilon), state.step + 1)
