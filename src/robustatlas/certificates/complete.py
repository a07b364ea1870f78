"""Complete certificates: the very size of the smallest example of tiny ReLU networks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import MARGIN_OF_SIZES, Certificate, Samples, Subject, norm_of
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.cells import distance_to
from robustatlas.certificates.crown import Crown
from robustatlas.certificates.milp import Inside, NearestPoint
from robustatlas.certificates.piecewise import AffineMap, Floats, Piecewise, deviations, other_than_relu
from robustatlas.certificates.regions import NormBall
from robustatlas.common.errors import UserError
from robustatlas.threats.lp import Lp, whole

_MOST_NEURONS = 2048
_CERTAIN = 1 - 1e-7
"""What rounding of the solvers leaves of a distance."""


@dataclass(frozen=True)
class Complete(Certificate):
    """Looks at every linear piece of a network that may hold a smaller example: linf, l1 and l0 by mixed-integer
    programming, l2 by the activation regions around the sample.

    Balls grow from what CROWN certifies until one holds an example. A size is exact but for rounding and, where the
    search ends early, a lower bound. What the solver's tolerance of 1e-7 leaves open is taken off.

    Attributes:
        nodes: of the branch and bound of each sample and class and ball, at most (linf, l1, l0).
        regions: half spaces to look behind of each sample and ball, at most (l2).

    Example:
        >>> Complete(nodes=1000).nodes
        1000
    """

    name: ClassVar[str] = "complete"
    source: ClassVar[str] = "Tjeng et al. 2019 (MIP); l2: activation regions, nearest first"
    covers: ClassVar[str] = "it covers linf, l2, l1 and l0"

    nodes: int = 100_000
    regions: int = 20_000

    def fits(self, attack: Attack) -> bool:
        return norm_of(attack) is not None

    def check(self, subject: Subject, attack: Attack) -> None:
        super().check(subject, attack)
        other = other_than_relu(subject.network)
        neurons = sum(torch.Size(subject.network.graph.nodes[k].shape).numel() for k in subject.network.nonlinear)
        if other or neurons > _MOST_NEURONS:
            found = f"{other}" if other else f"{neurons:,} of them"
            raise UserError(
                f"The certificate 'complete' is for networks of at most {_MOST_NEURONS:,} ReLUs, and "
                f"{subject.model.name} has {found}; use 'crown' or 'alpha-crown'."
            )

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        p = cast(Lp, attack.threat).p
        net, ceiling = Piecewise.of(subject.network), whole(p, samples.x[0].numel()) if p else torch.inf
        certain = torch.zeros(len(samples.x), dtype=torch.float64)
        if p:
            certain = Crown().sizes(subject, attack, samples)
        radius = (2 * certain).clamp(ceiling / 1000, ceiling) if p else torch.full_like(certain, torch.inf)
        open_ = certain.isfinite().nonzero().squeeze(1)
        while len(open_):
            found = self._nearest(subject, net, samples.take(open_), p, radius[open_])
            at_all = radius[open_] >= ceiling
            kept = torch.where(found.isinf() & ~at_all, radius[open_] / MARGIN_OF_SIZES, _certified(found, p))
            certain[open_] = torch.maximum(certain[open_], kept)
            open_ = open_[found.isinf() & ~at_all]
            radius[open_] = (2 * radius[open_]).clamp_max(ceiling)
        return certain

    def _nearest(self, subject: Subject, net: Piecewise, samples: Samples, p: float, radius: Tensor) -> Tensor:
        """``[B]``: lower bounds of the distance to a mistake; inf where none is in the ball."""
        x, labels = samples.x, samples.labels
        around = radius.to(x.device) if p else torch.ones_like(radius).to(x.device)
        bounds = Bounds.of(subject.network, NormBall(x, around, p or torch.inf), backwards=True)
        margins, off = bounds.margins(labels, backwards=True).cpu().numpy(), deviations(bounds).cpu().numpy()
        found = []
        for row, label in enumerate(labels.tolist()):
            inside = _inside(bounds, net, row, x[row], p, float(radius[row]))
            others = [int(j) for j in np.argsort(margins[row]) if margins[row][j] <= 0]
            rows = [
                (net.logits.rows(_margin(label, j, len(off[row]))), float(off[row][[label, j]].sum())) for j in others
            ]
            found.append(self._of_sample(net, inside, rows))
        return torch.where(bounds.overflows.cpu(), 0.0, torch.tensor(found, dtype=torch.float64))

    def _of_sample(self, net: Piecewise, inside: Inside, margins: list[tuple[AffineMap, float]]) -> float:
        if inside.p == 2:
            return distance_to(net, inside, margins, self.regions)[0]
        nearest = float("inf") if inside.p == 0 else inside.radius
        program, found = NearestPoint(net, inside) if margins else None, float("inf")
        for margin, most in margins:
            assert program is not None
            bound = program.bound(margin, most, min(nearest, found), self.nodes)
            found = min(found, bound)
        return found


def _certified(found: Tensor, p: float) -> Tensor:
    """Certified sizes of distances; of l0, where a size counts numbers, one below what is needed."""
    return torch.where(found > 0, found - 1, found) if p == 0 else found * _CERTAIN / MARGIN_OF_SIZES


def _margin(label: int, other: int, classes: int) -> Floats:
    row = np.zeros((1, classes))
    row[0, label], row[0, other] = 1.0, -1.0
    return row


def _inside(bounds: Bounds, net: Piecewise, row: int, x: Tensor, p: float, radius: float) -> Inside:
    nodes: Mapping[int, int] = {0: 0} | {k: bounds.network.graph.nodes[k].inputs[0] for k in net.layers}
    low, high = (
        {at: side[of][row].flatten().cpu().numpy() for at, of in nodes.items()} for side in (bounds.low, bounds.high)
    )
    low[0], high[0] = low[0].clip(0, 1), high[0].clip(0, 1)
    return Inside(x.flatten().cpu().numpy(), low, high, p, radius)
