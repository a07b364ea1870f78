"""Brendel and Bethge's attack (Brendel et al. 2019) in l1: walks along the boundary, each step the best one nearby."""

from dataclasses import dataclass

from robustatlas.common.bundle import dot
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import L1


@dataclass(frozen=True)
class BrendelBethge(BoundaryOptimizer[State]):
    """Minimum-size attack in l1 that goes on from an adversarial example: a step goes to the smallest change near theta
    that the linearised boundary lets through.

    "Near theta" is a box (a ball in the paper). In it the smallest such change is a linear program, which sorting
    solves exactly (:meth:`~robustatlas.threats.lp.L1.smallest_beyond`). The side of the box falls by the same factor at
    each step.

    Attributes:
        steps: number of steps of a run.
        reach: largest change of a value in the first step; 1: anywhere in the image's range.
        reach_end: largest change of a value in the last step.
        overshoot: way of a step beyond the linearised boundary, as a share of the way there (DeepFool's,
            Moosavi-Dezfooli et al. 2016).
        beyond: further way beyond it, as a share of the way from the image (FAB's for its last move). A point on the
            boundary itself is misclassified by rounding alone.
    """

    title = "Brendel-Bethge"
    paper = "Brendel et al. 2019"

    steps: int = 1000
    reach: float = 1.0
    reach_end: float = 0.01
    overshoot: float = 0.02
    beyond: float = 5e-4

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, L1):
            raise unsearchable(self, threat, "the l1 ball", "FMN")

    def step(self, problem: Problem, state: State, evaluation: Evaluation) -> State:
        threat, x = problem.threat, problem.x
        assert isinstance(threat, L1)
        progress = state.step.clamp_max(self.steps) / self.steps
        reach = self.reach * (self.reach_end / self.reach) ** progress.to(x.dtype)
        # In units of the objective: where it is linear, gradient . theta is its change along the way from the image.
        overshoot = self.overshoot * evaluation.objective.abs()
        overshoot += self.beyond * dot(evaluation.gradient, state.theta).abs()
        rise = overshoot - evaluation.objective
        theta = threat.smallest_beyond(x, state.theta, evaluation.gradient, rise, reach)
        return State(theta, state.step + 1)
