"""CROWN: linear bounds from the margins back to the input, with linear bounds of every layer on the way; and CROWN-IBP,
with intervals of the hidden layers: cheap, and looser."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.interval import InBalls


@dataclass(frozen=True)
class Crown(InBalls):
    """Bounds backwards by lines, those of the hidden layers too.

    Source: Zhang et al. 2018, Efficient Neural Network Robustness Certification with General Activation Functions,
    theorem 3.2, with the lower line of a ReLU of slope 1 or 0 (CROWN-Ada).

    Example:
        >>> Crown().name
        'crown'
    """

    name: ClassVar[str] = "crown"
    source: ClassVar[str] = "Zhang et al. 2018 (CROWN)"

    def reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        return bounds.reaches(labels)


@dataclass(frozen=True)
class CrownIBP(InBalls):
    """Bounds of the margins backwards by lines, of the hidden layers by intervals; never below the intervals alone.

    Source: Zhang et al. 2020, Towards Stable and Efficient Training of Verifiably Robust Neural Networks, section 4.

    Example:
        >>> CrownIBP().name
        'crown-ibp'
    """

    name: ClassVar[str] = "crown-ibp"
    source: ClassVar[str] = "Zhang et al. 2020 (CROWN-IBP)"
    backwards: ClassVar[bool] = False

    def reaches(self, bounds: Bounds, labels: Tensor) -> tuple[Tensor, Tensor]:
        margins, reach = bounds.reaches(labels)
        return torch.maximum(margins, bounds.margins(labels, backwards=False)), reach
