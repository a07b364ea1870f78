"""The closed form of linear networks: the exact distance of every decision boundary, inside the box."""

from dataclasses import dataclass, replace
from typing import ClassVar, cast

import torch
from torch import Tensor

from robustatlas.attacks.definition import Attack
from robustatlas.certificates.base import MARGIN_OF_SIZES, Certificate, Samples, Subject, norm_of
from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.regions import NormBall
from robustatlas.certificates.windowed import Windowed
from robustatlas.common.errors import UserError
from robustatlas.threats.lp import Lp


@dataclass(frozen=True)
class Linear(Certificate):
    """Distances to the planes where two logits are equal, of points in [0, 1]: exact but for rounding.

    Example:
        >>> Linear().name
        'linear'
    """

    name: ClassVar[str] = "linear"
    source: ClassVar[str] = "closed form: Karush, Kuhn and Tucker on a plane in a box"
    covers: ClassVar[str] = "it covers linf, l2, l1 and l0"

    def supports(self, attack: Attack) -> bool:
        return norm_of(attack) is not None

    def check(self, subject: Subject, attack: Attack) -> None:
        super().check(subject, attack)
        if not subject.network.graph.is_affine:
            raise UserError(
                f"{subject.model.name} is not linear, and the certificate 'linear' is for networks without "
                "activations; use 'crown'."
            )

    def sizes(self, subject: Subject, attack: Attack, samples: Samples) -> Tensor:
        p, network = cast(Lp, attack.threat).p, subject.network
        everywhere = NormBall(samples.x, samples.x.new_full((len(samples.x),), 1.0), torch.inf)
        bounds = Bounds(network, everywhere, backwards=False)
        rows, owner, _ = bounds.margin_rows(samples.labels)
        plane = bounds.planes(network.graph.output, Windowed.full(rows), owner)
        assert plane.slope is not None
        distance = replace(everywhere, p=p).reach(plane.slope, plane.constant, owner)
        found = distance.view(len(samples.x), -1).amin(1)
        if p == 0:  # what is certified is a count below that which is needed
            found = torch.where(found > 0, found - 1, found)
        return (found / MARGIN_OF_SIZES if p else found).cpu()
