"""Training on interval bounds: cheap, and networks whose certified sizes are large."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Network
from robustatlas.certificates.regions import NormBall
from robustatlas.training.recipes.base import Batch
from robustatlas.training.recipes.bounded import Bounded


@dataclass(frozen=True)
class Ibp(Bounded):
    """kappa CE(f(x), y) + (1 - kappa) CE(z, y), where z are the worst logits by interval bounds (Gowal et al. 2018).

    The last affine layers are multiplied into the margins first (section 3, elision). Strength and kappa are linear
    between shares of the training, those of the source's MNIST. An update costs about two of standard training.
    """

    name: ClassVar[str] = "ibp"
    source: ClassVar[str] = "Gowal et al. 2018 (IBP)"

    warmup: float = 0.2
    clean: float = 1 / 30
    kappa_first: float = 1.0
    kappa: float = 0.5

    def margins(self, network: Network, ball: NormBall, batch: Batch) -> Tensor:
        return Bounds(network, ball, backwards=False).margins(batch.labels, backwards=False)
