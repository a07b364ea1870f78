"""Steepest ascent in the set and the box together: for l1, coordinates moved to the border of the box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from robustatlas.common.bundle import Tree, over
from robustatlas.optimizers.base import Evaluation, Optimizer, Problem, State, counter, unsearchable
from robustatlas.optimizers.frank_wolfe import HasLinearOracle
from robustatlas.threats.base import ThreatModel


@dataclass(frozen=True)
class VertexAscent(Optimizer[State]):
    """Each step goes to the best vertex of the set of size ``rate`` x epsilon around the current point, then back into
    the set.

    In l1 that moves the coordinates of largest gradient that the box leaves room to move, each as far as it does, until
    the length of the step is used up. (Maini et al. 2020 move a fixed number of such coordinates by equal parts.)
    """

    steps: int = 20
    rate: float = 0.25

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, HasLinearOracle) or not threat.additive:
            raise unsearchable(self, threat, "an lp ball with a linear oracle (L1)", "PGD or APGD")

    def init(self, problem: Problem, theta: Tree) -> State:
        return State(theta, counter(problem.epsilon))

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        threat, x = problem.threat, problem.x
        here, length = threat.apply(x, state.theta), self.rate * problem.epsilon
        move = cast(HasLinearOracle, threat).linear_oracle(here, state.theta, evaluation.gradient, length)
        theta = over(lambda at, ahead: at + ahead, state.theta, move)
        return State(threat.project(x, theta, problem.epsilon), state.step + 1)
