"""Fast Adaptive Boundary attack (Croce and Hein 2020b), targeted form: projects on the linearised boundary, back and
forth."""

from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

import torch
from torch import Tensor

from robustatlas.common.bundle import per_sample, select
from robustatlas.optimizers.base import BoundaryOptimizer, Evaluation, Problem, State, counter, unsearchable
from robustatlas.threats.base import ThreatModel
from robustatlas.threats.lp import to_box

_LAST_OVERSHOOT = 5e-4


@runtime_checkable
class HasHyperplane(Protocol):
    """A threat model that can project on a hyperplane (see :meth:`robustatlas.threats.lp.Lp.hyperplane`)."""

    def hyperplane(self, x: Tensor, theta: Tensor, normal: Tensor, rise: Tensor) -> Tensor: ...

    def size(self, x: Tensor, theta: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class FABState(State):
    """``arrived``: theta comes from a projection (rather than from a step back towards x)."""

    arrived: Tensor


@dataclass(frozen=True)
class FAB(BoundaryOptimizer[FABState]):
    """Minimum-size attack for threat models that can project on a hyperplane.

    From theta and from the clean point the nearest points on the linearised boundary are mixed (bias ``alpha_max``
    towards the clean one, overshoot ``eta``); a misclassified theta is first drawn back by ``beta``. ``exact``
    evaluates the network again after the step back, as AutoAttack does; otherwise the linearisation at hand serves,
    one pass less, and the last move goes from the clean point to the boundary with hardly any overshoot.
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
        rise_from_clean = (normal * state.theta).flatten(1).sum(1) - evaluation.objective
        rise = rise_from_clean - (normal * base).flatten(1).sum(1)
        clean = torch.zeros_like(base)
        both, rises = torch.cat([base, clean]), torch.cat([rise, rise_from_clean])
        near, far = threat.hyperplane(torch.cat([x, x]), both, torch.cat([normal, normal]), rises).chunk(2)
        distance, distance_clean = threat.size(x, near).clamp_min(1e-8), threat.size(x, far).clamp_min(1e-8)
        alpha = per_sample((distance / (distance + distance_clean)).clamp_max(self.alpha_max), base)
        theta = (1 - alpha) * (base + self.eta * near) + alpha * self.eta * far
        if not self.exact:
            last = state.step >= self.steps - 1
            theta = select(last, (1 + _LAST_OVERSHOOT) * far, theta)
        theta = to_box(x, theta)
        if not self.exact:
            return FABState(theta, state.step + 1, state.arrived)
        return FABState(select(back, base, theta), state.step + (~back).long(), ~back)
