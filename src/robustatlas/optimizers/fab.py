"""Fast Adaptive Boundary attack (Croce and Hein 2020b), targeted form: projects on the linearised boundary, back and
forth."""

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import clip_to_box

_LAST_OVERSHOOT = 5e-4
"""Way of the last move beyond the boundary, as a share of the way from the clean point: enough for rounding."""


@runtime_checkable
class HasHyperplane(Protocol):
    """A threat model that can project on a hyperplane (see :meth:`robustatlas.threats.lp.Lp.hyperplane`)."""

    def hyperplane(self, x: Tensor, theta: Tensor, normal: Tensor, rise: Tensor) -> Tensor: ...

    def size(self, x: Tensor, theta: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class FABState(State):
    """``arrived`` [B] bool: theta comes from a projection, not from a step back towards x."""

    arrived: Tensor


@dataclass(frozen=True)
class FAB(BoundaryOptimizer[FABState]):
    """Minimum-size attack for threat models that can project on a hyperplane.

    The boundary is linearised at theta. The next point mixes its points nearest to theta and nearest to the clean
    input. A misclassified theta is first drawn back towards the clean input.

    Attributes:
        steps: number of projections.
        alpha_max: largest weight of the point nearest to the clean input.
        eta: overshoot: length of a step, as a multiple of the way to the boundary.
        beta: share of its size that a misclassified theta keeps.
        exact: evaluate the network again after the step back, as AutoAttack does. Otherwise the linearisation at hand
            serves, one pass less, and the last move goes from the clean point to the boundary with hardly any
            overshoot.
    """

    title = "FAB"
    paper = "Croce and Hein 2020b"

    steps: int = 100
    alpha_max: float = 0.1
    eta: float = 1.05
    beta: float = 0.9
    exact: bool = False

    @property
    def evaluations(self) -> int:
        return (2 if self.exact else 1) * self.steps + 1

    def check(self, threat: ThreatModel) -> None:
        if not isinstance(threat, HasHyperplane):
            raise unsearchable(self, threat, "a threat model that can project on a hyperplane (the lp balls)", "FMN")

    def init(self, problem: Problem, theta: Tensor) -> FABState:
        return FABState(theta, counter(theta), torch.ones(len(theta), dtype=torch.bool, device=theta.device))

    def step(self, problem: Problem, state: FABState, evaluation: Evaluation) -> FABState:
        threat, x = cast(HasHyperplane, problem.threat), problem.x
        back = evaluation.fooled & state.arrived
        base = select(back, self.beta * state.theta, state.theta)
        normal = evaluation.gradient
        # The boundary is where the objective is zero: <normal, t - theta> = -objective, seen from the clean input and
        # from base. Both projections are one call, as each sorts the coordinates.
        rise_from_clean = (normal * state.theta).flatten(1).sum(1) - evaluation.objective
        rise = rise_from_clean - (normal * base).flatten(1).sum(1)
        clean = torch.zeros_like(base)
        starts, rises = torch.cat([base, clean]), torch.cat([rise, rise_from_clean])
        changes = threat.hyperplane(torch.cat([x, x]), starts, torch.cat([normal, normal]), rises)
        from_base, from_clean = changes.chunk(2)
        distance, distance_clean = (threat.size(x, each).clamp_min(1e-8) for each in (from_base, from_clean))
        alpha = per_sample((distance / (distance + distance_clean)).clamp_max(self.alpha_max), base)
        theta = (1 - alpha) * (base + self.eta * from_base) + alpha * self.eta * from_clean
        if not self.exact:
            last = state.step >= self.steps - 1
            theta = select(last, (1 + _LAST_OVERSHOOT) * from_clean, theta)
        theta = clip_to_box(x, theta)
        if not self.exact:
            return FABState(theta, state.step + 1, state.arrived)
        return FABState(select(back, base, theta), state.step + (~back).long(), ~back)
