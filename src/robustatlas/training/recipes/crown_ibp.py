"""Training on CROWN-IBP: bounds of the margins by lines at first, by intervals in the end."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from robustatlas.certificates.bounds import Bounds
from robustatlas.certificates.network import Network
from robustatlas.certificates.regions import NormBall
from robustatlas.common.errors import UserError
from robustatlas.training.recipes.base import Batch
from robustatlas.training.recipes.bounded import Bounded


@dataclass(frozen=True)
class CrownIbp(Bounded):
    """kappa CE(f(x), y) + (1 - kappa) CE(-m, y) with m = (1 - beta) m(IBP) + beta m(CROWN-IBP) (Zhang et al. 2020,
    section 3.2).

    beta and kappa are linear in the strength while that rises. beta falls from 1 to 0: lines keep training stable as
    long as intervals are loose. kappa is 0, one of the three schedules of the source (0 to 0, 1 to 0, 1 to .5).
    """

    name: ClassVar[str] = "crown-ibp"
    source: ClassVar[str] = "Zhang et al. 2020 (CROWN-IBP)"

    warmup: float = 0.2
    clean: float = 1 / 30
    beta_first: float = 1.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(0 <= beta <= 1 for beta in (self.beta_first, self.beta)):
            raise UserError(f"beta_first={self.beta_first}, beta={self.beta}; expected shares between 0 and 1.")

    def margins(self, network: Network, ball: NormBall, batch: Batch) -> Tensor:
        share = self.beta_first + (self.beta - self.beta_first) * self.strength_share(batch)
        bounds = Bounds(network, ball, backwards=False)
        by_intervals = bounds.margins(batch.labels, backwards=False)
        if not share:
            return by_intervals
        by_lines = bounds.margins(batch.labels, backwards=True)
        return by_lines if share == 1 else (1 - share) * by_intervals + share * by_lines
