"""alpha-CROWN: CROWN with the slopes of its lower lines chosen by ascent on the bound."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.activations import Activation, Lines
from robustatlas.certificates.base import Samples, Subject
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.crown import Crown
from robustatlas.certificates.interval import InBalls
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.windowed import Windowed


@dataclass(frozen=True)
class AlphaCrown(InBalls):
    """CROWN's bounds of the hidden layers, and slopes of the lower lines that raise the smallest margins.

    Attributes:
        steps: of Adam, 20 to 100 in the source.
        rate: of a step, for slopes between 0 and 1.

    Source: Xu et al. 2021, Fast and Complete: Enabling Complete Verification with Rapid and Massively Parallel
    Incomplete Verifiers, section 3.2; here the bounds of the hidden layers stay those of CROWN.

    Example:
        >>> AlphaCrown().steps
        20
    """

    name: ClassVar[str] = "alpha-crown"
    source: ClassVar[str] = "Xu et al. 2021 (alpha-CROWN)"

    steps: int = 20
    rate: float = 0.1

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        return self.largest(subject, attack, samples, Crown().sizes(subject, attack, samples))

    def reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        found, reach = bounds.reaches(labels)
        rows, owner, place = bounds.margin_rows(labels)
        open_ = found[owner, place] <= 0
        parts = (torch.split(each[open_], bounds.network.at_once) for each in (rows, owner, place))
        for some, of, to in zip(*parts, strict=True):
            if len(some):
                better = self._ascended(bounds, some, of)
                for mine, new in zip((found, reach), better, strict=True):
                    mine[of, to] = torch.maximum(mine[of, to], new)
        return found, reach

    def _ascended(self, bounds: Bounds, rows: Tensor, owner: Tensor) -> tuple[Tensor, Tensor]:
        """``[R]``: the best bounds on the way and the largest reaches; the first slopes are those of CROWN."""
        graph, region = bounds.network.graph, bounds.region
        assert isinstance(region, NormBall)
        slopes, chosen = {}, {}
        for k, lines in bounds.lines.items():
            operation, source = graph.nodes[k].operation, graph.nodes[k].inputs[0]
            if isinstance(lines, Lines) and isinstance(operation, Activation):
                first = lines.low_slope[owner]
                slopes[k] = first.clone().requires_grad_()
                chosen[k] = operation, operation.bends(bounds.low[source], bounds.high[source])[owner], first
        best, furthest = rows.new_full((len(rows),), -torch.inf), rows.new_zeros(len(rows))
        if not slopes:
            return best, furthest
        optimizer = torch.optim.Adam(slopes.values(), self.rate)
        for _ in range(self.steps):
            with torch.enable_grad():
                plane, constant = bounds.planes(graph.output, Windowed.all(rows), owner, slopes=slopes)
                assert plane is not None
                value = constant + region.lowest(plane, owner)
                optimizer.zero_grad()
                (-value.sum()).backward()  # type: ignore[no-untyped-call]  # torch declares no types here
            best = torch.maximum(best, value.detach())
            reach = region.reach(plane.but(plane.values.detach()), constant.detach(), owner)
            furthest = torch.maximum(furthest, reach)
            optimizer.step()
            for k, slope in slopes.items():  # a straight piece keeps its own line
                operation, bends, first = chosen[k]
                slope.data.copy_(torch.where(bends, slope.data.clamp(*operation.slopes), first))
        return best, furthest
